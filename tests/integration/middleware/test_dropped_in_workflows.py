"""A middleware that drops a job ends it quietly: its chain goes on, its batch counts it as skipped."""

from __future__ import annotations

import pytest

from flask_jobs import ConcurrencyLimit, Limit, RateLimited, WithoutOverlapping
from flask_jobs.store import Held, Holder

from .test_on_each_store import DAYS, register

DROPPING = [
    pytest.param(RateLimited("emails", drop=True), id="rate-limited"),
    pytest.param(WithoutOverlapping("k", drop=True), id="overlapping"),
    pytest.param(WithoutOverlapping("k", release_after=None), id="overlapping-without-release"),
    pytest.param(ConcurrencyLimit("k", 1, release_after=None), id="concurrency-without-release"),
]

dropping = pytest.mark.parametrize("layer", DROPPING)


def use_up(shop, layer):
    """Let there be neither a start nor a place for anybody."""
    if isinstance(layer, RateLimited):
        shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
        shop.jobs.dispatch(register(shop, "first", layers=[layer])("first"))
        shop.work()
        return
    held = shop.driver().store.acquire(f"{layer.kind}/mail/k", Holder("another", "receipt"), seconds=600)
    assert held == Held()


@dropping
def test_a_link_that_is_dropped_lets_the_next_one_run(shop, layer):
    use_up(shop, layer)
    mail, plain = register(shop, layers=[layer]), register(shop, "plain")
    chain = shop.jobs.chain([plain("before"), mail("dropped"), plain("after")], catch=plain("caught"))

    shop.work()

    assert [word for word in shop.noted if word != "first"] == ["before", "after"]
    assert shop.driver().chain(chain.chain) is None
    assert shop.driver().count_failed() == 0


@dropping
def test_a_member_that_is_dropped_counts_as_skipped(shop, layer):
    use_up(shop, layer)
    mail, plain = register(shop, layers=[layer]), register(shop, "plain")
    batch = shop.jobs.batch([plain("member"), mail("dropped")], then=plain("then"), catch=plain("caught"))

    shop.work()

    state = batch.state()
    assert (state.total, state.pending, state.done, state.failed, state.skipped) == (2, 0, 1, 0, 1)
    assert [word for word in shop.noted if word != "first"] == ["member", "then"]


def test_the_fake_drops_links_and_members_as_workers_do(open_on):
    shop = open_on()
    with shop.context():
        shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
        mail, plain = register(shop, layers=[RateLimited("emails", drop=True)]), register(shop, "plain")
        with shop.jobs.fake() as queue:
            shop.jobs.chain([mail("link"), mail("dropped"), plain("after")])
            batch = shop.jobs.batch([mail("dropped, too"), plain("member")], then=plain("then"))
            queue.drain()
            state = batch.state()

    assert shop.noted == ["link", "member", "then", "after"]
    assert (state.done, state.skipped) == (1, 1)
