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

from example_app.extensions import db, jobs
from example_app.models import Customer, Invoice, Order, OrderLine, OrderStatus
from example_app.money import UnknownCountry
from example_app.shop import RemindOfPayment, SendInvoice, daily_sales
from flask_jobs.testing import FakeQueue


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


def mails(folder: Path) -> list[str]:
    with closing(mailbox.mbox(folder / "mailbox.mbox")) as box:
        return [str(message["Subject"]) for message in box]


def test_an_invoice_is_written_and_mailed(app: Flask, client: FlaskClient, order: int, tmp_path: Path) -> None:
    run_invoice(app, order)

    document = (tmp_path / "invoices" / "INV-00001.html").read_text(encoding="utf-8")
    assert "€ 17.80" in document
    assert "€ 22.25" in document
    assert mails(tmp_path) == ["Your invoice INV-00001 from Lindgren & Sons"]
    with client.get(f"/orders/{order}/invoice") as download:
        assert download.get_data(as_text=True) == document


def test_an_invoice_is_sent_once_however_often_its_job_runs(
    app: Flask, order: int, jobs_fake: FakeQueue, tmp_path: Path
) -> None:
    run_invoice(app, order)
    run_invoice(app, order)

    assert len(mails(tmp_path)) == 1
    jobs_fake.assert_pushed_once(RemindOfPayment)
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


def test_an_order_without_a_tax_rate_is_put_on_hold(app: Flask, client: FlaskClient, jobs_fake: FakeQueue) -> None:
    bo = {"name": "Bo Kern", "email": "bo@mail.example", "country": "DR", "quantities": {"cup": 6}}
    client.post("/orders", json=bo)

    jobs_fake.drain(travel=True)

    (failed,) = jobs_fake.failed
    assert failed.counters.attempts == SendInvoice.max_attempts
    assert "There is no tax rate for the country 'DR'." in failed.error.message
    with app.app_context():
        assert db.session.scalars(sa.select(Order.status)).one() is OrderStatus.ON_HOLD
        assert db.session.scalars(sa.select(Invoice)).all() == []


def test_one_attempt_without_a_tax_rate_raises(app: Flask, jobs_fake: FakeQueue) -> None:
    order = stored_order(app, country="DR")

    with app.app_context():
        result = jobs.run(SendInvoice(db.get_or_404(Order, order)))

    result.assert_released()  # for another attempt
    assert isinstance(result.error, UnknownCountry)


def test_a_corrected_country_lets_the_invoice_be_written(
    app: Flask, client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path
) -> None:
    order = stored_order(app, country="DR")

    client.post("/customers/1", data={"country": "de"})

    run_invoice(app, order)
    assert len(mails(tmp_path)) == 1


def test_who_has_not_paid_is_reminded(app: Flask, client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path) -> None:
    order = {"name": "Ada Holm", "email": "ada@mail.example", "country": "SE", "quantities": {"tea": 2}}
    with time_machine.travel("2030-05-01T09:00:00Z", tick=False) as clock:
        client.post("/orders", json=order)
        jobs_fake.drain()
        clock.shift(dt.timedelta(days=13))
        assert jobs_fake.drain() == []

        clock.shift(dt.timedelta(days=1))
        jobs_fake.drain()

    assert mails(tmp_path)[1:] == ["A reminder: your order 1 from Lindgren & Sons"]


def test_who_has_paid_is_not_reminded(app: Flask, client: FlaskClient, order: int, tmp_path: Path) -> None:
    run_invoice(app, order)
    client.post(f"/orders/{order}/payment")

    with app.app_context():
        jobs.run(RemindOfPayment(db.get_or_404(Order, order))).assert_done()

    assert len(mails(tmp_path)) == 1


def test_a_report_lists_the_orders_of_its_day(app: Flask, order: int, tmp_path: Path) -> None:
    with app.app_context():
        day = db.get_or_404(Order, order).placed_at.date()

        jobs.run(daily_sales(day)).assert_done()
        jobs.run(daily_sales(day + dt.timedelta(days=1))).assert_done()

    table = (tmp_path / "reports" / f"sales-{day}.csv").read_text(encoding="utf-8").splitlines()
    assert table == ["order,customer,net in cents,status", "1,Ada Holm,1780,placed"]
    empty = (tmp_path / "reports" / f"sales-{day + dt.timedelta(days=1)}.csv").read_text(encoding="utf-8")
    assert len(empty.splitlines()) == 1
