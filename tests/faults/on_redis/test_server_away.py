"""F34: a server that is not there, does not answer or stands still is an error within the limit, never a hang."""

import signal
import socket
import time

import pytest

from flask_jobs.drivers.redis import routes
from flask_jobs.envelope import After, Room
from flask_jobs.errors import ConnectionLost, Stored, StoreRefused
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.chains import chain
from flask_jobs.testing.contract.on_batches import batch
from flask_jobs.testing.contract.support import envelope, pop_one, push

from ...servers import free_port, redis_server

pytestmark = pytest.mark.alone


def seconds_of(call):
    start = time.monotonic()
    with pytest.raises(ConnectionLost) as lost:
        call()
    return time.monotonic() - start, lost.value


@pytest.fixture
def short_limits(monkeypatch):
    monkeypatch.setattr(routes, "CONNECT_LIMIT", 0.3)
    monkeypatch.setattr(routes, "COMMAND_LIMIT", 0.3)


def test_the_limits_are_a_few_seconds_unless_the_url_says_otherwise():
    assert routes.CONNECT_LIMIT + routes.COMMAND_LIMIT < 10


def test_f34_a_refusing_port_is_an_error_at_once_and_nothing_is_stored(open_driver):
    driver = open_driver(f"redis://127.0.0.1:{free_port()}/0")

    took, error = seconds_of(lambda: driver.push([Push(envelope())]))

    assert took < 1
    assert error.stored is Stored.NO
    assert "Nothing was sent" in str(error)


def test_f34_a_server_that_accepts_and_never_answers_is_an_error_within_the_limit(open_driver, short_limits):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        driver = open_driver(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")

        took, error = seconds_of(lambda: driver.push([Push(envelope())]))

    assert took < 2
    assert error.stored is Stored.NO


def test_f34_an_address_that_takes_no_connection_is_an_error_within_the_limit(open_driver, short_limits):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        driver = open_driver(f"redis://127.0.0.1:{full.getsockname()[1]}/0")

        took, error = seconds_of(lambda: driver.push([Push(envelope())]))
        for filler in fillers:
            filler.close()

    assert took < 2
    assert error.stored is Stored.NO


def test_f34_a_limit_in_the_url_goes_before_ours(open_driver, own_server):
    driver = open_driver(f"{own_server.url}?socket_timeout=0.2")
    driver.prepare()
    own_server.signal(signal.SIGSTOP)

    took, _ = seconds_of(lambda: driver.push([Push(envelope())]))

    own_server.signal(signal.SIGCONT)
    assert took < 1


def test_f34_f36_a_server_that_stands_still_is_an_error_and_works_by_itself_when_it_goes_on(
    own_server, open_driver, short_limits
):
    driver = open_driver(own_server.url)
    ids = push(driver)
    own_server.signal(signal.SIGSTOP)

    took, error = seconds_of(lambda: driver.push([Push(envelope())]))
    again, _ = seconds_of(lambda: driver.pop(["default"], "token", Room()))
    own_server.signal(signal.SIGCONT)

    assert max(took, again) < 2
    assert error.stored is Stored.UNKNOWN
    driver.recover("token")
    assert pop_one(driver).envelope.id == ids[0]


def test_f34_every_call_fails_with_an_error_of_the_librarys_own(open_driver):
    driver = open_driver(f"redis://127.0.0.1:{free_port()}/0")
    calls = [
        lambda: driver.push([Push(envelope(), due=After(5.0))]),
        lambda: driver.pop(["default"], "token", Room()),
        lambda: driver.exchange([], ["default"], "token", Room()),
        lambda: driver.recover("token"),
        lambda: driver.held("token"),
        lambda: driver.wait(["default"], timeout=5.0, stopping=lambda: False),
        lambda: driver.size("default"),
        lambda: driver.prepare(),
        lambda: driver.queues(),
        lambda: driver.jobs("default"),
        lambda: driver.find("id"),
        lambda: driver.cancel("id"),
        lambda: driver.clear("default"),
        lambda: driver.pause("default"),
        lambda: driver.resume("default"),
        lambda: driver.paused(),
        lambda: driver.failed(),
        lambda: driver.find_failed("id"),
        lambda: driver.count_failed(),
        lambda: driver.newest_failed(),
        lambda: driver.retry("id", "new"),
        lambda: driver.retry_many(lambda: "new", upto=5),
        lambda: driver.forget("id"),
        lambda: driver.flush(),
        lambda: driver.holder("digest"),
        lambda: driver.push_chain(chain()),
        lambda: driver.chain("id"),
        lambda: driver.push_batch(batch()),
        lambda: driver.add_to_batch("id", []),
        lambda: driver.batch("id"),
        lambda: driver.batches(),
        lambda: driver.cancel_batch("id"),
        lambda: driver.prune_batches(older_than=0.0),
    ]

    for call in calls:
        with pytest.raises(ConnectionLost):
            call()


def test_a_wrong_password_is_refused_and_the_message_does_not_show_it(tmp_path, open_driver):
    with redis_server(tmp_path, "--save", "") as server:
        server.client().config_set("requirepass", "right")
        driver = open_driver(server.url.replace("redis://", "redis://:wrong-secret@"))

        with pytest.raises(StoreRefused) as refused:
            driver.size("default")

        good = open_driver(server.url.replace("redis://", "redis://:right@"))
        assert good.size("default") == Sizes()
    assert "wrong-secret" not in str(refused.value)
