"""F36: Redis comes back different, and everything works on by itself."""

import signal
import threading
import time
from contextlib import suppress

import pytest
import redis

from flask_jobs.envelope import Ack
from flask_jobs.errors import ConnectionLost, StoreRefused
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.support import envelope, id_list, pop, pop_one, push, roomy

from ...proxy import proxy_to
from ...servers import free_port, redis_server, wait_until


@pytest.fixture
def own_driver(own_server, open_driver):
    return open_driver(f"{own_server.url}?socket_timeout=1")


def test_f36_killed_connections_are_opened_again_before_anything_is_sent(own_server, own_driver):
    ids = push(own_driver)
    own_server.client().client_kill_filter(_type="normal", skipme=True)

    ids += push(own_driver)

    assert id_list([pop_one(own_driver), pop_one(own_driver)]) == ids


def test_f36_a_restart_with_its_data_loses_nothing_and_reloads_the_scripts(own_server, own_driver):
    ids = push(own_driver, 3)
    held = pop_one(own_driver)

    own_server.stop()
    with pytest.raises(ConnectionLost):
        own_driver.push([Push(envelope())])
    own_server.start()

    assert own_driver.settle([Ack(held)]).stale == ()
    assert id_list(pop(own_driver, room=roomy()).reservations) == ids[1:]


def test_f36_a_server_killed_at_once_keeps_what_it_had_written(own_server, own_driver):
    own_server.client().config_set("appendfsync", "always")
    ids = push(own_driver, 3)

    own_server.kill()
    own_server.start()

    assert id_list(pop(own_driver, room=roomy()).reservations) == ids


def test_f36_forgotten_scripts_are_sent_again(own_server, own_driver):
    ids = push(own_driver, 2)
    own_server.client().script_flush()

    first = pop_one(own_driver)
    own_server.client().script_flush()
    exchange = own_driver.exchange([Ack(first)], ["default"], new_id(), roomy())

    assert id_list(exchange.popped.reservations) == ids[1:]


def test_f36_a_read_only_replica_is_refused_and_served_again_as_a_primary(own_server, own_driver):
    ids = push(own_driver)
    own_server.client().replicaof("127.0.0.1", free_port())

    with pytest.raises((StoreRefused, ConnectionLost)) as refused:
        own_driver.push([Push(envelope())])
    own_server.client().replicaof("NO", "ONE")

    assert "read-only replica" in str(refused.value)
    assert own_driver.size("default") == Sizes(ready=1)
    assert pop_one(own_driver).envelope.id == ids[0]


def test_f36_the_address_leads_to_a_promoted_replica(own_server, open_driver, tmp_path_factory):
    with (
        redis_server(tmp_path_factory.mktemp("replica"), "--save", "") as replica,
        proxy_to(own_server.port) as proxy,
    ):
        driver = open_driver(proxy.url)
        ids = push(driver, 2)
        held = pop_one(driver)
        replica.client().replicaof("127.0.0.1", own_server.port)
        wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up", what="the replica")
        wait_until(lambda: replica.client().dbsize() == own_server.client().dbsize(), what="its data")

        replica.client().replicaof("NO", "ONE")
        own_server.client().replicaof("127.0.0.1", replica.port)
        proxy.target = replica.port
        # The open connection still leads to the old primary, which has become a replica.
        with pytest.raises((StoreRefused, ConnectionLost)):
            driver.settle([Ack(held)])

        assert driver.settle([Ack(held)]).stale == ()
        assert pop_one(driver).envelope.id == ids[1]
        driver.close()


def test_f36_paused_clients_are_served_when_the_pause_ends(own_server, own_driver):
    own_server.client().client_pause(300, all=False)

    ids = push(own_driver)

    assert pop_one(own_driver).envelope.id == ids[0]


def test_f36_an_idle_worker_notices_that_the_server_has_been_replaced(own_server, own_driver, open_driver):
    errors = []
    woken = threading.Event()

    def wait():
        while not woken.is_set():
            try:
                own_driver.wait(["default"], timeout=0.5, stopping=woken.is_set)
                if own_driver.size("default").ready:
                    woken.set()
            except ConnectionLost as error:
                errors.append(error)
                time.sleep(0.02)

    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_until(lambda: own_server.client().info("clients")["blocked_clients"] == 1, what="the blocked worker")
    own_server.stop()
    own_server.start()
    push(open_driver(own_server.url))

    try:
        assert woken.wait(5)
    finally:
        woken.set()
        waiter.join()
    assert errors


def test_f36_work_goes_on_through_all_of_it_and_every_job_ends_once(own_server, open_driver):
    """A producer and a worker that try again, while the server is cut off, flushed, demoted, stopped and restarted."""
    url = f"{own_server.url}?socket_timeout=1"
    producer, worker = open_driver(url), open_driver(url)
    done, pushed, errors = [], [], []
    closing = threading.Event()

    def patiently(call):
        while True:
            try:
                return call()
            except (ConnectionLost, StoreRefused):
                time.sleep(0.02)

    def produce():
        while not closing.is_set():
            sent = Push(envelope())
            patiently(lambda sent=sent: producer.push([sent]))
            pushed.append(sent.envelope.id)
            time.sleep(0.01)

    def work():
        while threads[0].is_alive() or len(done) < len(pushed):
            token = new_id()
            try:
                reservations = pop(worker, token=token).reservations
            except (ConnectionLost, StoreRefused):
                time.sleep(0.02)
                patiently(lambda token=token: worker.recover(token))
                continue
            for reservation in reservations:
                done.append(reservation.envelope.id)
                errors.extend(patiently(lambda held=reservation: worker.settle([Ack(held)]).stale))

    threads = [threading.Thread(target=produce), threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    try:
        admin = own_server.client()
        for trouble in (
            lambda: admin.client_kill_filter(_type="normal", skipme=True),
            lambda: admin.script_flush(),
            lambda: admin.replicaof("127.0.0.1", free_port()),
            lambda: admin.replicaof("NO", "ONE"),
            lambda: own_server.signal(signal.SIGSTOP),
            lambda: own_server.signal(signal.SIGCONT),
            lambda: own_server.stop(),
            lambda: own_server.start(),
        ):
            reached = len(done)
            with suppress(redis.ConnectionError):
                trouble()
            time.sleep(0.3)
        wait_until(lambda: len(done) > reached + 5, what="work after the last trouble")
    finally:
        closing.set()
        for thread in threads:
            thread.join()

    assert sorted(done) == sorted(pushed)
    assert errors == []
    assert worker.size("default") == Sizes()
