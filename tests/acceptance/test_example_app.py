"""The shop as its users run it: a web server, `flask jobs …` commands and workers, each a process of its own."""

from __future__ import annotations

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
from tests.acceptance.shop import Shop, wait_for


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
        process.kill()
        process.communicate()


def test_an_order_placed_over_http_is_invoiced_by_a_worker_in_another_process(shop: Shop) -> None:
    shop.order()

    shop.flask("jobs", "work", "--once")

    assert shop.documents() == ["INV-00001.html"]
    assert shop.recipients() == ["ada@mail.example"]
    assert "INV-00001" in shop.app.test_client().get("/").text


def test_the_worker_sees_the_order_as_it_is_when_the_job_runs(shop: Shop) -> None:
    shop.order()
    with shop.app.app_context():
        db.session.query(Customer).update({"name": "Ada Holm-Berg"})
        db.session.commit()

    shop.flask("jobs", "work", "--once")

    assert "Ada Holm-Berg" in (shop.folder / "invoices" / "INV-00001.html").read_text(encoding="utf-8")


def test_a_killed_worker_leaves_its_invoice_to_the_next_one(shop: Shop, started: list[subprocess.Popen[str]]) -> None:
    shop.order()
    killed = shop.start("jobs", "work", FLASK_SHOP_PRINT_SECONDS="300")
    started.append(killed)
    wait_for(lambda: any(p.stat().st_size for p in (shop.folder / "invoices").glob("*.part")), "half an invoice")
    killed.kill()
    killed.communicate()
    assert [name for name in shop.documents() if name.endswith(".html")] == []

    second = shop.start("jobs", "work")
    started.append(second)
    wait_for(lambda: shop.orders()[0]["status"] == "invoiced", "the invoice")
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=30)

    assert second.returncode == 0
    assert json.loads(shop.flask("jobs", "list", "--queue", "default", "--json"))["jobs"] == []
    assert shop.documents() == ["INV-00001.html"]
    assert shop.recipients() == ["ada@mail.example"]


def test_a_failed_job_is_explained_and_retried_after_the_data_is_corrected(shop: Shop) -> None:
    shop.order(country="DR")
    shop.flask("jobs", "work", "--max-jobs", "3", "--backoff", "0")
    (failed,) = json.loads(shop.flask("jobs", "failed", "--json"))["failed"]

    explanation = shop.flask("jobs", "explain", failed["id"])
    shop.app.test_client().post("/customers/1", data={"country": "DE"})
    shop.flask("jobs", "retry", failed["id"])
    shop.flask("jobs", "work", "--once")

    assert "no tax rate for the country 'DR'" in explanation
    assert json.loads(shop.flask("jobs", "failed", "--json"))["failed"] == []
    assert shop.documents() == ["INV-00001.html"]


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

        shop.flask("jobs", "work", "--once")

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
    """A mail server that takes everything and keeps it."""

    def __init__(self) -> None:
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
