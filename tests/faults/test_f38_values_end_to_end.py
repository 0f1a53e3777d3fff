from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_jobs import Job, UnserializableJob
from tests.apps import Order, Shop, note
from tests.values import REFUSED, VALUES, Echo, same

MAKE = dict(VALUES)
CONNECTIONS = ("database", "sync", "fake")


class Compare(Echo):
    """Notes whether what came is what the label makes."""

    max_attempts = 1

    def __init__(self, label: str, value: Any) -> None:
        super().__init__(value)
        self.label = label

    def handle(self) -> None:
        note(f"{'same' if same(self.value, MAKE[self.label]()) else 'other'} {self.label}")


class Parcel(Job):
    """Holds rows among other things."""

    def __init__(self, contents: list[object]) -> None:
        self.contents = contents

    def handle(self) -> None:
        first, second, others = self.contents
        assert isinstance(first, Order)
        note(f"{first.state} {first is second} {others}")


@pytest.fixture
def shop(jobs_shop: Shop) -> Shop:
    for name, cls in {"compare": Compare, "parcel": Parcel, "echo": Echo}.items():
        jobs_shop.jobs.register(name)(cls)
    return jobs_shop


def run(shop: Shop, connection: str, *jobs: Job) -> None:
    if connection != "fake":
        shop.jobs.dispatch_many(jobs, connection=connection)
        shop.work()
        return
    with shop.jobs.fake() as queue:
        shop.jobs.dispatch_many(jobs)
        queue.drain()


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_f38_every_value_arrives_equal_in_value_and_type(shop: Shop, connection: str) -> None:
    # Hints are found where a constructor is written, so those of the parent are said again.
    Compare.__init__.__annotations__["value"] = Echo.__init__.__annotations__["value"]

    run(shop, connection, *(Compare(label, make()) for label, make in VALUES))

    assert shop.noted == [f"same {label}" for label, _ in VALUES]


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_f38_rows_in_a_list_arrive_loaded_and_one_row_is_one_object(shop: Shop, connection: str) -> None:
    order = shop.add_order("paid")

    run(shop, connection, Parcel([order, order, {"of": 2}]))

    assert shop.noted == ["paid True {'of': 2}"]


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_f38_anything_else_raises_at_the_dispatch_naming_the_argument(shop: Shop, connection: str) -> None:
    for _, make in REFUSED:
        with pytest.raises(UnserializableJob, match=r"^echo cannot be stored: value"):
            run(shop, connection, Echo(make()))

    assert shop.stored() == []


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_f38_what_is_changed_after_the_dispatch_does_not_travel(
    open_shop: Callable[..., Shop], connection: str
) -> None:
    shop = open_shop()
    shop.jobs.register("parcel")(Parcel)
    with shop.context():
        order, others = shop.add_order("paid"), ["book"]
        job = Parcel([order, order, others])
        if connection == "fake":
            with shop.jobs.fake() as queue:
                shop.jobs.dispatch(job)
                others.append("pen")
                queue.drain()
        else:
            shop.session.add(Order())
            shop.jobs.dispatch(job, connection=connection)
            others.append("pen")
            shop.session.commit()
            shop.work()

    assert shop.noted == ["paid True ['book']"]
