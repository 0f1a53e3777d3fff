"""No more mail a minute than the provider takes, and room for what somebody waits for."""

from __future__ import annotations

import datetime as dt
import mailbox
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import time_machine
from flask import Flask

from example_app.extensions import db, jobs
from example_app.models import Customer, Order, OrderLine
from example_app.shop import SendInvoice
from example_app.shop.statements import send_all
from flask_jobs.testing import FakeQueue

MAY = dt.date(2030, 5, 1)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    """The begin of a minute."""
    with time_machine.travel("2030-05-31T09:00:00Z", tick=False) as clock:
        yield clock


def place_orders(app: Flask, customers: int) -> None:
    with app.app_context():
        for number in range(customers):
            customer = Customer(name=f"Customer {number}", email=f"{number}@mail.example", country="SE")
            lines = [OrderLine(product="Green tea", quantity=2, unit_cents=890)]
            db.session.add(Order(customer=customer, placed_at=dt.datetime(2030, 5, 1), lines=lines))
        db.session.commit()


def send_invoices(app: Flask) -> None:
    with app.app_context():
        jobs.dispatch_many([SendInvoice(order) for order in db.session.query(Order)])


def mails(folder: Path) -> Counter[str]:
    """How many mails of each kind were sent."""
    with closing(mailbox.mbox(folder / "mailbox.mbox")) as box:
        return Counter(str(mail["Message-ID"]).strip("<").split("-")[0] for mail in box)


def test_a_mail_that_the_provider_does_not_take_any_more_is_sent_in_the_next_minute(
    app: Flask, jobs_fake: FakeQueue, clock: time_machine.Traveller, tmp_path: Path
) -> None:
    place_orders(app, 31)
    send_invoices(app)

    results = jobs_fake.drain()
    results[-1].assert_released(60)
    assert mails(tmp_path) == {"invoice": 30}

    clock.shift(61)
    jobs_fake.drain()
    assert mails(tmp_path) == {"invoice": 31}


def test_statements_leave_room_for_invoices(
    app: Flask, jobs_fake: FakeQueue, clock: time_machine.Traveller, tmp_path: Path
) -> None:
    place_orders(app, 25)
    with app.app_context():
        send_all(MAY)
    jobs_fake.drain()
    assert mails(tmp_path) == {"statement": 20}

    send_invoices(app)
    jobs_fake.drain()

    assert mails(tmp_path) == {"statement": 20, "invoice": 10}
