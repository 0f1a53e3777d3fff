"""The recipes of the page on the schema, with Flask-Migrate's own commands on real databases."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from flask_jobs.drivers.database import metadata
from tests.databases import POSTGRESQL, own_database, required_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # commands are processes of their own

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text("utf-8")

APP = """
from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_jobs import Jobs

db = SQLAlchemy(model_class=type("Base", (DeclarativeBase,), {}))
jobs = Jobs()
app = Flask(__name__)
app.config.from_prefixed_env()
db.init_app(app)
jobs.init_app(app)


@jobs.task("greet")
def greet(name: str) -> None:
    print(f"Hello, {name}!")


class Order(db.Model):
    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str] = mapped_column(index=True)


"""


OF_JOBS = {table.name for table in metadata.sorted_tables}
RUN_A_JOB = ("jobs dispatch greet --field name=Ada", "jobs work --stop-when-empty")

COMMANDS = """
import sys
from flask.cli import FlaskGroup

for command in sys.argv[1:]:
    FlaskGroup(name="flask").main(["--app", "app", *command.split()], standalone_mode=False)
"""


def from_page(pattern: str) -> str:
    """What the page says to write."""
    found = re.search(pattern, PAGE, re.DOTALL)
    assert found is not None, pattern
    return found[0]


@contextmanager
def on_sqlite(folder: Path) -> Iterator[sa.URL]:
    yield sa.URL.create("sqlite", database=str(folder / "shop.sqlite"))


@contextmanager
def on_postgresql(folder: Path) -> Iterator[sa.URL]:
    with own_database(required_server(POSTGRESQL), f"flask_jobs_migrations_{os.getpid()}") as url:
        yield url


class Project:
    """An app in a folder, and `flask` in it."""

    def __init__(self, folder: Path, url: sa.URL) -> None:
        self.folder = folder
        self.url = url

    def write(self, setting_up: str) -> None:
        (self.folder / "app.py").write_text(APP + setting_up, "utf-8")

    def flask(self, *commands: str) -> str:
        """What the commands say, run one after the other in one process, once they have succeeded."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FLASK_")}
        ours = {
            "FLASK_SECRET_KEY": "x",
            "FLASK_SQLALCHEMY_DATABASE_URI": self.url.render_as_string(hide_password=False),
        }
        command = [sys.executable, "-c", COMMANDS, *commands]
        done = subprocess.run(
            command, cwd=self.folder, env=kept | ours, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def migration(self) -> str:
        """The text of the one migration that was made."""
        (path,) = (self.folder / "migrations" / "versions").glob("*.py")
        return path.read_text("utf-8")

    def tables(self) -> set[str]:
        engine = sa.create_engine(self.url)
        names = set(sa.inspect(engine).get_table_names())
        engine.dispose()
        return names


@pytest.fixture(params=[on_sqlite, on_postgresql])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    on: Callable[[Path], AbstractContextManager[sa.URL]] = request.param
    with on(tmp_path) as url:
        yield Project(tmp_path, url)


def test_migrations_leave_the_tables_of_jobs_alone_when_they_are_told_to_look_away(project: Project) -> None:
    project.write(from_page(r"def include_object.*?(?=```)") + from_page(r"Migrate\(app, db, [^\n]+"))

    project.flask("jobs init-db", "db init", "db migrate", "db upgrade")

    assert "flask_jobs" not in project.migration()
    assert project.tables() == OF_JOBS | {"order", "alembic_version"}
    assert "No new upgrade operations detected" in project.flask("db check", "db downgrade")
    assert project.tables() == OF_JOBS | {"alembic_version"}
    assert "Hello, Ada!" in project.flask(*RUN_A_JOB)


def test_migrations_make_the_tables_of_jobs_when_they_are_given_the_metadata(project: Project) -> None:
    project.write("Migrate(app, db)\n")
    project.flask("db init")
    env = project.folder / "migrations" / "env.py"
    given, wanted = "target_metadata=get_metadata()", from_page(r"target_metadata=\[[^\n]+")
    assert env.read_text("utf-8").count(given) == 2
    imported = from_page(r"from flask_jobs\.drivers\.database import metadata as [^\n]+")
    env.write_text(f"{imported}\n{env.read_text('utf-8').replace(given, wanted)}", "utf-8")

    project.flask("db migrate", "db upgrade")
    made = project.tables()
    said = project.flask("jobs init-db", "db check", *RUN_A_JOB)

    assert made == project.tables() == OF_JOBS | {"order", "alembic_version"}
    assert "No new upgrade operations detected" in said
    assert "Hello, Ada!" in said
