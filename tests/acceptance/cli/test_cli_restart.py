from __future__ import annotations

from typing import Any

from flask_jobs import restarts
from flask_jobs.driver import KeepsLocks


def mark(shop: Any, connection: str | None = None) -> int:
    """What a worker of the connection sees."""
    with shop.driver(connection) as driver:
        assert isinstance(driver, KeepsLocks)
        return restarts.asked(driver.store)


def test_restart_asks_the_workers_and_says_what_will_happen(shop: Any) -> None:
    before = mark(shop)

    result = shop.invoke("restart")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "Workers of connection database will leave after their current job; their process manager starts them again.\n"
    )
    assert mark(shop) != before


def test_each_restart_is_seen_by_workers_that_have_seen_the_one_before(shop: Any) -> None:
    shop.invoke("restart")
    seen = mark(shop)

    asked = shop.flask("restart")

    assert asked.returncode == 0, asked.stderr
    with shop.driver() as driver:
        assert restarts.is_asked(driver.store, seen)


def test_restart_in_json(shop: Any) -> None:
    assert shop.json("restart") == {"connection": "database", "asked": True}


def test_restart_asks_the_workers_of_the_named_connection_only(shop: Any) -> None:
    shop.config["JOBS_CONNECTIONS"] = {"reports": {"driver": "database", "url": f"sqlite:///{shop.folder}/reports.db"}}

    document = shop.json("restart", "--connection", "reports")

    assert document == {"connection": "reports", "asked": True}
    assert mark(shop, "reports") != 0
    assert mark(shop) == 0


def test_a_connection_without_a_store_cannot_restart_its_workers(shop: Any) -> None:
    result = shop.invoke("restart", "--connection", "sync")

    assert result.exit_code == 1
    assert "The connection 'sync' (driver 'sync') cannot tell workers to restart" in result.stderr


def test_an_unknown_connection_is_a_usage_error(shop: Any) -> None:
    result = shop.invoke("restart", "--connection", "redsi")

    assert result.exit_code == 2
    assert "no connection 'redsi'" in result.stderr
