"""Placing orders: `jobs_fake` records what the routes dispatch, and nothing runs unless the test says so."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient

from example_app.extensions import db
from example_app.models import Order, now
from example_app.shop import RemindOfPayment, SendInvoice, daily_sales
from flask_jobs.testing import FakeQueue

ADA = {"name": "Ada Holm", "email": "ada@mail.example", "country": "SE", "quantities": {"tea": 2}}
FORM = {"name": "Ada Holm", "email": "ada@mail.example", "country": "se", "quantity-tea": "2"}


def test_an_order_dispatches_its_invoice(app: Flask, client: FlaskClient, jobs_fake: FakeQueue) -> None:
    answer = client.post("/orders", json=ADA)

    assert answer.status_code == 201
    with app.app_context():
        jobs_fake.assert_pushed_once(SendInvoice, lambda job: job.order.customer.name == "Ada Holm")


def test_the_invoice_waits_for_the_commit_of_its_order(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/orders", json=ADA)

    jobs_fake.assert_pushed_after_commit(SendInvoice)


def test_an_order_that_cannot_be_stored_dispatches_nothing(
    app: Flask, client: FlaskClient, jobs_fake: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.testing = False  # the customer gets an error page

    def no_room(**kwargs: Any) -> None:
        raise sa.exc.OperationalError("COMMIT", {}, Exception("database or disk is full"))

    with app.app_context():
        sa.event.listen(db.engine, "commit", no_room, named=True)
    answer = client.post("/orders", json=ADA)

    assert answer.status_code == 500
    jobs_fake.assert_nothing_pushed()


def test_the_form_leads_to_the_page_of_the_order(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    answer = client.post("/orders", data=FORM, follow_redirects=True)

    assert "Order 1" in answer.text
    assert "a worker will write it" in answer.text
    jobs_fake.assert_pushed_once("billing.send-invoice")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": " "}, "name"),
        ({"name": "Ada\nBcc: all@mail.example"}, "name"),
        ({"email": "ada"}, "email"),
        ({"email": None}, "email"),
        ({"country": "Sweden"}, "country"),
        ({"quantities": {}}, "lines"),
        ({"quantities": {"tea": 0}}, "lines"),
        ({"quantities": {"tea": -1}}, "lines"),
        ({"quantities": {"tea": 10**9}}, "lines"),
        ({"quantities": {"tea": "many"}}, "lines"),
        ({"quantities": {"gold": 1}}, "lines"),
        ({"quantities": ["tea"]}, "lines"),
    ],
)
def test_what_is_no_order_is_refused(
    app: Flask, client: FlaskClient, jobs_fake: FakeQueue, change: dict[str, Any], problem: str
) -> None:
    answer = client.post("/orders", json=ADA | change)

    assert answer.status_code == 400
    assert answer.json is not None
    assert list(answer.json["problems"]) == [problem]
    jobs_fake.assert_nothing_pushed()
    with app.app_context():
        assert db.session.scalars(sa.select(Order)).all() == []


def test_the_form_shows_what_is_wrong_and_keeps_the_rest(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    answer = client.post("/orders", data=FORM | {"email": "ada"})

    assert answer.status_code == 400
    assert "An e-mail address has an @ in it." in answer.text
    assert 'value="Ada Holm"' in answer.text


def test_the_page_of_orders_shows_their_states_and_invoices(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/orders", json=ADA)
    jobs_fake.drain()
    client.post("/orders", json=ADA | {"name": "Bo <b>Kern</b>", "email": "bo@mail.example", "country": "DR"})
    jobs_fake.drain(travel=True, limit=20)
    client.post("/orders", json=ADA)

    page = client.get("/").text

    assert "INV-00001" in page
    assert "could not be written" in page
    assert "a worker will write it" in page
    assert "Bo &lt;b&gt;Kern&lt;/b&gt;" in page


def test_a_reminder_is_due_two_weeks_after_the_invoice(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/orders", json=ADA)
    jobs_fake.assert_not_pushed(RemindOfPayment)

    jobs_fake.drain()

    jobs_fake.assert_pushed_in(RemindOfPayment, dt.timedelta(days=14).total_seconds())
    jobs_fake.assert_pushed_on("low", RemindOfPayment)


def test_a_report_is_a_function_that_runs_later(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/reports")

    jobs_fake.assert_pushed(daily_sales, lambda job: job.arguments == {"day": now().date()})
