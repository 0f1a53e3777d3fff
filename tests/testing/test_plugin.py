"""The pytest plugin, in projects of its users: each test runs pytest in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

APP = """
    import pytest
    from flask import Flask
    from flask_jobs import Job, Jobs

    jobs = Jobs()

    @jobs.register("greet")
    class Greet(Job):
        def __init__(self, name):
            self.name = name

        def handle(self):
            print("hello", self.name)

    def create_app():
        app = Flask("user", instance_path="{folder}")
        app.config.update(SECRET_KEY="x", TESTING=True)
        jobs.init_app(app)

        @app.post("/greet/<name>")
        def greet(name):
            return jobs.dispatch(Greet(name)).id

        return app
"""


def run(folder: Path, *arguments: str, **files: str) -> str:
    """What pytest says in a project with these files."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text).replace("{folder}", str(folder)))
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_fixture_takes_the_users_own_app(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        shop=APP,
        conftest="""
            import pytest
            from shop import create_app

            @pytest.fixture
            def app():
                return create_app()
        """,
        test_greetings="""
            from shop import Greet, jobs

            def test_a_request_dispatches(app, jobs_fake):
                app.test_client().post("/greet/ada")
                jobs_fake.assert_pushed_once(Greet, lambda job: job.name == "ada")

            def test_each_test_has_its_own(app, jobs_fake, capsys):
                jobs_fake.assert_nothing_pushed()
                with app.app_context():
                    jobs.dispatch(Greet("bob"))
                jobs_fake.drain()
                assert capsys.readouterr().out == "hello bob\\n"

            def test_which_fails(app, jobs_fake):
                jobs_fake.assert_pushed(Greet)
        """,
    )

    assert "2 passed" in output
    assert "1 failed" in output
    assert "AssertionError: Greet was not pushed." in output
    assert not (tmp_path / "jobs.sqlite").exists()


def test_an_app_without_jobs_is_named(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        test_plain="""
            import flask, pytest

            @pytest.fixture
            def app():
                return flask.Flask("plain")

            def test_it(jobs_fake):
                pass
        """,
    )

    assert "The app 'plain' has no Jobs: call jobs.init_app(app) in its factory." in output


def test_a_project_without_an_app_fixture_is_told_which_one_is_missing(tmp_path: Path) -> None:
    output = run(tmp_path, test_it="def test_it(jobs_fake): pass")

    assert "fixture 'app' not found" in output


@pytest.mark.parametrize("module", ["sqlalchemy", "flask_jobs.state", "flask_jobs.testing.fake"])
def test_a_project_that_does_not_use_it_pays_nothing(tmp_path: Path, module: str) -> None:
    output = run(
        tmp_path,
        test_other=f"""
            import sys

            def test_it():
                assert {module!r} not in sys.modules
        """,
    )

    assert "1 passed" in output
