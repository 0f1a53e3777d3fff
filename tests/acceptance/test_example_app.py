"""The shop as its users run it: a web server, `flask jobs …` commands and workers, each a process of its own."""

from __future__ import annotations

import datetime as dt
import json
import signal
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from example_app.extensions import db
from example_app.models import Customer, Order
from tests.acceptance.shop import Shop, kill, wait_for


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended after the test, whatever became of it."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        kill(process)


def test_an_order_is_charged_invoiced_and_shipped_by_a_worker_in_another_process(shop: Shop) -> None:
    shop.order()

    shop.flask("jobs", "work", "--stop-when-empty")

    (order,) = shop.orders()
    assert (order["status"], order["payment"]) == ("shipped", "PAY-00001")
    assert shop.charges() == ["order-1"]
    assert shop.documents() == ["INV-00001.html"]
    assert shop.recipients() == ["ada@mail.example"]
    assert shop.documents("labels") == ["order-00001.txt"]
    assert "INV-00001" in shop.app.test_client().get("/").text


def test_the_worker_sees_the_order_as_it_is_when_the_job_runs(shop: Shop) -> None:
    shop.order()
    with shop.app.app_context():
        db.session.query(Customer).update({"name": "Ada Holm-Berg"})
        db.session.commit()

    shop.flask("jobs", "work", "--stop-when-empty")

    assert "Ada Holm-Berg" in (shop.folder / "invoices" / "INV-00001.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("links_done", "folder"), [("0", "invoices"), ("2", "labels")])
def test_a_worker_killed_in_the_middle_of_an_order_changes_nothing(
    shop: Shop, started: list[subprocess.Popen[str]], links_done: str, folder: str
) -> None:
    shop.order()
    if links_done != "0":
        shop.flask("jobs", "work", "--max-jobs", links_done)
    killed = shop.start("jobs", "work", FLASK_SHOP_PRINT_SECONDS="300")
    started.append(killed)
    wait_for(lambda: any(p.stat().st_size for p in (shop.folder / folder).glob("*.part")), "half a document")
    kill(killed)
    assert [name for name in shop.documents(folder) if not name.endswith(".part")] == []

    second = shop.start("jobs", "work")
    started.append(second)
    wait_for(lambda: shop.orders()[0]["status"] == "shipped", "the end of the chain")
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=60)

    assert second.returncode == 0
    assert json.loads(shop.flask("jobs", "list", "--queue", "default", "--json"))["jobs"] == []
    assert shop.charges() == ["order-1"]
    assert shop.documents() == ["INV-00001.html"]
    assert shop.recipients() == ["ada@mail.example"]
    assert shop.documents("labels") == ["order-00001.txt"]


def test_a_failed_job_is_explained_and_its_retry_brings_the_rest_of_the_order_along(shop: Shop) -> None:
    shop.order(country="DR")
    shop.flask("jobs", "work", "--stop-when-empty", "--backoff", "0")
    (failed,) = json.loads(shop.flask("jobs", "failed", "--json"))["failed"]
    assert shop.orders()[0]["status"] == "on hold"

    explanation = shop.flask("jobs", "explain", failed["id"])
    shop.app.test_client().post("/customers/1", data={"country": "DE"})
    shop.flask("jobs", "retry", failed["id"])
    shop.flask("jobs", "work", "--stop-when-empty")

    assert "no tax rate for the country 'DR'" in explanation
    assert json.loads(shop.flask("jobs", "failed", "--json"))["failed"] == []
    assert shop.documents() == ["INV-00001.html"]
    assert shop.charges() == ["order-1"]
    assert shop.orders()[0]["status"] == "shipped"


def test_one_label_is_printed_at_a_time_and_who_waits_can_be_told_for_whom(
    shop: Shop, started: list[subprocess.Popen[str]]
) -> None:
    shop.order()
    shop.order()
    shop.flask("jobs", "work", "--max-jobs", "4")  # both are charged and invoiced
    first, second = json.loads(shop.flask("jobs", "list", "--queue", "default", "--json"))["jobs"]
    printing = shop.start("jobs", "work", FLASK_SHOP_PRINT_SECONDS="300")
    started.append(printing)
    wait_for(lambda: any(p.stat().st_size for p in (shop.folder / "labels").glob("*.part")), "half a label")

    shop.flask("jobs", "work", "--max-jobs", "1")

    explanation = shop.flask("jobs", "explain", second["id"])
    assert "label-printer" in explanation
    assert first["id"] in explanation
    kill(printing)
    shop.flask("jobs", "work", "--max-jobs", "2")
    assert shop.documents("labels") == ["order-00001.txt", "order-00002.txt"]


def test_a_report_asked_for_twice_is_written_once(shop: Shop) -> None:
    client = shop.app.test_client()
    client.post("/reports")
    page = client.post("/reports", follow_redirects=True).text
    (waiting,) = json.loads(shop.flask("jobs", "list", "--json"))["jobs"]

    shop.flask("jobs", "work", "--queue", "low", "--stop-when-empty")
    again = client.post("/reports", follow_redirects=True).text

    assert f"The report is already on its way (job {waiting['id']})." in page
    assert len(shop.documents("reports")) == 1
    assert "A worker will write the report" in again


def test_statements_are_sent_to_all_that_can_be_reached_and_the_page_shows_it(shop: Shop) -> None:
    shop.order(name="Ada Holm", email="ada@mail.example")
    shop.order(name="Bo Kern", email="full@mail.example")
    with shop.app.app_context():
        db.session.query(Order).update({"placed_at": dt.datetime(2030, 5, 31)})
        db.session.commit()
    shop.flask("jobs", "clear", "--queue", "default", "--force")
    with SmtpSink(refused="full@mail.example") as sink:
        shop.settings["FLASK_SHOP_MAIL"] = f"smtp://127.0.0.1:{sink.port}"

        shop.flask("shop", "send-statements", "2030-05")
        (batch,) = json.loads(shop.flask("jobs", "batches", "--json"))["batches"]
        shop.flask("jobs", "work", "--queue", "low", "--backoff", "0", "--stop-when-empty")

        page = shop.app.test_client().get(f"/statements/{batch['id']}")
    assert "2 of 2" in page.text
    assert "the office has the report" in page.text
    assert len(sink.mails) == 2
    assert "To: ada@mail.example" in sink.mails[0]
    assert "1 of 2 statements were sent, 1 could not be sent" in sink.mails[1]


def test_an_order_that_is_gone_fails_its_invoice_at_once(shop: Shop) -> None:
    shop.order()
    with shop.app.app_context():
        db.session.delete(db.session.get(Order, 1))
        db.session.commit()

    shop.flask("jobs", "work", "--once")

    (failed,) = json.loads(shop.flask("jobs", "failed", "--json"))["failed"]
    assert failed["attempts"] == 1
    assert failed["error"]["type"].endswith("ModelNotFound")


def test_mail_goes_to_an_smtp_server_where_one_is_configured(shop: Shop) -> None:
    with SmtpSink() as sink:
        shop.settings["FLASK_SHOP_MAIL"] = f"smtp://127.0.0.1:{sink.port}"
        shop.order()

        shop.flask("jobs", "work", "--stop-when-empty")

        (mail,) = sink.mails
    assert "To: ada@mail.example" in mail
    assert "INV-00001.html" in mail


def test_web_server_and_workers_may_start_at_the_same_time_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    shop = Shop(tmp_path / "first")  # only lends its way of starting processes
    shop.folder = tmp_path / "second"
    processes = [shop.start("jobs", "work", "--stop-when-empty") for _ in range(4)]

    errors = [process.communicate(timeout=60)[1] for process in processes]

    assert [process.returncode for process in processes] == [0] * 4, errors
    shop.close()


class SmtpSink:
    """A mail server that takes everything and keeps it, but for one recipient."""

    def __init__(self, refused: str = "nobody") -> None:
        self.mails: list[str] = []
        mails = self.mails

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.answer("220 sink")
                while line := self.rfile.readline().decode().strip():
                    match line.split()[0].upper():
                        case "DATA":
                            self.answer("354 go on")
                            mails.append(self.data())
                            self.answer("250 kept")
                        case "QUIT":
                            self.answer("221 bye")
                            return
                        case "RCPT" if refused in line:
                            self.answer("552 the mailbox is full")
                        case _:
                            self.answer("250 fine")

            def answer(self, line: str) -> None:
                self.wfile.write(f"{line}\r\n".encode())

            def data(self) -> str:
                lines: list[str] = []
                while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                    lines.append(line)
                return "\n".join(lines)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
        self.port = self._server.server_address[1]

    def __enter__(self) -> SmtpSink:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
