"""What goes wrong with a database file is said in the library's own words, with nothing half-written."""

import sqlite3
import threading

import pytest
import sqlalchemy as sa

from flask_jobs import clock
from flask_jobs.drivers.database import DatabaseDriver, create_sql, engine_beside, metadata, open_engine
from flask_jobs.envelope import Ack, Room
from flask_jobs.errors import ConfigurationError, SchemaMissing, StoreRefused
from flask_jobs.ids import new_id
from flask_jobs.stored import Sizes

from .support import count, job, open_driver


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def driver(file):
    driver = open_driver(file)
    yield driver
    driver.close()


def told(file, *pragmas):
    """A driver whose connections are told more than usual."""
    engine = open_engine(f"sqlite:///{file}")
    sa.event.listen(engine, "connect", lambda raw, _: [raw.execute(f"PRAGMA {pragma}") for pragma in pragmas])
    return DatabaseDriver(engine)


def test_a_full_disk_is_named_and_nothing_is_written(file, driver):
    full = told(file, "max_page_count = 30")

    with pytest.raises(StoreRefused, match=r"No space is left for .*jobs\.db; nothing was written"):
        full.push([job(body="x" * 1_000) for _ in range(500)])

    assert driver.size("default") == Sizes()
    assert full.push([job()])[0].stored
    full.close()


def test_a_full_disk_leaves_a_delivery_unsettled_and_its_job_reserved(file, driver):
    driver.push([job()])
    reservations = driver.pop(["default"], new_id(), Room()).reservations
    full = told(file, "max_page_count = 1")
    full.size("default")

    with pytest.raises(StoreRefused):
        full.push([job(body="x" * 100_000)])

    assert driver.settle([Ack(reservation) for reservation in reservations]).stale == ()
    full.close()


def test_a_read_only_file_is_named_with_what_to_do(file, driver):
    driver.push([job()])
    reader = DatabaseDriver(open_engine(f"sqlite:///file:{file}?mode=ro&uri=true"))

    with pytest.raises(StoreRefused, match=r"jobs\.db is read-only.*Let the process write to the file and"):
        reader.push([job()])
    with pytest.raises(StoreRefused, match="read-only"):
        reader.pop(["default"], new_id(), Room())

    assert reader.size("default") == Sizes(ready=1)
    reader.close()


def test_a_lock_held_beyond_the_timeout_is_named_and_nothing_is_written(file, driver):
    impatient = told(file, "busy_timeout = 30")
    holder = sqlite3.connect(file, isolation_level=None)
    impatient.size("default")
    holder.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreRefused, match="stayed locked by another transaction"):
        impatient.push([job()])

    holder.close()
    assert impatient.push([job()])[0].stored
    assert driver.size("default") == Sizes(ready=1)
    impatient.close()


def test_a_missing_directory_is_named(tmp_path):
    driver = DatabaseDriver(open_engine(f"sqlite:///{tmp_path / 'nowhere' / 'jobs.db'}"))

    with pytest.raises(ConfigurationError, match=r"there is no directory .*nowhere\. Make it"):
        driver.push([job()])


def test_another_server_is_refused_with_a_way_out_even_if_its_client_is_missing():
    with pytest.raises(ConfigurationError, match=r"cannot keep jobs on 'oracle'.* JOBS_DEFAULT = 'redis'"):
        open_engine("oracle://127.0.0.1/shop")


def test_a_directory_in_place_of_the_file_is_named(tmp_path):
    driver = DatabaseDriver(open_engine(f"sqlite:///{tmp_path}"))

    with pytest.raises(StoreRefused, match="cannot be opened"):
        driver.push([job()])


def test_a_file_that_is_no_database_is_named(file):
    file.write_text("Dear diary, " * 100)
    driver = DatabaseDriver(open_engine(f"sqlite:///{file}"))

    with pytest.raises(StoreRefused, match="no SQLite database"):
        driver.push([job()])
    driver.close()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&cache=shared&uri=true"]
)
def test_an_in_memory_database_is_refused_at_first_use_with_three_ways_out(url):
    driver = DatabaseDriver(open_engine(url))

    for use in (
        lambda: driver.push([job()]),
        lambda: driver.pop(["default"], new_id(), Room()),
        lambda: driver.size("default"),
        driver.prepare,
    ):
        with pytest.raises(ConfigurationError, match=r"the fake .*'sync'.* a file") as refused:
            use()
        assert "in-memory" in str(refused.value).lower()


def test_an_in_memory_database_of_the_app_is_refused_within_its_transaction_too():
    app_engine = sa.create_engine("sqlite://")
    driver = DatabaseDriver(engine_beside(app_engine), app_engine=app_engine)

    with app_engine.connect() as connection, pytest.raises(ConfigurationError, match="in-memory"):
        driver.push_within(connection, [job()])


def test_tables_are_made_on_first_use(file):
    driver = DatabaseDriver(open_engine(f"sqlite:///{file}"))

    assert driver.size("default") == Sizes()
    assert driver.push([job()])[0].stored
    driver.close()


def test_several_processes_may_prepare_a_new_file_at_once(file):
    errors = []

    def prepare():
        try:
            open_driver(file).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []


def test_tables_that_vanish_are_named_once_and_made_again(driver):
    driver.push([job()])
    with driver.engine.begin() as connection:
        metadata.drop_all(connection)

    with pytest.raises(SchemaMissing, match="flask jobs init-db"):
        driver.push([job()])

    assert driver.push([job()])[0].stored
    assert driver.size("default") == Sizes(ready=1)


def test_tables_of_a_newer_release_are_left_alone(file, driver):
    with driver.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE flask_jobs_schema SET version = 99")
    other = DatabaseDriver(open_engine(f"sqlite:///{file}"))

    for use in (other.prepare, lambda: other.push([job()])):
        with pytest.raises(SchemaMissing, match="of version 99, made by a newer release"):
            use()
    other.close()


def test_the_printed_statements_make_tables_that_work(file):
    connection = sqlite3.connect(file)
    connection.executescript(create_sql(sa.create_engine("sqlite://").dialect))
    connection.close()
    driver = open_driver(file)

    driver.push([job()])

    assert len(driver.pop(["default"], new_id(), Room()).reservations) == 1
    assert count(driver, "flask_jobs_schema") == 1
    driver.close()


def test_an_unknown_clock_is_refused(file):
    with pytest.raises(ConfigurationError, match="'store' or 'local'"):
        DatabaseDriver(open_engine(f"sqlite:///{file}"), clock="sundial")


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("reads_first", [False, True])
def test_tables_made_within_the_apps_transaction_share_its_fate(file, ends, reads_first):
    app_engine = sa.create_engine(f"sqlite:///{file}")
    driver = DatabaseDriver(engine_beside(app_engine), app_engine=app_engine)
    sent = [job(), job()]

    with app_engine.connect() as connection:
        if reads_first:
            connection.exec_driver_sql("SELECT 1")
        assert [pushed.stored for pushed in driver.push_within(connection, sent)] == [True, True]
        getattr(connection, ends)()
        tables = sa.inspect(connection).get_table_names()

    assert ("flask_jobs" in tables) == (ends == "commit")
    assert driver.size("default") == Sizes(ready=2 if ends == "commit" else 0)
    assert driver.push(sent)[0].stored == (ends == "rollback")
    driver.close()
    app_engine.dispose()


def test_tables_are_not_believed_in_before_the_commit_that_makes_them(file):
    app_engine = sa.create_engine(f"sqlite:///{file}")
    driver = DatabaseDriver(engine_beside(app_engine), app_engine=app_engine)
    for _ in range(2):
        with app_engine.connect() as connection:
            driver.push_within(connection, [job()])
            connection.rollback()

    with app_engine.begin() as connection:
        driver.push_within(connection, [job()])

    assert driver.size("default") == Sizes(ready=1)
    driver.close()
    app_engine.dispose()


def test_closing_lets_go_of_the_file_and_the_next_use_opens_it_again(file, driver):
    driver.push([job()])
    driver.wait(["default"], timeout=0.01, stopping=lambda: False)
    driver.close()
    driver.close()

    assert len(driver.pop(["default"], new_id(), Room()).reservations) == 1


def test_an_engine_that_is_not_its_own_stays_open(file):
    engine = open_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        driver = DatabaseDriver(engine, owns_engine=False)
        pool = engine.pool
        driver.push([job()])
        driver.close()

        assert engine.pool is pool
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    engine.dispose()


def replaced(file):
    """Another database takes the file's place, as after a restore."""
    for suffix in ("-wal", "-shm"):
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
    other = file.with_name("other.db")
    open_driver(other, wal=False).close()
    other.replace(file)


def test_what_is_pushed_after_the_file_was_replaced_is_in_the_new_file(file, driver):
    driver.push([job()])
    replaced(file)

    driver.push([job()])

    assert driver.size("default") == Sizes(ready=1)
    with sqlite3.connect(file) as raw:
        assert raw.execute("SELECT count(*) FROM flask_jobs").fetchone() == (1,)
    raw.close()


def test_a_worker_that_waits_hears_of_what_is_pushed_to_the_file_that_replaced_its_own(file, driver):
    driver.wait(["default"], timeout=0.01, stopping=lambda: False)
    replaced(file)
    other = open_driver(file)
    began = clock.monotonic()
    pushing = threading.Timer(0.2, lambda: other.push([job()]))
    pushing.start()

    driver.wait(["default"], timeout=20, stopping=lambda: False)

    pushing.join()
    assert clock.monotonic() - began < 10
    assert driver.size("default") == Sizes(ready=1)
    other.close()


def test_a_deleted_file_is_said_once_and_then_made_anew(file, driver):
    driver.push([job()])
    for path in file.parent.glob("jobs.db*"):
        path.unlink()

    with pytest.raises(SchemaMissing):
        driver.push([job()])

    assert driver.push([job()])[0].stored
