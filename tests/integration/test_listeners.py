from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from blinker import Signal
from flask import Flask, current_app
from werkzeug.local import LocalProxy

from flask_jobs import (
    ConfigurationError,
    InvalidArgument,
    Jobs,
    NotRegistered,
    UnserializableJob,
    job_dispatched,
    job_failed,
    job_processed,
    worker_idle,
    worker_started,
)
from tests.apps import Burst, Note, Order, Shop, note


class Service:
    """Sends signals, and is nothing that could be stored."""


@pytest.fixture
def order_placed() -> Signal:
    return Signal()


@pytest.fixture
def welcome(jobs_shop: Shop, order_placed: Signal) -> Any:
    """A listener that notes what it was given."""

    @jobs_shop.jobs.listen(order_placed, "welcome")
    def welcome(order: Order | None, coupon: str, percent: int = 0) -> None:
        note(f"{order and order.state} {coupon} {percent}")

    return welcome


def test_a_listener_runs_in_a_worker_with_the_row_that_sent_and_what_it_names(
    each_shop: Shop, order_placed: Signal
) -> None:
    @each_shop.jobs.listen(order_placed, "welcome", queue="mail")
    def welcome(order: Order, coupon: str, *, percent: int = 5, friend: Order | None = None) -> None:
        note(f"{order.state} {coupon} {percent} {friend and friend.state}")

    order = each_shop.add_order("placed")
    order_placed.send(order, coupon="TEA", friend=order, basket=object())

    assert each_shop.stored() == ["welcome"]
    order.state = "paid"
    each_shop.session.commit()
    each_shop.work(queues=("mail",))
    assert each_shop.noted == ["paid TEA 5 paid"]


def test_a_listener_with_further_arguments_takes_all_that_the_signal_brings(
    jobs_shop: Shop, order_placed: Signal
) -> None:
    @jobs_shop.jobs.listen(order_placed, "record")
    def record(sender: object, /, **facts: object) -> None:
        note(f"{sender} {sorted(facts.items())}")

    order_placed.send(None, coupon="TEA", percent=5)

    jobs_shop.work()
    assert jobs_shop.noted == ["None [('coupon', 'TEA'), ('percent', 5)]"]


def test_a_listener_is_a_task_that_can_be_called_and_dispatched_by_hand(jobs_shop: Shop, welcome: Any) -> None:
    welcome.call(None, "TEA")
    jobs_shop.jobs.dispatch(welcome(None, "JAM", percent=3))

    jobs_shop.work()
    assert jobs_shop.noted == ["None TEA 0", "None JAM 3"]


def test_a_listener_waits_for_the_commit_and_goes_with_a_rollback(
    jobs_shop: Shop, order_placed: Signal, welcome: Any
) -> None:
    order = jobs_shop.add_order()
    order.state = "cancelled"
    order_placed.send(order, coupon="TEA")
    jobs_shop.session.rollback()
    order.state = "paid"
    order_placed.send(order, coupon="JAM")
    assert jobs_shop.stored() == []

    jobs_shop.session.commit()

    jobs_shop.work()
    assert jobs_shop.noted == ["paid JAM 0"]


def test_a_listener_on_a_sync_connection_runs_while_the_signal_is_sent(jobs_shop: Shop, order_placed: Signal) -> None:
    @jobs_shop.jobs.listen(order_placed, "welcome", connection="sync")
    def welcome(order: Order) -> None:
        note(order.state)

    order_placed.send(jobs_shop.add_order("placed"))

    assert jobs_shop.noted == ["placed"]


def test_the_fake_records_what_listeners_dispatch(jobs_shop: Shop, order_placed: Signal, welcome: Any) -> None:
    with jobs_shop.jobs.fake() as queue:
        order_placed.send(jobs_shop.add_order("placed"), coupon="TEA")

        queue.assert_pushed_once(welcome, lambda job: job.arguments["coupon"] == "TEA")
        queue.drain()
    assert jobs_shop.noted == ["placed TEA 0"]


def test_a_listener_hears_one_sender_alone_if_it_is_told_to(jobs_shop: Shop, order_placed: Signal) -> None:
    first, second = jobs_shop.add_order("first"), jobs_shop.add_order("second")

    @jobs_shop.jobs.listen(order_placed, "welcome", sender=first)
    def welcome(order: Order) -> None:
        note(order.state)

    order_placed.send(second)
    order_placed.send(first)

    jobs_shop.work()
    assert jobs_shop.noted == ["first"]


# What is passed on


@pytest.mark.parametrize(
    "sender", [Service(), Service, lambda: current_app, lambda: current_app._get_current_object()], ids=range(4)
)
def test_a_sender_that_cannot_be_stored_is_none_to_the_listener(
    jobs_shop: Shop, order_placed: Signal, welcome: Any, sender: Any
) -> None:
    order_placed.send(sender() if not isinstance(sender, type | Service) else sender, coupon="TEA")

    jobs_shop.work()
    assert jobs_shop.noted == ["None TEA 0"]


def test_a_proxy_stands_for_the_row_that_it_leads_to(jobs_shop: Shop, order_placed: Signal, welcome: Any) -> None:
    order = jobs_shop.add_order("placed")

    order_placed.send(LocalProxy(lambda: order), coupon="TEA")

    jobs_shop.work()
    assert jobs_shop.noted == ["placed TEA 0"]


def test_a_row_that_cannot_be_referred_to_is_refused_where_the_signal_is_sent(
    jobs_shop: Shop, order_placed: Signal, welcome: Any
) -> None:
    with pytest.raises(UnserializableJob, match="welcome cannot be stored: order is a new Order"):
        order_placed.send(Order(), coupon="TEA")


def test_a_model_without_a_stored_name_is_refused_where_the_signal_is_sent(
    order_placed: Signal, jobs_shop: Shop
) -> None:
    jobs_shop.jobs = Jobs(session=jobs_shop.session)
    app = Flask("nameless", instance_path=jobs_shop.app.instance_path)
    app.config["SECRET_KEY"] = "x"
    jobs_shop.jobs.init_app(app)
    order = jobs_shop.add_order()

    @jobs_shop.jobs.listen(order_placed, "welcome", connection="sync")
    def welcome(order: Order) -> None: ...

    with app.app_context(), pytest.raises(NotRegistered, match=r'Add @jobs\.model\("order"\)'):
        order_placed.send(order)


def test_an_argument_that_cannot_be_stored_is_refused_where_the_signal_is_sent(
    jobs_shop: Shop, order_placed: Signal, welcome: Any
) -> None:
    with pytest.raises(UnserializableJob, match="welcome cannot be stored: coupon is of type Service"):
        order_placed.send(None, coupon=Service())

    assert jobs_shop.stored() == []


def test_an_argument_that_the_signal_does_not_bring_is_named(order_placed: Signal, welcome: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"'welcome' takes: coupon\. It brings percent"):
        order_placed.send(None, percent=5)


def test_a_listener_that_forgets_the_sender_is_told_to_take_it_first(order_placed: Signal, welcome: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"Write the sender first: def \.\.\.\(sender, order\)"):
        order_placed.send(None, order=1, coupon="TEA")


# What cannot listen


def test_a_function_without_a_place_for_the_sender_is_refused(jobs_shop: Shop, order_placed: Signal) -> None:
    with pytest.raises(InvalidArgument, match="must take the sender first"):

        @jobs_shop.jobs.listen(order_placed, "nothing")
        def nothing() -> None: ...

    with pytest.raises(InvalidArgument, match="must take the sender first"):

        @jobs_shop.jobs.listen(order_placed, "keywords")
        def keywords(*, coupon: str) -> None: ...


def test_what_no_store_takes_is_refused_by_name(jobs_shop: Shop) -> None:
    with pytest.raises(InvalidArgument, match="cannot take error and job"):

        @jobs_shop.jobs.listen(job_failed, "page")
        def page(app: None, job: object, error: object) -> None: ...


def test_a_job_cannot_listen_to_what_it_would_bring_about(jobs_shop: Shop) -> None:
    with pytest.raises(InvalidArgument, match=r"worker_idle\.connect"):
        jobs_shop.jobs.listen(worker_idle, "idle")


def test_what_is_no_signal_is_refused(jobs_shop: Shop) -> None:
    with pytest.raises(InvalidArgument, match="takes a blinker signal and a name"):
        jobs_shop.jobs.listen("order-placed", "welcome")  # type: ignore[arg-type]


# Which app


@pytest.fixture
def two_apps(open_shop: Callable[..., Shop]) -> tuple[Shop, Flask]:
    """A shop, and a second app of the same `Jobs` with jobs in a file of its own."""
    shop = open_shop()
    other = Flask("other", instance_path=f"{shop.app.instance_path}-other")
    other.config.update(SECRET_KEY="x", LEDGER=f"{shop.app.config['LEDGER']}-other")
    shop.jobs.init_app(other)
    return shop, other


def waiting(app: Flask) -> list[str]:
    driver = app.extensions["flask_jobs"].connections.driver()
    return [job.envelope.name for job in driver.jobs("default")]


def test_a_listener_dispatches_for_the_app_that_sends_whatever_context_there_is(
    two_apps: tuple[Shop, Flask], order_placed: Signal
) -> None:
    shop, other = two_apps

    @shop.jobs.listen(order_placed, "welcome")
    def welcome(app: None) -> None: ...

    order_placed.send(other)
    with shop.context():
        order_placed.send(other)
        order_placed.send(shop.app)

    assert waiting(other) == ["welcome", "welcome"]
    assert waiting(shop.app) == ["welcome"]
    other.extensions["flask_jobs"].connections.close()


def test_a_signal_of_a_worker_reaches_the_listener_in_the_workers_own_app(two_apps: tuple[Shop, Flask]) -> None:
    shop, other = two_apps

    @shop.jobs.listen(job_failed, "page")
    def page(app: None, job_id: str, job_name: str, connection: str) -> None:
        failed = shop.jobs.driver(connection).find_failed(job_id)  # type: ignore[attr-defined]
        note(f"{current_app.name}: {job_name} failed with {failed.error.message}")

    with shop.context():
        shop.jobs.dispatch(Burst("x"))
    shop.work()  # without a context, as some process of its own may do
    shop.work()

    assert shop.noted[-1] == "shop: burst failed with burst x"
    assert waiting(other) == []
    other.extensions["flask_jobs"].connections.close()


def test_an_app_that_is_not_connected_is_left_alone(jobs_shop: Shop, order_placed: Signal, welcome: Any) -> None:
    stranger = Flask("stranger")
    own = Flask("own")
    Jobs(own)

    order_placed.send(stranger, coupon="TEA")
    with own.app_context():
        order_placed.send(None, coupon="TEA")

    assert jobs_shop.stored() == []


def test_a_signal_without_any_app_says_what_is_missing(open_shop: Callable[..., Shop], order_placed: Signal) -> None:
    shop = open_shop()

    @shop.jobs.listen(order_placed, "welcome")
    def welcome(sender: None) -> None: ...

    with pytest.raises(ConfigurationError, match="There is no app here"):
        order_placed.send(None)


def test_a_signal_amid_a_transaction_leaves_the_transaction_as_it_is(two_apps: tuple[Shop, Flask]) -> None:
    shop, other = two_apps

    @shop.jobs.listen(worker_started, "started")
    def started(app: None, queues: tuple[str, ...]) -> None:
        note(f"worker on {queues}")

    with shop.context():
        order = shop.add_order("kept")
        order.state = "changed"
        worker_started.send(shop.app, queues=("a",))
        assert order in shop.session.dirty
        shop.session.rollback()
    worker_started.send(shop.app, queues=("b",))

    shop.work()
    assert "worker on ('b',)" in shop.noted
    other.extensions["flask_jobs"].connections.close()


# Listeners to what happens to jobs


def work_off(shop: Shop) -> None:
    """Run what is dispatched, and what is dispatched when that is told of; not without end."""
    for _ in range(5):
        shop.work(max_jobs=50)


def test_listeners_do_not_hear_of_the_jobs_of_each_other(jobs_shop: Shop) -> None:
    @jobs_shop.jobs.listen(job_processed, "first")
    def first(app: None, job_name: str) -> None:
        note(f"first heard of {job_name}")

    @jobs_shop.jobs.listen(job_processed, "second", aliases=["second-before"])
    def second(app: None, job_name: str) -> None:
        note(f"second heard of {job_name}")

    @jobs_shop.jobs.listen(job_dispatched, "third")
    def third(app: None, job_name: str) -> None:
        note(f"third heard of {job_name}")

    jobs_shop.jobs.dispatch(Note("note"))
    job_processed.send(jobs_shop.app, job_name="second-before")
    work_off(jobs_shop)

    assert sorted(jobs_shop.noted) == ["first heard of note", "note", "second heard of note", "third heard of note"]


def test_listeners_hear_of_the_jobs_of_listeners_to_other_signals(
    jobs_shop: Shop, order_placed: Signal, welcome: Any
) -> None:
    @jobs_shop.jobs.listen(job_processed, "audit")
    def audit(app: None, job_name: str) -> None:
        note(f"{job_name} is done")

    order_placed.send(None, coupon="TEA")
    work_off(jobs_shop)

    assert jobs_shop.noted == ["None TEA 0", "welcome is done"]


def test_a_listener_to_a_job_that_waited_for_a_commit_is_stored_after_it(jobs_shop: Shop) -> None:
    @jobs_shop.jobs.listen(job_dispatched, "audit")
    def audit(app: None, job_name: str) -> None:
        note(f"{job_name} is on its way")

    jobs_shop.session.add(Order())
    jobs_shop.jobs.dispatch(Note("note"))
    jobs_shop.session.commit()

    work_off(jobs_shop)
    assert jobs_shop.noted == ["note", "note is on its way"]


# How long


def test_a_module_that_is_loaded_anew_replaces_its_listeners(jobs_shop: Shop, order_placed: Signal) -> None:
    def load(version: int) -> None:
        def welcome(sender: None) -> None:
            note(f"version {version}")

        jobs_shop.jobs.listen(order_placed, "welcome")(welcome)

    load(1)
    load(2)
    order_placed.send(None)

    jobs_shop.work()
    assert jobs_shop.noted == ["version 2"]


def test_listeners_go_with_their_jobs_object(order_placed: Signal) -> None:
    jobs = Jobs()

    @jobs.listen(order_placed, "welcome")
    def welcome(sender: None) -> None: ...

    assert order_placed.receivers
    del jobs, welcome
    gc.collect()

    assert not order_placed.receivers
