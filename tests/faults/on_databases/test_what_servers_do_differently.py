"""Where database servers differ, and jobs must not: deadlocks, letters, zones, sizes, isolation, abilities."""

import os
import threading
import time

import pymysql
import pytest
import sqlalchemy as sa

from flask_jobs import clock
from flask_jobs.drivers.database import DatabaseDriver, metadata, open_engine
from flask_jobs.envelope import Ack, After, Envelope, Room
from flask_jobs.errors import ConfigurationError, SchemaMissing, StoreRefused
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from tests.databases import MARIADB, POSTGRESQL, own_database, required_server
from tests.faults.support import count, job
from tests.processes import wait_until


def test_f25_a_deadlock_is_run_again_and_seen_by_nobody(engine, driver):
    first, second = (pushed.id for pushed in driver.push([job(), job()]))
    cleared = []
    lock = sa.text("UPDATE flask_jobs SET progress = :much WHERE id = :id")
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as other:
        # The server gives up the transaction that has written less.
        other.execute(lock, {"much": "x" * 100_000, "id": second})
        clearing = threading.Thread(target=lambda: cleared.append(driver.clear("default")))
        clearing.start()
        wait_until_somebody_waits(engine)

        other.execute(lock, {"much": "x" * 100_000, "id": first})

        other.commit()
    clearing.join(20)
    assert cleared == [2]
    assert count(driver, "flask_jobs") == 0


def wait_until_somebody_waits(engine):
    wait_until(lambda: waiting(engine) > 0, what="somebody who waits")


def waiting(engine):
    """How many wait for a lock in this database."""
    if engine.dialect.name != "postgresql":
        time.sleep(0.15)  # what this table shows is renewed only when nobody has asked for a tenth of a second
    question = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        if engine.dialect.name == "postgresql"
        else "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p "
        "ON p.id = t.trx_mysql_thread_id WHERE p.db = database() AND t.trx_state = 'LOCK WAIT'"
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        return connection.exec_driver_sql(question).scalar()


def test_names_that_differ_in_case_alone_are_different(driver):
    driver.push([Push(Envelope("id-a", "shop.a", "Mail", "{}")), Push(Envelope("ID-A", "shop.A", "mail", "{}"))])
    driver.pause("MAIL")

    assert driver.queues() == ["MAIL", "Mail", "mail"]
    assert [one.envelope.id for one in driver.pop(["mail"], new_id(), Room()).reservations] == ["ID-A"]
    assert driver.size("Mail") == Sizes(ready=1)
    assert driver.find("Id-a") is None


def test_texts_come_back_whatever_letters_they_have(driver):
    text = "žluťoučký 🐎 '\"\\ %s %(x)s {now} ; --"
    driver.push([Push(Envelope(new_id(), "shop.send-invoice", "default", text))])

    (reservation,) = driver.pop(["default"], new_id(), Room()).reservations

    assert reservation.envelope.body == text


def test_the_servers_clock_is_epoch_seconds_whatever_the_zone_of_the_session(server, engine):
    zoned = sa.create_engine(engine.url)
    driver = DatabaseDriver(zoned)
    statement = "SET TIME ZONE 'America/St_Johns'" if server == POSTGRESQL else "SET time_zone = '-03:30'"

    @sa.event.listens_for(zoned, "checkout")
    def zone(connection, *_):
        connection.cursor().execute(statement)

    try:
        driver.push([job()])
        (reservation,) = driver.pop(["default"], new_id(), Room()).reservations
    finally:
        driver.close()

    assert reservation.now == pytest.approx(clock.now(), abs=5.0)
    assert reservation.pushed_at == pytest.approx(reservation.now, abs=5.0)


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_an_apps_engine_may_have_any_isolation(server, engine, isolation):
    app_engine = sa.create_engine(engine.url, isolation_level=isolation)
    driver = DatabaseDriver(app_engine, app_engine=app_engine)
    with app_engine.begin() as connection:
        driver.push_within(connection, [job(), job()])
    room = Room(2, 1.0, {"shop.send-invoice": 0.001})

    settlements = [Ack(one) for one in driver.exchange([], ["default"], new_id(), room).popped.reservations]

    assert len(settlements) == 2
    assert driver.exchange(settlements, ["default"], new_id(), room).stale == ()
    assert count(driver, "flask_jobs") == 0
    with app_engine.connect() as connection:
        assert connection.get_isolation_level() == isolation
    driver.close()
    app_engine.dispose()


def test_two_transactions_of_the_apps_push_side_by_side(engine, app_engine):
    driver = DatabaseDriver(engine, app_engine=app_engine, owns_engine=False)
    with app_engine.connect() as one, app_engine.connect() as other:
        for connection in (one, other, one, other):
            driver.push_within(connection, [job()])
        one.commit()
        other.commit()

    assert driver.size("default") == Sizes(ready=4)


def test_making_the_tables_at_the_same_time_is_no_error(open_driver):
    drivers = [open_driver() for _ in range(4)]
    errors = []

    def prepare(driver):
        try:
            driver.prepare()
        except Exception as error:  # whatever it is, it must not happen
            errors.append(error)

    with drivers[0].engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE flask_jobs_paused"))
    threads = [threading.Thread(target=prepare, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []


@pytest.fixture
def restricted_url(server):
    """A database without tables, as a user who may read and write it sees it."""
    url, user = required_server(server), f"flask_jobs_reader_{os.getpid()}"
    with own_database(url, f"flask_jobs_bare_{os.getpid()}") as bare:
        make, drop = {
            POSTGRESQL: ([f"CREATE ROLE {user} LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC"], f"ROLE {user}"),
            MARIADB: (
                [
                    f"CREATE USER {user}@'%%'",
                    f"GRANT SELECT, INSERT, UPDATE, DELETE ON {bare.database}.* TO {user}@'%%'",
                ],
                f"USER {user}@'%%'",
            ),
        }[server]
        execute(bare, *make)
        yield bare.set(username=user, password=None)
        execute(bare, f"DROP {drop}")


def execute(url, *statements):
    engine = open_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_who_may_not_make_the_tables_is_told_that_they_are_missing(open_driver, restricted_url):
    driver = open_driver(restricted_url)

    with pytest.raises(SchemaMissing, match=r"are missing in .* its user may not make them") as told:
        driver.prepare()

    driver.close()
    assert "flask jobs init-db" in str(told.value)


def test_who_may_not_use_the_tables_is_told_what_to_grant(open_driver, restricted_url, server):
    prepared = open_driver(restricted_url.set(username="root" if server == MARIADB else "postgres"))
    prepared.prepare()
    if server == MARIADB:
        user = f"{restricted_url.username}@'%%'"
        execute(prepared.engine.url, f"REVOKE INSERT ON {restricted_url.database}.* FROM {user}")
    driver = open_driver(restricted_url)

    with pytest.raises(StoreRefused, match="Grant it SELECT, INSERT, UPDATE and DELETE on the flask_jobs tables"):
        driver.push([job()])

    driver.close()
    prepared.close()


def test_the_statements_that_make_the_tables_are_told_for_this_server(server, driver):
    statements = driver.create_sql()

    assert ("BIGSERIAL" if server == POSTGRESQL else "utf8mb4_bin") in statements
    assert statements.count("CREATE TABLE") == len(metadata.tables)


@pytest.mark.parametrize(
    ("url", "install"),
    [
        ("postgresql+psycopg://localhost/shop", 'pip install "psycopg[binary]>=3.1"'),
        ("mysql+pymysql://localhost/shop", 'pip install "PyMySQL>=1.1"'),
    ],
)
def test_a_missing_package_is_named_with_its_install_line(monkeypatch, url, install):
    def missing(*_):
        raise ModuleNotFoundError("no such package")

    monkeypatch.setattr(sa.make_url(url).get_dialect(), "import_dbapi", missing)

    with pytest.raises(ConfigurationError) as caught:
        open_engine(url)

    assert install in str(caught.value)


class TestMariadbAlone:
    @pytest.fixture
    def server(self):
        return MARIADB

    def test_a_job_larger_than_the_servers_limit_is_refused_and_leaves_nothing(self, engine, driver):
        with engine.connect() as connection:
            limit = connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar()

        with pytest.raises(StoreRefused, match="max_allowed_packet"):
            driver.push([job(), job(body="x" * limit)])

        assert driver.size("default") == Sizes()

    def test_many_large_jobs_are_stored_in_as_many_statements_as_it_takes(self, driver):
        pushed = driver.push([job(body="x" * 900_000) for _ in range(25)])

        assert all(answer.stored for answer in pushed)
        assert driver.size("default") == Sizes(ready=25)
        driver.clear("default")

    def test_a_server_that_cannot_skip_locked_rows_is_refused(self, engine, monkeypatch):
        asked = []

        class OldServer(pymysql.cursors.Cursor):
            def execute(self, query, args=None):
                asked.append(query)
                return super().execute(query.replace("SKIP LOCKED", "SKIP NOTHING"), args)

        old = sa.create_engine(engine.url, connect_args={"cursorclass": OldServer})

        with pytest.raises(ConfigurationError, match="SKIP LOCKED"):
            DatabaseDriver(old).push([job()])

        old.dispose()
        assert asked

    def test_a_table_in_another_letters_database_holds_any_letter(self, engine):
        with engine.connect() as connection:
            table = connection.exec_driver_sql("SHOW CREATE TABLE flask_jobs").one()[1]

        assert "utf8mb4_bin" in table
        assert "latin1" not in table


class TestPostgresqlAlone:
    @pytest.fixture
    def server(self):
        return POSTGRESQL

    def test_pops_and_acks_are_not_flushed_and_all_else_is(self, engine, open_driver):
        driver = open_driver(engine.url.update_query_dict({"options": "-c synchronous_commit=on"}))
        driver.push([job(), job()])
        with engine.connect() as connection:
            connection.exec_driver_sql(_NOTING_DURABILITY)
        try:
            driver.push([job()])
            popped = driver.exchange([], ["default"], new_id(), Room()).popped.reservations
            driver.settle([Ack(popped[0])])
            driver.push([job(due=After(60.0)), job(front=True)])
            with engine.connect() as connection:
                found = connection.exec_driver_sql("SELECT DISTINCT what, level FROM levels ORDER BY what").all()
        finally:
            with engine.connect() as connection:
                connection.exec_driver_sql("DROP TABLE levels; DROP FUNCTION note_level CASCADE")

        assert found == [("DELETE", "off"), ("INSERT", "on"), ("UPDATE", "off")]

    def test_nothing_is_left_behind_in_a_session(self, driver, open_driver):
        driver.push([job()])
        driver.exchange([], ["default"], new_id(), Room())
        driver.push([job(front=True)])
        shown = ("synchronous_commit", "statement_timeout", "enable_seqscan", "default_transaction_isolation")
        with driver.engine.connect() as connection, open_driver().engine.connect() as fresh:
            used = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in shown]
            untouched = [fresh.exec_driver_sql(f"SHOW {name}").scalar() for name in shown]
            prepared = connection.exec_driver_sql("SELECT name FROM pg_prepared_statements").scalars().all()

        assert used == untouched
        assert all(name.startswith("flask_jobs_") for name in prepared)

    def test_no_statement_is_prepared_in_a_session_of_the_apps(self, app_engine):
        driver = DatabaseDriver(app_engine, owns_engine=False)
        driver.push([job()])
        driver.exchange([], ["default"], new_id(), Room())
        with app_engine.connect() as connection:
            prepared = connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar()

        assert prepared == 0


_NOTING_DURABILITY = """
CREATE TABLE levels (what text, level text);
CREATE FUNCTION note_level() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO levels VALUES (TG_OP, current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE TRIGGER note_level AFTER INSERT OR UPDATE OR DELETE ON flask_jobs
FOR EACH STATEMENT EXECUTE FUNCTION note_level();
"""
