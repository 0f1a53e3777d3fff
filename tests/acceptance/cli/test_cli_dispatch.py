from __future__ import annotations

import uuid
from typing import Any

import pytest

JOB_ID = "018f0000-0000-7000-8000-00000000000a"


def run(shop: Any) -> list[str]:
    assert shop.flask("work", "--stop-when-empty").returncode == 0
    return list(shop.notes)


def store(shop: Any, *rows: object) -> None:
    with shop.app.app_context():
        shop.module.db.session.add_all(rows)
        shop.module.db.session.commit()


def test_a_job_is_dispatched_by_its_name_and_runs(shop: Any) -> None:
    result = shop.flask("dispatch", "shop.note", "--field", "text=hello there")

    assert result.returncode == 0
    assert result.stdout.endswith(" pushed: shop.note on connection database\n")
    assert run(shop) == ["hello there"]


def test_the_answer_in_json_holds_the_id(shop: Any) -> None:
    document = shop.json("dispatch", "shop.note", "--field", "text=x", "--id", JOB_ID.replace("-", ""))

    assert document == {"connection": "database", "id": JOB_ID, "name": "shop.note", "status": "pushed"}
    assert [job["id"] for job in shop.json("list")["jobs"]] == [JOB_ID]


def test_queue_and_delay_are_those_of_the_call(shop: Any) -> None:
    shop.invoke("dispatch", "shop.note", "--field", "text=x", "--queue", "mail", "--delay", "300")

    (job,) = shop.json("list")["jobs"]
    assert (job["queue"], job["state"]) == ("mail", "delayed")


@pytest.mark.parametrize(
    ("value", "stored"),
    [("7", "7"), ("[1, null]", "[1, None]"), ('"7"', "'7'"), ("007", "'007'"), ("a=b", "'a=b'"), ('"@x"', "'@x'")],
)
def test_a_value_is_json_if_it_can_be_read_as_such_and_else_text(shop: Any, value: str, stored: str) -> None:
    job_id = shop.json("dispatch", "shop.note", "--field", f"text={value}")["id"]

    assert shop.json("show", job_id)["fields"]["text"] == stored


def test_fields_can_be_one_json_object(shop: Any) -> None:
    shop.invoke("dispatch", "shop.add", "--json-fields", '{"a": 40}', "--field", "b=5")
    shop.invoke("dispatch", "shop.add", "--json-fields", '{"a": 40}')

    assert run(shop) == ["45", "42"]


def test_a_model_is_named_by_its_registered_name_and_key(shop: Any) -> None:
    voucher = uuid.uuid4()
    store(shop, shop.module.Order(id=7, customer="Ada"), shop.module.Line(order_id=7, number=2))
    store(shop, shop.module.Voucher(id=voucher))

    shop.invoke("dispatch", "shop.invoice", "--field", "order=@order:7")
    shop.invoke("dispatch", "shop.seen", "--field", "line=@line:7,2", "--field", f"voucher=@voucher:{voucher}")

    assert run(shop) == ["invoice for Ada", f"7/2 {voucher}"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("@order:8", "There is no order with the key '8'."),
        ("@order:x", "'x' is no key of order."),
        ("@line:7", "The key of line has 2 parts, '7' has 1."),
        ("@customer:1", "No model is registered under 'customer'."),
        ("@order", "'@order' is no @model:key."),
    ],
)
def test_a_model_that_is_not_there_is_said(shop: Any, value: str, message: str) -> None:
    result = shop.invoke("dispatch", "shop.invoice", "--field", f"order={value}")

    assert result.exit_code == 1
    assert message in result.stderr
    assert shop.json("list")["jobs"] == []


def test_a_job_that_waits_for_commits_is_sent_all_the_same(shop: Any) -> None:
    store(shop, shop.module.Order(id=7, customer="Ada"))

    assert shop.json("dispatch", "shop.commit", "--field", "order=@order:7")["status"] == "pushed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop.nope"], "No job is registered under 'shop.nope'."),
        (["shop.not", "--field", "text=x"], "Near are shop.note"),
        (["shop.note", "--field", "txt=x"], "shop.note cannot be made with these fields: TypeError: "),
        (["shop.note"], "missing 1 required positional argument: 'text'"),
        (["shop.note", "--field", 'text=""'], "ValueError: a note needs a text"),
        (["shop.add", "--field", "c=1"], "shop.add cannot be made with these fields: TypeError: "),
    ],
)
def test_a_job_that_cannot_be_made_ends_with_1_and_the_reason(shop: Any, arguments: list[str], message: str) -> None:
    result = shop.invoke("dispatch", *arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--field", "text"],
        ["--field", "=x"],
        ["--field", "text=x", "--field", "text=y"],
        ["--json-fields", "{"],
        ["--json-fields", "[" * 100_000],
        ["--json-fields", "[]"],
        ["--field", "text=x", "--delay", "-1"],
        ["--field", "text=x", "--id", "7"],
    ],
)
def test_a_command_line_that_cannot_be_used_ends_with_2(shop: Any, options: list[str]) -> None:
    assert shop.invoke("dispatch", "shop.note", *options).exit_code == 2
    assert shop.json("list")["jobs"] == []


def test_on_a_sync_connection_the_job_runs_at_once(shop: Any) -> None:
    document = shop.json("dispatch", "shop.note", "--field", "text=now", "--connection", "sync")

    assert (document["connection"], document["status"]) == ("sync", "ran")
    assert shop.notes == ["now"]
