"""The monthly statements: a batch that a button or a command starts, and a page that shows how far it is."""

from __future__ import annotations

import datetime as dt
import mailbox
from contextlib import closing
from email import message_from_bytes
from email.policy import default
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from example_app.extensions import db
from example_app.models import Customer, Order, OrderLine
from example_app.shop import ReportStatements, SendStatement
from flask_jobs.testing import FakeQueue


@pytest.fixture(autouse=True)
def orders(app: Flask, jobs_fake: FakeQueue) -> None:
    """Ada and Bo order in May, on its first and its last day, and Cleo in June."""
    with app.app_context():
        for name, day in (("Ada", (5, 1, 0, 0)), ("Bo", (5, 31, 23, 59)), ("Cleo", (6, 1, 0, 0))):
            customer = Customer(name=name, email=f"{name.lower()}@mail.example", country="SE")
            lines = [OrderLine(product="Green tea", quantity=2, unit_cents=890)]
            db.session.add(Order(customer=customer, placed_at=dt.datetime(2030, *day), lines=lines))
        db.session.commit()


def mails(folder: Path) -> dict[str, str]:
    """What each recipient was told last."""
    with closing(mailbox.mbox(folder / "mailbox.mbox")) as box:
        found = [message_from_bytes(mail.as_bytes(), policy=default) for mail in box]
        return {str(mail["To"]): mail.get_content() for mail in found}


def test_each_customer_of_the_month_gets_a_statement(client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path) -> None:
    client.post("/statements", data={"month": "2030-05"})

    jobs_fake.assert_batched([SendStatement, SendStatement], lambda batch: batch.name == "statements of 2030-05")
    jobs_fake.drain()
    told = mails(tmp_path)
    assert set(told) == {"ada@mail.example", "bo@mail.example", "shop@shop.example"}
    assert "2030-05-31  order 2, placed: € 17.80 before tax" in told["bo@mail.example"]


def test_the_page_shows_how_far_they_are(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    place = client.post("/statements", data={"month": "2030-05"}).headers["Location"]
    before = client.get(place).text
    jobs_fake.drain()
    after = client.get(place).text

    assert '<progress id="progress" value="0" max="2">' in before
    assert 'http-equiv="refresh"' in before
    assert '<progress id="progress" value="2" max="2">' in after
    assert 'http-equiv="refresh"' not in after
    assert "the office has the report" in after


def test_one_statement_that_cannot_be_sent_stops_no_other_one(
    app: Flask, client: FlaskClient, jobs_fake: FakeQueue, tmp_path: Path
) -> None:
    with app.app_context():
        db.session.query(Customer).filter_by(name="Ada").update({"email": "two\nlines@mail.example"})
        db.session.commit()
    place = client.post("/statements", data={"month": "2030-05"}).headers["Location"]

    jobs_fake.drain(travel=True)

    state = client.get(place, headers={"Accept": "application/json"}).json
    counts = {"total": 2, "pending": 0, "done": 1, "failed": 1, "skipped": 0}
    assert state == {"name": "statements of 2030-05", "finished": True} | counts
    told = mails(tmp_path)
    assert "bo@mail.example" in told
    assert told["shop@shop.example"].startswith("1 of 2 statements were sent, 1 could not be sent")
    jobs_fake.assert_pushed_once(ReportStatements)


def test_a_month_without_orders_is_finished_at_once(client: FlaskClient, jobs_fake: FakeQueue) -> None:
    page = client.post("/statements", data={"month": "2029-12"}, follow_redirects=True)

    assert page.status_code == 200
    assert "All have ended" in page.text


def test_a_command_starts_them_too(app: Flask, jobs_fake: FakeQueue) -> None:
    answer = app.test_cli_runner().invoke(args=["shop", "send-statements", "2030-06"])

    assert answer.exit_code == 0
    assert "of 2030-06: 1 to send" in answer.output
    jobs_fake.assert_batched([SendStatement], lambda batch: batch.name == "statements of 2030-06")


@pytest.mark.parametrize("month", ["", "May", "2030-13", "2030-05-01"])
def test_what_is_no_month_is_refused(client: FlaskClient, jobs_fake: FakeQueue, month: str) -> None:
    assert client.post("/statements", data={"month": month}).status_code == 400

    jobs_fake.assert_nothing_pushed()


def test_statements_that_are_not_there_are_not_found(client: FlaskClient) -> None:
    assert client.get("/statements/0198c0de-0000-7000-8000-000000000000").status_code == 404
