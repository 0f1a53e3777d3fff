"""What the jobs do: `jobs.run()` runs one as a worker would, `drain()` all that was dispatched."""

from __future__ import annotations

import datetime as dt
import mailbox
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
import time_machine
from flask import Flask
from flask.testing import FlaskClient

from example_app import payments
from example_app.extensions import db, jobs
from example_app.models import Customer, Invoice, Order, OrderLine, OrderStatus
from example_app.money import UnknownCountry
from example_app.shop import AskForReview, ChargeOrder, HoldOrder, SendInvoice, ShipOrder, daily_sales
from flask_jobs.testing import FakeQueue

ADA = {"name": "Ada Holm", "email": "ada@mail.example", "country": "SE", "quantities": {"tea": 2}}


@pytest.fixture
def order(app: Flask, jobs_fake: FakeQueue) -> int:
    """An order that no invoice has been written for."""
    return stored_order(app)


def stored_order(app: Flask, country: str = "SE") -> int:
    with app.app_context():
        customer = Customer(name="Ada Holm", email="ada@mail.example", country=country)
        order = Order(customer=customer, lines=[OrderLine(product="Green tea", quantity=2, unit_cents=890)])
        db.session.add(order)
        db.session.commit()
        return order.id


def run_invoice(app: Flask, order_id: int) -> None:
    with app.app_context():
        jobs.run(SendInvoice(db.get_or_404(Order, order_id))).assert_done()


def charge(app: Flask, order_id: int) -> None:
    with app.app_context():
        jobs.run(ChargeOrder(db.get_or_404(Order, order_id))).assert_done()


def mails(folder: Path) -> list[str]:
    with closing(mailbox.mbox(folder / "mailbox.mbox")) as box:
        return [str(message["Subject"]) for message in box]


def test_an_invoice_is_written_and_mailed(app: Flask, client: FlaskClient, order: int, tmp_path: Path) -> None:
    run_invoice(app, order)

    document = (tmp_path / "invoices" / "INV-00001.html").read_text(encoding="utf-8")
    assert "€ 17.80" in document
    assert "€ 22.25" in document
    assert mails(tmp_path) == ["Your invoice INV-00001 (Lindgren & Sons)"]
    with client.get(f"/orders/{order}/invoice") as download:
        assert download.get_data(as_text=True) == document


def test_an_invoice_is_sent_once_however_often_its_job_runs(app: Flask, order: int, tmp_path: Path) -> None:
    run_invoice(app, order)
    run_invoice(app, order)

    assert len(mails(tmp_path)) == 1
    with app.app_context():
        assert len(db.session.scalars(sa.select(Invoice)).all()) == 1


def test_a_worker_killed_after_the_mail_sends_no_second_one(app: Flask, order: int, tmp_path: Path) -> None:
    run_invoice(app, order)
    with app.app_context():
        db.session.execute(sa.update(Invoice).values(mailed_at=None))  # as if it never came to write that down
        db.session.commit()

    run_invoice(app, order)

    assert len(mails(tmp_path)) == 1


def test_a_half_written_document_is_replaced_and_cleared_away(app: Flask, order: int, tmp_path: Path) -> None:
    (tmp_path / "invoices").mkdir()
    (tmp_path / "invoices" / "INV-00001.html.dead.part").write_text("<!doctype ht")

    run_invoice(app, order)

    assert [path.name for path in (tmp_path / "invoices").iterdir()] == ["INV-00001.html"]


def test_the_invoice_of_an_unwritten_order_is_not_found(client: FlaskClient, order: int) -> None:
    assert client.get(f"/orders/{order}/invoice").status_code == 404


def test_a_card_is_charged_once_with_the_total_of_the_invoice(app: Flask, order: int) -> None:
    charge(app, order)
    with app.app_context():
        db.session.execute(sa.update(Order).values(payment=None))  # as if the worker was killed before it noted that
        db.session.commit()

    charge(app, order)

    with app.app_context():
        assert payments.charges() == [{"key": f"order-{order}", "cents": 2225}]
        assert db.get_or_404(Order, order).payment == "PAY-00001"


def test_a_country_that_changes_after_the_charge_changes_no_invoice(
    app: Flask, client: FlaskClient, order: int
) -> None:
    charge(app, order)

    client.post("/customers/1", data={"country": "DE"})
    run_invoice(app, order)

    with app.app_context():
        assert db.session.scalars(sa.select(Invoice)).one().total_cents == payments.charges()[0]["cents"]


def test_an_order_is_charged_invoiced_and_shipped(
    app: Flask, client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path
) -> None:
    client.post("/orders", json=ADA)

    results = jobs_fake.drain()

    assert [result.name for result in results] == [
        "billing.charge-order",
        "billing.send-invoice",
        "warehouse.ship-order",
    ]
    assert (tmp_path / "labels" / "order-00001.txt").read_text(encoding="utf-8").startswith("Ada Holm\nSE\n")
    with app.app_context():
        assert db.session.scalars(sa.select(Order.status)).one() is OrderStatus.SHIPPED


def test_an_order_is_shipped_once_however_often_its_job_runs(app: Flask, order: int, jobs_fake: FakeQueue) -> None:
    for _ in range(2):
        with app.app_context():
            jobs.run(ShipOrder(db.get_or_404(Order, order))).assert_done()

    jobs_fake.assert_pushed_once(AskForReview)


def test_a_declined_card_stops_the_order_at_once_and_the_customer_is_told(
    app: Flask, client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path
) -> None:
    client.post("/orders", json=ADA | {"card": "declined"})

    jobs_fake.drain(travel=True)

    (failed,) = jobs_fake.failed
    assert (failed.envelope.name, failed.counters.attempts) == ("billing.charge-order", 1)
    jobs_fake.assert_pushed_once(HoldOrder)
    jobs_fake.assert_not_pushed(SendInvoice)
    jobs_fake.assert_not_pushed(ShipOrder)
    assert mails(tmp_path) == ["Your order 1 is on hold (Lindgren & Sons)"]
    with app.app_context():
        assert payments.charges() == []
        assert db.session.scalars(sa.select(Order.status)).one() is OrderStatus.ON_HOLD


def test_nothing_is_charged_for_an_order_whose_tax_is_unknown(
    app: Flask, client: FlaskClient, jobs_fake: FakeQueue
) -> None:
    client.post("/orders", json=ADA | {"country": "DR"})

    jobs_fake.drain(travel=True)

    (failed,) = jobs_fake.failed
    assert failed.counters.attempts == ChargeOrder.max_attempts
    assert "There is no tax rate for the country 'DR'." in failed.error.message
    with app.app_context():
        assert payments.charges() == []
        assert db.session.scalars(sa.select(Order.status)).one() is OrderStatus.ON_HOLD
        assert db.session.scalars(sa.select(Invoice)).all() == []


def test_one_attempt_without_a_tax_rate_raises(app: Flask, jobs_fake: FakeQueue) -> None:
    order = stored_order(app, country="DR")

    with app.app_context():
        result = jobs.run(ChargeOrder(db.get_or_404(Order, order)))

    result.assert_released()  # for another attempt
    assert isinstance(result.error, UnknownCountry)


def test_a_corrected_customer_can_be_charged(app: Flask, client: FlaskClient, jobs_fake: FakeQueue) -> None:
    order = stored_order(app, country="DR")

    client.post("/customers/1", data={"country": "de", "card": "works"})
    charge(app, order)

    with app.app_context():
        assert len(payments.charges()) == 1


def test_an_order_that_was_put_right_and_shipped_is_not_held_again(app: Flask, order: int, tmp_path: Path) -> None:
    with app.app_context():
        jobs.run(ShipOrder(db.get_or_404(Order, order))).assert_done()

        jobs.run(HoldOrder(db.get_or_404(Order, order))).assert_done()

        assert db.get_or_404(Order, order).status is OrderStatus.SHIPPED
    assert mails(tmp_path) == []


def test_a_review_is_asked_for_after_two_weeks(client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path) -> None:
    with time_machine.travel("2030-05-01T09:00:00Z", tick=False) as clock:
        client.post("/orders", json=ADA)
        jobs_fake.drain()
        clock.shift(dt.timedelta(days=13))
        assert jobs_fake.drain() == []

        clock.shift(dt.timedelta(days=1))
        jobs_fake.drain()

    assert mails(tmp_path)[1:] == ["How was your order 1? (Lindgren & Sons)"]


def test_no_review_is_asked_for_an_order_that_came_back(
    client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path
) -> None:
    client.post("/orders", json=ADA)
    jobs_fake.drain()

    client.post("/orders/1/return")
    (review,) = jobs_fake.drain(travel=True)

    review.assert_done()
    assert len(mails(tmp_path)) == 1  # the invoice


def test_a_report_lists_the_orders_of_its_day(app: Flask, order: int, tmp_path: Path) -> None:
    with app.app_context():
        day = db.get_or_404(Order, order).placed_at.date()

        jobs.run(daily_sales(day)).assert_done()
        jobs.run(daily_sales(day + dt.timedelta(days=1))).assert_done()

    table = (tmp_path / "reports" / f"sales-{day}.csv").read_text(encoding="utf-8").splitlines()
    assert table == ["order,customer,net in cents,status", "1,Ada Holm,1780,placed"]
    empty = (tmp_path / "reports" / f"sales-{day + dt.timedelta(days=1)}.csv").read_text(encoding="utf-8")
    assert len(empty.splitlines()) == 1
