"""F37: the server is shared, small, or set up as a cache."""

import logging

import pytest

from flask_jobs.envelope import Ack, After, Counters, Progress, Release
from flask_jobs.errors import ConfigurationError, StoreRefused
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.chains import chain
from flask_jobs.testing.contract.keys import digest, keyed
from flask_jobs.testing.contract.on_batches import batch, member
from flask_jobs.testing.contract.support import envelope, fail, id_list, pop, pop_one, push, release, roomy

from ...servers import keys_of, own_prefix, redis_server


@pytest.fixture
def full_server(tmp_path):
    """A server that `fill` leaves without room for more."""
    with redis_server(tmp_path, "--save", "", "--maxmemory-policy", "noeviction") as server:
        yield server


def fill(server):
    # Not what it uses just now: that sinks a little with each connection that is closed.
    client = server.client()
    client.config_set("maxmemory", 1)
    client.close()


def test_f37_a_full_server_refuses_a_push_and_keeps_nothing_of_it(full_server, open_driver, prefix):
    driver = open_driver(full_server.url)
    push(driver, 2)
    before = keys_of(full_server.client(), prefix)
    fill(full_server)

    for pushes in (
        [Push(envelope())],
        [Push(envelope()) for _ in range(1_000)],
        [Push(envelope(queue="other"), due=After(5.0)), Push(envelope(queue="other"), front=True)],
    ):
        with pytest.raises(StoreRefused, match="maxmemory"):
            driver.push(pushes)

    assert keys_of(full_server.client(), prefix) == before
    assert driver.size("default") == Sizes(ready=2)
    assert driver.size("other") == Sizes()
    assert full_server.client().hlen(f"{{{prefix}:redis}}:jobs") == 2


def test_f37_a_full_server_keeps_nothing_of_a_key_a_chain_or_a_batch(full_server, open_driver, prefix):
    driver = open_driver(full_server.url)
    plan = batch(2)
    driver.push_batch(plan)
    before = keys_of(full_server.client(), prefix)
    fill(full_server)

    for refused in (
        lambda: driver.push([keyed()]),
        lambda: driver.push_chain(chain(3)),
        lambda: driver.push_batch(batch(3)),
        lambda: driver.add_to_batch(plan.id, [member(plan.id)]),
    ):
        with pytest.raises(StoreRefused, match="maxmemory"):
            refused()

    assert keys_of(full_server.client(), prefix) == before
    assert driver.size("default") == Sizes(ready=2)
    assert driver.holder(digest(keyed())) is None
    assert driver.batch(plan.id).total == 2


def test_f37_what_follows_from_an_end_is_stored_on_a_full_server(full_server, open_driver):
    driver = open_driver(full_server.url)
    going_on, stopped, plan, cancelled, unique = chain(2), chain(2), batch(1), batch(1), keyed()
    driver.push_chain(going_on)
    driver.push_chain(stopped)
    driver.push_batch(plan)
    driver.push_batch(cancelled)
    driver.push([unique])
    held = [pop_one(driver) for _ in range(5)]
    fill(full_server)

    settled = driver.settle([Ack(held[0]), fail(held[1]), Ack(held[2])])
    assert [one.envelope.name for one in settled.followed] == [
        going_on.links[1].envelope.name,
        *["shop.then", "shop.finally"],
        "shop.apologise",
    ]
    assert driver.cancel_batch(cancelled.id)
    assert driver.settle([fail(held[4])]).stale == ()
    assert driver.retry(held[4].envelope.id, again := new_id())
    assert driver.retry(held[1].envelope.id, new_id())
    assert driver.holder(digest(unique)) == again
    assert driver.cancel(going_on.links[1].envelope.id)
    assert driver.clear("callbacks") == 2
    assert driver.prune_batches(older_than=0.0) == 1

    assert driver.chain(going_on.id) is None
    assert driver.chain(stopped.id).link == 1


def test_f37_workers_of_a_full_server_go_on_and_free_memory(full_server, open_driver):
    driver = open_driver(full_server.url)
    push(driver, 40)
    push(driver, 1, queue="retried")
    driver.settle([fail(pop_one(driver, "retried"))])
    fill(full_server)

    done = pop(driver, room=roomy(10)).reservations
    assert driver.settle([Ack(held) for held in done]).stale == ()
    exchange = driver.exchange([], ["default"], new_id(), roomy(10))
    first, second, *others = exchange.popped.reservations
    assert driver.renew(exchange.popped.reservations) == []
    assert driver.note_progress(first, Progress(1, 2))
    assert driver.settle([release(first, After(60.0)), fail(second)]).stale == ()
    token = new_id()
    pop(driver, room=roomy(5), token=token)
    assert len(driver.held(token)) == 5
    assert driver.recover(token) == 5
    assert driver.settle([Ack(held) for held in others]).stale == ()
    assert driver.retry(second.envelope.id, new_id())
    assert driver.flush() == 1
    driver.pause("other")
    assert driver.resume("other")

    assert driver.size("default") == Sizes(ready=21, delayed=1)
    assert driver.cancel(first.envelope.id)
    assert driver.clear("default") == 21


def test_f37_an_expired_lease_is_taken_in_on_a_full_server(full_server, open_driver):
    driver = open_driver(full_server.url, retry_after=0.05)
    ids = push(driver, 3)
    for _ in ids:
        pop_one(driver)
    fill(full_server)

    taken = []
    while len(taken) < 3:
        for held in pop(driver).reservations:
            taken.append(held.envelope.id)
            driver.settle([Ack(held)])

    assert sorted(taken) == ids


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "noeviction"])
def test_f37_an_eviction_policy_that_takes_jobs_is_warned_of(tmp_path, open_driver, caplog, policy):
    with redis_server(tmp_path, "--save", "", "--maxmemory-policy", policy) as server:
        driver = open_driver(server.url)
        with caplog.at_level(logging.WARNING):
            driver.prepare()

    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == (0 if policy == "noeviction" else 1)
    assert all(policy in message for message in warned)


def test_f37_only_the_memory_of_ended_jobs_carries_an_expiry(driver, client, prefix):
    push(driver, 3)
    push(driver, due=After(60.0))
    driver.settle([Ack(pop_one(driver))])
    driver.settle([fail(pop_one(driver))])
    driver.pause("default", seconds=60.0)
    driver.push_chain(chain())
    driver.push_batch(batch())
    driver.push([keyed()])

    expiring = {key for key in keys_of(client, prefix) if client.ttl(key) >= 0}

    assert expiring
    assert all(":ended:" in key for key in expiring)


def test_f37_ids_without_data_become_failed_entries_and_do_not_loop(driver, client, prefix):
    ids = push(driver, 3)
    late = push(driver, due=After(0.0))
    client.hdel(f"{{{prefix}:redis}}:jobs", *ids)

    popped = pop(driver).reservations

    lost = driver.failed()
    assert id_list(popped) == late
    assert sorted(job.envelope.id for job in lost) == ids
    assert {(job.envelope.queue, job.envelope.body) for job in lost} == {("default", "")}
    assert "evicted" in lost[0].error.message
    assert driver.size("default") == Sizes(reserved=1)


def test_f37_a_delivery_whose_data_is_gone_becomes_a_failed_entry(driver, client, prefix):
    push(driver, 2)
    first, second = pop_one(driver), pop_one(driver)
    client.delete(f"{{{prefix}:redis}}:jobs")

    stale = driver.settle(
        [Release(first, After(0.0), Counters(1), release(first, After(0.0)).entry), fail(second)]
    ).stale

    assert stale == ()
    assert driver.count_failed() == 2
    assert driver.size("default") == Sizes()


SOUND = "0\x1f0\x1f0\x1f0\x1fshop.send\x1fdefault\x1f1700000000.0\x1f\x1f\x1f\x1f\x1fbody"


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"garbage",
        SOUND.replace("0", "abc", 1).encode(),
        SOUND.replace("1700000000.0", "soon").encode(),
        SOUND.replace("default", "elsewhere").encode(),
    ],
)
def test_f37_damaged_data_becomes_a_failed_entry_as_it_is_and_keeps_nobody_waiting(driver, client, prefix, damaged):
    bad, good = push(driver, 2)
    client.hset(f"{{{prefix}:redis}}:jobs", bad, damaged)

    listed = driver.jobs("default")
    popped = pop(driver).reservations

    (kept,) = driver.failed()
    assert id_list(popped) == [good]
    assert good in [job.envelope.id for job in listed]
    assert (kept.envelope.id, kept.envelope.body) == (bad, damaged.decode())
    assert "cannot be read" in kept.error.message
    assert driver.size("default") == Sizes(reserved=1)


def test_f37_damaged_data_of_a_running_job_becomes_a_failed_entry(driver, client, prefix):
    push(driver, 2)
    first, second = pop_one(driver), pop_one(driver)
    for held in (first, second):
        client.hset(f"{{{prefix}:redis}}:jobs", held.envelope.id, "garbage")

    stale = driver.settle(
        [Release(first, After(0.0), Counters(1), release(first, After(0.0)).entry), fail(second)]
    ).stale

    assert stale == ()
    assert driver.count_failed() == 2
    assert driver.size("default") == Sizes()


def test_f37_damaged_data_of_a_running_job_is_not_told_as_held_and_hides_no_other(driver, client, prefix):
    bad, good = push(driver, 2)
    token = new_id()
    pop(driver, room=roomy(), token=token)
    client.hset(f"{{{prefix}:redis}}:jobs", bad, "garbage")

    held = driver.held(token)

    assert id_list(held) == [good]
    assert driver.recover(token, keep=[good]) == 1


def test_f37_a_body_that_is_no_text_is_popped_for_the_worker_to_judge(driver, client, prefix):
    (job_id,) = push(driver, 1)
    client.hset(f"{{{prefix}:redis}}:jobs", job_id, SOUND.encode() + b"\xff")

    reservation = pop_one(driver)

    assert reservation.envelope.body == "body\\xff"


def test_f37_applications_with_other_prefixes_never_meet(open_driver, redis_url, client, prefix):
    with own_prefix(redis_url) as other_prefix:
        ours, theirs = open_driver(), open_driver(prefix=other_prefix)
        push(ours, 2)
        push(theirs, 3)
        theirs.settle([fail(pop_one(theirs))])
        before = {key: client.dump(key) for key in keys_of(client, other_prefix)}

        assert ours.queues() == ["default"]
        assert ours.clear("default") == 2
        assert ours.flush() == 0
        ours.pause("default")

        assert {key: client.dump(key) for key in keys_of(client, other_prefix)} == before
        assert pop(theirs).reservations


def test_f37_two_connections_of_one_application_never_meet(open_driver):
    one, two = open_driver(connection="one"), open_driver(connection="two")

    push(one)

    assert two.size("default") == Sizes()
    assert pop(two).reservations == ()


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b", "a\nb"])
def test_f37_a_prefix_that_would_break_the_hash_tag_is_refused(redis_url, prefix):
    from flask_jobs.drivers.redis.driver import RedisDriver

    with pytest.raises(ConfigurationError, match="prefix"):
        RedisDriver(redis_url, prefix=prefix, connection="redis")


def test_f37_every_key_lies_under_the_one_hash_tag(driver, client, prefix):
    sent = push(driver, 8)
    push(driver, front=True)
    push(driver, due=After(60.0))
    held = pop(driver, room=roomy(3)).reservations
    driver.settle([Ack(held[0]), release(held[1], After(60.0)), fail(held[2])])
    driver.pause("other")
    pop_one(driver)
    driver.push_chain(chain())
    driver.push_batch(batch(0))
    driver.push([keyed()])

    keys = {key.decode() for key in client.scan_iter(match=f"*{prefix}*", count=1_000)}

    assert sent
    assert keys == keys_of(client, prefix)
    assert all(key.startswith(f"{{{prefix}:redis}}:") for key in keys)
