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
from example_app.shop import AskForReview, ChargeOrder, SendInvoice, ShipOrder, daily_sales
from flask_jobs.testing import FakeQueue

ADA = {"name": "Ada Holm", "email": "ada@mail.example", "country": "SE", "quantities": {"tea": 2}}
FORM = {"name": "Ada Holm", "email": "ada@mail.example", "country": "se", "quantity-tea": "2"}


def test_an_order_is_charged_then_invoiced_then_shipped(app: Flask, client: FlaskClient, jobs_fake: FakeQueue) -> None:
    answer = client.post("/orders", json=ADA)

    assert answer.status_code == 201
    with app.app_context():
        steps = [ChargeOrder, SendInvoice, ShipOrder]
        jobs_fake.assert_chained(steps, lambda job: job.order.customer.name == "Ada Holm")
        jobs_fake.assert_pushed_once(ChargeOrder)  # the others follow, each with the success before it
        jobs_fake.assert_count(1)


def test_the_chain_waits_for_the_commit_of_its_order(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/orders", json=ADA)

    jobs_fake.assert_pushed_after_commit(ChargeOrder)


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
    assert "a worker will do it" in answer.text
    jobs_fake.assert_pushed_once("billing.charge-order")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": " "}, "name"),
        ({"name": "Ada\nBcc: all@mail.example"}, "name"),
        ({"email": "ada"}, "email"),
        ({"email": None}, "email"),
        ({"country": "Sweden"}, "country"),
        ({"card": "gold"}, "card"),
        ({"card": None}, "card"),
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
    assert "waits until somebody has looked" in page
    assert "a worker will do it" in page
    assert "Bo &lt;b&gt;Kern&lt;/b&gt;" in page


def test_a_review_is_asked_for_two_weeks_after_the_parcel_has_left(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/orders", json=ADA)
    jobs_fake.assert_not_pushed(AskForReview)

    jobs_fake.drain()

    jobs_fake.assert_pushed_in(AskForReview, dt.timedelta(days=14).total_seconds())
    jobs_fake.assert_pushed_on("low", AskForReview)


def test_a_report_is_a_function_that_runs_later(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/reports")

    jobs_fake.assert_pushed(daily_sales, lambda job: job.arguments == {"day": now().date()})


def test_a_report_that_is_asked_for_twice_is_written_once(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    first = client.post("/reports", follow_redirects=True)
    second = client.post("/reports", follow_redirects=True)

    jobs_fake.assert_pushed_once(daily_sales)
    jobs_fake.assert_duplicate(daily_sales, lambda job: job.arguments == {"day": now().date()})
    (pushed,) = jobs_fake.pushed()
    assert f"A worker will write the report (job {pushed.id})." in first.text
    assert f"The report is already on its way (job {pushed.id})." in second.text


def test_a_report_may_be_asked_for_again_when_it_is_written(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    client.post("/reports")
    jobs_fake.drain()

    client.post("/reports")

    jobs_fake.assert_pushed_times(daily_sales, 2)
