"""What users write, for the type checker: it is never run.

A line with `type: ignore` is wrong use, and has to be reported: an ignore that is not needed is an error itself.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any, assert_type

from blinker import Signal
from flask import Flask
from sqlalchemy.orm import DeclarativeBase, Session, scoped_session, sessionmaker

from flask_jobs import Dispatched, Job, Jobs, Middleware, ReleaseJob, Status, Task, current_job
from flask_jobs.driver import Driver
from flask_jobs.testing import FakeQueue, PushedJob, Result


class Base(DeclarativeBase):
    pass


jobs = Jobs()
order_placed = Signal()
factory = sessionmaker[Session]()
Jobs(Flask(__name__), session=factory)
Jobs(session=scoped_session(factory))
Jobs(session=factory())  # type: ignore[arg-type]


@jobs.model("order", delete_when_missing=True)
class Order(Base):
    __tablename__ = "orders"


assert_type(Order, type[Order])


class Limit:
    def handle(self, job: Job, call_next: Callable[[], None]) -> None:
        if job.max_attempts:
            raise ReleaseJob(5, "not now")
        call_next()


@jobs.register("send", aliases=["mail"])
class Send(Job):
    max_attempts = 5
    max_exceptions = 2
    backoff = [30, 120, 600]  # noqa: RUF012  # as the README has it
    timeout = 60
    queue = "mail"
    connection = "database"
    after_commit = False
    retry_until = dt.timedelta(hours=1)
    sensitive = ("token",)

    def __init__(self, order: Order, token: str) -> None:
        self.order = order
        self.token = token

    def middleware(self) -> Sequence[Middleware]:
        return [Limit()]

    def handle(self) -> None:
        assert_type(self.order, Order)
        current_job.progress(1, 2, "half")
        assert_type(current_job.attempt, int)
        assert_type(current_job.stopping, bool)

    def failed(self, error: BaseException) -> None:
        pass

    def tags(self) -> list[str]:
        return ["mail"]


class WithNumber(Job):
    backoff = 5


class WithFraction(Job):
    backoff = 0.5
    timeout = 1.5


class WithTuple(Job):
    backoff = (1, 2.5)


class WithMethod(Job):
    def backoff(self, attempt: int) -> float:
        return attempt * 10.0


class WithDeadline(Job):
    def retry_until(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)


class WithDate(Job):
    retry_until = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)


class Async(Job):
    async def handle(self) -> None:
        pass


class Inherited(Send):
    max_attempts = 1
    backoff = [1]  # noqa: RUF012
    queue = "slow"


class Wrong(Job):
    max_attempts = "5"  # type: ignore[assignment]
    backoff = "soon"  # type: ignore[assignment]
    timeout = "60"  # type: ignore[assignment]
    after_commit = "yes"  # type: ignore[assignment]

    def handle(self) -> int:  # type: ignore[override]
        return 1

    def failed(self, error: str) -> None:  # type: ignore[override]
        pass


class WrongMethod(Job):
    def backoff(self, attempt: str) -> float:  # type: ignore[override]
        return 1.0


class WrongMiddleware(Job):
    def middleware(self) -> Sequence[Middleware]:
        return [object()]  # type: ignore[list-item]


assert_type(Send, type[Send])
order = Order()
Send(order, "t")
Send(order)  # type: ignore[call-arg]
Send(token="t", order=7)  # type: ignore[arg-type]


# Functions as jobs keep their signatures.


@jobs.task("nightly", max_attempts=1, queue="reports")
def nightly(day: dt.date, *, verbose: bool = False) -> int:
    return day.day


assert_type(nightly.call(dt.date(2024, 1, 1), verbose=True), int)
jobs.dispatch(nightly(dt.date(2024, 1, 1)))
nightly("monday")  # type: ignore[arg-type]
nightly(dt.date(2024, 1, 1), loud=True)  # type: ignore[call-arg]
nightly.call()  # type: ignore[call-arg]
jobs.dispatch(nightly)  # type: ignore[arg-type]


@jobs.task("slow")
async def slow(word: str) -> None:
    pass


jobs.dispatch(slow("x"))
slow(7)  # type: ignore[arg-type]


# Listeners


@jobs.listen(order_placed, "welcome", sender=order, aliases=["hello"], queue="mail", max_attempts=1)
def welcome(order: Order, coupon: str = "") -> int:
    return 1


assert_type(welcome.call(order), int)
jobs.dispatch(welcome(order, coupon="TEA"))
welcome(7)  # type: ignore[arg-type]
jobs.listen("order-placed", "welcome")  # type: ignore[arg-type]


# Dispatching


def dispatching(app: Flask, session: Session) -> None:
    jobs.init_app(app)
    answer = jobs.dispatch(Send(order, "t"))
    assert_type(answer, Dispatched)
    assert_type(answer.id, str)
    assert_type(answer.status, Status)
    jobs.dispatch(
        Send(order, "t"),
        queue="mail",
        connection="database",
        delay=dt.timedelta(minutes=5),
        after_commit=True,
        front=True,
        id=uuid.uuid4(),
        session=session,
    )
    jobs.dispatch(Async(), delay=5, id="0190", session=scoped_session(factory))
    jobs.dispatch(Async(), delay=dt.datetime.now(dt.UTC))
    assert_type(jobs.dispatch_many(Send(order, str(n)) for n in range(3)), list[Dispatched])
    assert_type(jobs.after_commit(), AbstractContextManager[None])
    assert_type(jobs.driver("database"), Driver)
    jobs.dispatch("send")  # type: ignore[arg-type]
    jobs.dispatch(Send)  # type: ignore[arg-type]
    jobs.dispatch(Async(), delay="5")  # type: ignore[arg-type]
    jobs.dispatch(Async(), id=7)  # type: ignore[arg-type]
    jobs.dispatch(Async(), "mail")  # type: ignore[call-arg]
    jobs.dispatch(Async(), urgency=1)  # type: ignore[call-arg]
    jobs.dispatch_many(Async())  # type: ignore[arg-type]
    jobs.dispatch(order)  # type: ignore[arg-type]


# Names


class Money:
    def __init__(self, amount: Decimal) -> None:
        self.amount = amount


jobs.codec(Money, "money", lambda money: money.amount, Money)
jobs.codec(Money, "money", lambda money: money.cents, Money)  # type: ignore[attr-defined]
jobs.register("order")(Order)  # type: ignore[type-var]


@jobs.upcast("send", 1)
def upgrade(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "token": ""}


@jobs.upcast("send", 2)  # type: ignore[type-var]
def broken_upgrade(fields: dict[str, Any]) -> str:
    return ""


assert_type(upgrade({}), dict[str, Any])


# Testing


def testing(jobs_fake: FakeQueue) -> None:
    with jobs.fake() as queue:
        assert_type(queue, FakeQueue)
    jobs_fake.assert_pushed(Send)
    jobs_fake.assert_pushed("send", lambda job: job.token == "t")
    jobs_fake.assert_pushed_times(nightly, 2)
    jobs_fake.assert_pushed_once(Send, where=lambda job: True)
    jobs_fake.assert_pushed_on("mail", Send)
    jobs_fake.assert_pushed_in(Send, dt.timedelta(hours=1), delta=5)
    jobs_fake.assert_pushed_after_commit(Send)
    assert_type(jobs_fake.pushed(Send), list[PushedJob])
    assert_type(jobs_fake.has_pushed(Send), bool)
    assert_type(jobs_fake.drain(travel=True), list[Result])
    jobs_fake.assert_pushed(Order)  # type: ignore[arg-type]
    jobs_fake.assert_pushed_times(Send, "2")  # type: ignore[arg-type]
    jobs_fake.assert_pushed_in(Send, "soon")  # type: ignore[arg-type]
    jobs_fake.assert_pushed(Send, "t")  # type: ignore[arg-type]
    result = jobs.run(Send(order, "t"), attempt=2)
    assert_type(result, Result)
    result.assert_released(30)
    result.assert_released(dt.timedelta(seconds=30), delta=1)
    result.assert_failed_with(ValueError, "no")
    result.assert_done()
    result.assert_failed_with(ValueError())  # type: ignore[arg-type]
    result.assert_released("30")  # type: ignore[arg-type]
    assert_type(result.error, BaseException | None)


def tasks_are_tasks(task: Task[[dt.date], int]) -> None:
    assert_type(task.call, Callable[[dt.date], int])
