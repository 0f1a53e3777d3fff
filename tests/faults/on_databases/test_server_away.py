"""A server that refuses, keeps silent or ends sessions: calls fail in time, say so, and later work by themselves."""

import contextlib
import os
import socket
import threading
import time

import pytest
import sqlalchemy as sa

from flask_jobs import clock
from flask_jobs.drivers.database import DatabaseDriver, open_engine, server_engines
from flask_jobs.drivers.database.dialects import postgresql
from flask_jobs.envelope import Ack, Room
from flask_jobs.errors import ConnectionLost, SchemaMissing, Stored
from flask_jobs.ids import new_id
from flask_jobs.stored import Sizes
from tests.databases import own_database, required_server
from tests.faults.support import job
from tests.proxy import proxy_to
from tests.servers import free_port, wait_until

STEPS = {
    "push": lambda driver: driver.push([job()]),
    "pop": lambda driver: driver.pop(["default"], new_id(), Room()),
    "size": lambda driver: driver.size("default"),
    "prepare": lambda driver: driver.prepare(),
    "wait": lambda driver: driver.wait(["default"], timeout=30, stopping=lambda: False),
}


def failing(step, driver):
    """The error, and the seconds it took."""
    before = clock.monotonic()
    with pytest.raises(ConnectionLost) as caught:
        step(driver)
    return caught.value, clock.monotonic() - before


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_f34_a_port_that_refuses_is_an_error_at_once(engine, open_driver, step):
    driver = open_driver(engine.url.set(host="127.0.0.1", port=free_port()))

    error, seconds = failing(step, driver)

    assert error.stored is Stored.NO
    assert seconds < 2.0
    assert "password" not in str(error)


def test_f34_a_listener_that_never_answers_is_an_error_within_its_limit(engine, open_driver, monkeypatch):
    monkeypatch.setattr(server_engines, "CONNECT_TIMEOUT", 2)
    monkeypatch.setattr(server_engines, "ANSWER_TIMEOUT", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        driver = open_driver(engine.url.set(host="127.0.0.1", port=silent.getsockname()[1]))

        error, seconds = failing(STEPS["push"], driver)

    assert error.stored is Stored.NO
    assert seconds < 4.0


def test_f34_a_server_that_stops_answering_is_an_error_within_its_limit(engine, open_driver, monkeypatch):
    monkeypatch.setattr(server_engines, "ANSWER_TIMEOUT", 2)
    monkeypatch.setattr(postgresql, "STATEMENT_SECONDS", 0)
    port = engine.url.port or (5432 if engine.dialect.name == "postgresql" else 3306)
    with proxy_to(port, is_redis=False) as proxy:
        driver = open_driver(engine.url.set(host="127.0.0.1", port=proxy.port))
        driver.size("default")
        proxy.freeze()

        error, seconds = failing(STEPS["push"], driver)

        proxy.thaw()
        assert seconds < 4.0
        assert error.stored in (Stored.NO, Stored.UNKNOWN)
        driver.push([job()])


SESSIONS = {
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "SELECT pg_terminate_backend({})",
    ),
    "mariadb": (
        "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
        "KILL {}",
    ),
}


def end_all_sessions(engine):
    """End all sessions of the database from the server's side, and return when they are gone."""
    find, end = SESSIONS[engine.dialect.name]
    own = open_engine(engine.url)
    with own.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        ended = set(connection.exec_driver_sql(find).scalars())
        for number in ended:
            with contextlib.suppress(sa.exc.DBAPIError):  # it has ended by itself
                connection.exec_driver_sql(end.format(number))
        wait_until(lambda: ended.isdisjoint(connection.exec_driver_sql(find).scalars()), what="the end of the sessions")
    own.dispose()
    # What other tests share is known to be lost.
    engine.dispose()


def test_f24_idle_sessions_that_were_ended_are_replaced_unnoticed(engine, open_driver):
    driver = open_driver()
    driver.push([job()])
    driver.wait(["default"], timeout=1.0, stopping=lambda: False)
    end_all_sessions(engine)

    driver.push([job()])

    assert driver.size("default") == Sizes(ready=2)


def test_f24_workers_go_on_while_all_sessions_are_ended_again_and_again(engine, open_driver):
    driver = open_driver()
    ids = {pushed.id for pushed in driver.push([job() for _ in range(120)])}
    done, errors, deadline = [], [], clock.monotonic() + 30

    def work():
        worker = DatabaseDriver(open_engine(engine.url), retry_after=60.0)
        settlements = []
        while len(set(done)) < len(ids) and clock.monotonic() < deadline:
            token = new_id()
            try:
                answer = worker.exchange(settlements, ["default"], token, Room())
            except ConnectionLost as error:
                errors.append(error)
                recovered = False
                while not recovered:
                    with contextlib.suppress(ConnectionLost):
                        worker.recover(token)
                        recovered = True
                continue
            done.extend(one.reservation.envelope.id for one in settlements if one not in answer.stale)
            settlements = [Ack(reservation) for reservation in answer.popped.reservations]
            time.sleep(0.005)
        worker.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for _ in range(5):
        time.sleep(0.1)
        end_all_sessions(engine)
    for worker in workers:
        worker.join(30)

    assert sorted(done) == sorted(ids)
    assert open_driver().size("default") == Sizes()


def test_missing_tables_are_named_with_the_command_that_makes_them(server, open_driver):
    with own_database(required_server(server), f"flask_jobs_test_bare_{os.getpid()}") as url:
        driver = open_driver(url)

        with pytest.raises(SchemaMissing, match="flask jobs init-db"):
            driver.push([job()])
        driver.prepare()
        assert driver.push([job()])[0].stored

        with driver.engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE flask_jobs"))
        with pytest.raises(SchemaMissing, match="flask jobs init-db"):
            driver.push([job()])
        driver.close()
