from __future__ import annotations

import sqlite3
import subprocess
import sys
from typing import Any

from flask_jobs.cli import jobs_cli


def tables(shop: Any) -> set[str]:
    with sqlite3.connect(shop.folder / "shop.sqlite") as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'flask_jobs%'").fetchall()
    connection.close()
    return {name for (name,) in rows}


def test_init_db_makes_the_tables_and_may_be_repeated(shop: Any) -> None:
    first, again = shop.flask("init-db"), shop.invoke("init-db")

    assert (first.returncode, again.exit_code) == (0, 0)
    assert first.stdout == again.stdout == "The tables of connection database are ready.\n"
    assert {"flask_jobs", "flask_jobs_failed"} <= tables(shop)


def test_init_db_says_in_json_that_the_tables_are_ready(shop: Any) -> None:
    assert shop.json("init-db") == {"connection": "database", "driver": "database", "ready": True}


def test_a_store_without_tables_needs_nothing(shop: Any) -> None:
    shop.config["JOBS_DEFAULT"] = "sync"

    said = shop.invoke("init-db")

    assert (said.exit_code, said.stdout) == (0, "Connection sync (driver sync) needs no tables.\n")
    assert shop.json("init-db") == {"connection": "sync", "driver": "sync", "ready": True}
    assert shop.invoke("init-db", "--sql").stdout.strip() == ""


def test_init_db_prints_statements_that_make_the_tables(shop: Any) -> None:
    statements = shop.flask("init-db", "--sql").stdout

    assert tables(shop) == set()
    with sqlite3.connect(shop.folder / "shop.sqlite") as connection:
        connection.executescript(statements)
    connection.close()
    assert shop.json("status")["failed"] == 0
    assert shop.json("init-db", "--sql")["sql"].rstrip() == statements.rstrip()


def test_the_commands_are_found_with_an_app_factory_of_a_package(shop: Any) -> None:
    command = [part.replace("/shop.py:", "/shop:") for part in shop.command("status")]
    folder, _, _ = next(part for part in command if part.endswith(":create_app")).rpartition("/")
    command = ["shop:create_app" if part.endswith(":create_app") else part for part in command]

    result = subprocess.run(
        command, env={**shop.surroundings, "PYTHONPATH": folder}, cwd=shop.folder, capture_output=True, text=True
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_every_command_has_its_help(shop: Any) -> None:
    for name in jobs_cli.commands:
        result = shop.invoke(name, "--help")

        assert result.exit_code == 0
        assert "--connection" in result.stdout
        assert "--json" in result.stdout


def test_the_library_is_imported_without_its_command_line() -> None:
    code = "import sys, flask_jobs; print({'rich', 'flask_jobs.cli'} & set(sys.modules))"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stdout == "set()\n"


def test_a_store_that_cannot_be_reached_is_a_message_and_no_traceback(shop: Any) -> None:
    missing = f"sqlite:///{shop.folder}/missing/jobs.sqlite"
    shop.config["JOBS_CONNECTIONS"] = {"database": {"url": missing}}

    result = shop.invoke("status")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert result.exception is None or isinstance(result.exception, SystemExit)
