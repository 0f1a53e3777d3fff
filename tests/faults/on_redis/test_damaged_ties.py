"""F37: what eviction or a foreign hand takes from keys, chains and batches breaks no step and costs no other job."""

import pytest

from flask_jobs.envelope import Ack, Key, Ties
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push, Pushed, Role
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.chains import chain
from flask_jobs.testing.contract.keys import digest, keyed
from flask_jobs.testing.contract.on_batches import batch, member
from flask_jobs.testing.contract.support import envelope, fail, id_list, pop, pop_one, push, roomy

from ...servers import keys_of


@pytest.fixture
def key(prefix):
    """Names a key of the connection."""
    return lambda name: f"{{{prefix}:redis}}:{name}"


def hold_all(driver, amount):
    """Pops so many jobs one by one, in the order in which they were pushed."""
    return [pop_one(driver) for _ in range(amount)]


def test_f37_a_key_whose_job_is_gone_is_free(driver, client, key):
    lost, following = keyed(), keyed()
    driver.push([lost])
    client.hdel(key("jobs"), lost.envelope.id)

    assert driver.holder(digest(lost)) is None
    assert driver.push([following]) == [Pushed(following.envelope.id)]
    assert driver.holder(digest(lost)) == following.envelope.id


@pytest.mark.parametrize("damaged", ["", "\x1f", "garbage", "garbage\x1fsoon"])
def test_f37_a_damaged_key_keeps_no_job_out(driver, client, key, damaged):
    first, following = keyed(), keyed()
    driver.push([first])
    client.hset(key("keys"), digest(first), damaged)
    held = pop_one(driver)

    assert driver.push([following]) == [Pushed(following.envelope.id)]
    assert driver.settle([Ack(held)]).stale == ()
    assert driver.holder(digest(first)) == following.envelope.id


def test_f37_a_job_whose_ties_are_damaged_becomes_a_failed_entry_as_it_is(driver, client, key):
    bad, good = keyed(), keyed("invoice:8")
    driver.push([bad, good])
    whole = client.hget(key("jobs"), bad.envelope.id)
    client.hset(key("jobs"), bad.envelope.id, whole.replace(b"\x1d", b"", 1))

    popped = pop(driver).reservations

    (kept,) = driver.failed()
    assert id_list(popped) == [good.envelope.id]
    assert kept.envelope.id == bad.envelope.id
    assert kept.envelope.body.encode() == whole.replace(b"\x1d", b"", 1)
    assert driver.push([again := keyed()]) == [Pushed(again.envelope.id)]


def test_f37_ties_that_have_their_shape_and_no_sense_keep_no_job_from_running(driver, client, key):
    odd = keyed(seconds=5.0)
    driver.push([odd, keyed("invoice:8")])
    whole = client.hget(key("jobs"), odd.envelope.id)
    client.hset(key("jobs"), odd.envelope.id, whole.replace(b"\x1d5.0\x1d", b"\x1d5.0.0\x1d", 1))

    held = hold_all(driver, 2)

    assert held[0].envelope.id == odd.envelope.id
    assert driver.settle([Ack(one) for one in held]).stale == ()
    assert driver.size("default") == Sizes()


def test_f37_a_damaged_member_counts_as_failed_and_its_key_is_free(driver, client, key):
    plan = batch(2, key=Key("k" * 64, "invoice:7"), allow_failures=True)
    driver.push_batch(plan)
    damaged = plan.members[0].envelope.id
    client.hset(key("jobs"), damaged, client.hget(key("jobs"), damaged).replace(b"0", b"x", 1))

    driver.settle([Ack(pop_one(driver))])

    stored = driver.batch(plan.id)
    assert (stored.pending, stored.done, stored.failed) == (0, 1, 1)
    assert driver.holder("k" * 64) is None
    assert [held.envelope.name for held in hold_all_of(driver, "callbacks")] == ["shop.catch", "shop.finally"]
    assert driver.forget(damaged)
    assert driver.batch(plan.id).skipped == 1


def hold_all_of(driver, queue):
    held = []
    while popped := pop(driver, queue).reservations:
        held += popped
    return held


@pytest.mark.parametrize("damage", ["gone", "wrong type", "no link"])
def test_f37_a_chain_whose_data_is_gone_ends_and_no_other_is_disturbed(driver, client, key, damage):
    lost, whole = chain(3), chain(2)
    driver.push_chain(lost)
    driver.push_chain(whole)
    held = hold_all(driver, 2)
    name = key(f"chain:{lost.id}")
    if damage == "no link":
        client.hdel(name, "link")
    else:
        client.delete(name)
        if damage == "wrong type":
            client.set(name, "garbage")

    settled = driver.settle([Ack(one) for one in held])

    assert settled.stale == ()
    assert [one.envelope.id for one in settled.followed] == [whole.links[1].envelope.id]
    assert driver.size("default") == Sizes(ready=1)


@pytest.mark.parametrize(
    "damage", [None, "", "garbage", "id\x1fdefault\x1f\x1f+\x1f\x1fname\x1f\x1f\x1f\x1fbody", "id\x1fa b\x1f\x1f"]
)
def test_f37_a_planned_link_that_is_damaged_becomes_a_failed_entry(driver, client, key, damage):
    lost, whole = chain(3), chain(2)
    driver.push_chain(lost)
    driver.push_chain(whole)
    held = hold_all(driver, 2)
    name = key(f"chain:{lost.id}")
    if damage is None:
        client.hdel(name, "2")
    else:
        client.hset(name, "2", damage)

    looked = driver.chain(lost.id)
    settled = driver.settle([Ack(one) for one in held])

    (kept,) = driver.failed()
    assert looked is None or damage is not None
    assert settled.stale == ()
    assert [one.envelope.id for one in settled.followed] == [whole.links[1].envelope.id]
    assert (kept.envelope.id, kept.envelope.body) == (lost.id, damage or "")
    assert driver.chain(lost.id) is None
    assert driver.size("default") == Sizes(ready=1)


@pytest.mark.parametrize("damage", ["gone", "wrong type", "no number"])
def test_f37_a_batch_whose_data_is_gone_lets_its_members_end(driver, client, key, damage):
    lost, whole = batch(2), batch(1)
    driver.push_batch(lost)
    driver.push_batch(whole)
    held = hold_all(driver, 3)
    name = key(f"batch:{lost.id}")
    if damage == "no number":
        client.hset(name, "pending", "many")
    else:
        client.delete(name)
        if damage == "wrong type":
            client.set(name, "garbage")

    settled = driver.settle([Ack(held[0]), fail(held[1]), Ack(held[2])])

    assert settled.stale == ()
    assert [one.envelope.name for one in settled.followed] == ["shop.then", "shop.finally"]
    assert driver.batch(lost.id) is None
    assert [stored.id for stored in driver.batches()] == [whole.id]
    assert driver.add_to_batch(lost.id, [member(lost.id)]) is None
    assert not driver.cancel_batch(lost.id)


def test_f37_a_page_of_batches_reaches_beyond_those_that_are_gone(driver, client, key):
    plans = [batch(1) for _ in range(4)]
    for plan in plans:
        driver.push_batch(plan)
    for plan in plans[2:]:
        client.delete(key(f"batch:{plan.id}"))

    assert [stored.id for stored in driver.batches(limit=2)] == [plans[1].id, plans[0].id]


def test_f37_a_damaged_callback_becomes_a_failed_entry_and_the_others_run(driver, client, key):
    plan = batch(1)
    driver.push_batch(plan)
    client.hset(key(f"batch:{plan.id}"), Role.THEN.value, "garbage")

    settled = driver.settle([Ack(pop_one(driver))])

    (kept,) = driver.failed()
    assert [one.envelope.name for one in settled.followed] == ["shop.finally"]
    assert (kept.envelope.id, kept.envelope.body) == (plan.id, "garbage")
    assert driver.batch(plan.id).callbacks == 1


def test_what_is_over_leaves_no_key_behind(driver, client, prefix):
    finished, ended, plan, unique = chain(2), chain(2), batch(2), keyed()
    driver.push_chain(finished)
    driver.push_chain(ended)
    driver.push_batch(plan)
    driver.push([unique])
    held = {one.envelope.id: one for one in hold_all(driver, 5)}
    driver.settle([fail(held.pop(ended.links[0].envelope.id)), *map(Ack, held.values())])
    driver.settle([Ack(one) for one in hold_all(driver, 2)])  # the last link and the catch
    driver.clear("callbacks")
    driver.forget(ended.links[0].envelope.id)
    driver.prune_batches(older_than=0.0)

    left = {name.partition("}:")[2].partition(":")[0] for name in keys_of(client, prefix)}

    assert left <= {"ended", "queues", "failed"}
    assert driver.count_failed() == 0


def test_what_a_key_says_may_hold_any_character(driver):
    said = 'invoice "7"\x1f\x1d\x1e\n\x00 ü \ud800'
    unique = Push(envelope(ties=Ties(key=Key("k" * 64, said, until_processing=True, seconds=2.5))))
    driver.push([unique])

    assert pop_one(driver).envelope == unique.envelope


def test_many_ends_at_once_push_all_that_follows(driver):
    plans = [batch(1) for _ in range(400)]
    for plan in plans:
        driver.push_batch(plan)
    held = []
    while popped := pop(driver, room=roomy(1_000)).reservations:
        held += popped

    followed = driver.settle([Ack(one) for one in held]).followed

    assert len(followed) == 800
    assert driver.size("callbacks") == Sizes(ready=800)


def test_a_clear_takes_out_what_has_ties_in_portions_and_tells_all_of_them(driver):
    plan, chains = batch(250, allow_failures=True), [chain(2) for _ in range(3)]
    driver.push_batch(plan)
    for one in chains:
        driver.push_chain(one)
    push(driver, 20)

    cleared = [driver.clear("default", limit=130) for _ in range(4)]

    assert cleared == [130, 130, 13, 0]
    assert driver.batch(plan.id).skipped == 250
    assert [driver.chain(one.id) for one in chains] == [None, None, None]
    assert [one.envelope.name for one in hold_all_of(driver, "callbacks")] == ["shop.then", "shop.finally"]


def test_a_failed_job_whose_key_is_held_lets_those_behind_it_be_retried(driver):
    blocked = keyed()
    driver.push([blocked])
    driver.settle([fail(pop_one(driver))])
    holder = keyed()
    driver.push([holder])
    others = push(driver, 3, queue="other")
    for _ in others:
        driver.settle([fail(pop_one(driver, "other"))])

    upto, retried = driver.newest_failed(), []
    while portion := driver.retry_many(new_id, upto=upto, limit=1):
        retried += [old for old, _ in portion]

    assert retried == others
    assert [job.envelope.id for job in driver.failed()] == [blocked.envelope.id]
