"""An order, a worker that is killed, another that finishes its work at once, and a failure that is put right."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

from .shopping import Shopper, charges, invoice_files, invoice_rows, mails
from .stage import DemoFailed, Process, Stage


def main() -> int:
    """Play it, and check what came of it."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        with tempfile.TemporaryDirectory(prefix="shop-") as folder, Stage(Path(folder)) as stage:
            return play(stage)
    except DemoFailed as error:
        print(f"\nThe demo failed. {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; everything that was started has ended.", file=sys.stderr)
        return 130


def play(stage: Stage) -> int:
    """All acts; gives the exit code."""
    shopper = open_shop(stage)
    order(stage, shopper)
    workers = start_to_work(stage)
    kill_a_worker(stage, shopper, workers)
    fail(stage, shopper, workers)
    put_right(stage, shopper)
    code = close(stage, workers)
    return summary(stage, shopper, code)


def open_shop(stage: Stage) -> Shopper:
    """Start the web server."""
    act("A shop opens", f"The app is example_app; its data, and its jobs, are in one SQLite file in {stage.folder}.")
    server = stage.start("web", "run", "--port", "0", shown=False)
    stage.wait_for(lambda: server.has_ended or server.found(r"http://\S+"), what="the web server answers")
    address = server.found(r"http://[\d.]+:\d+")
    if address is None:
        raise DemoFailed("The web server did not start:\n" + "\n".join(server.lines))
    print(f"    The shop is open at {address[0]}")
    return Shopper(address[0])


def order(stage: Stage, shopper: Shopper) -> None:
    """The first order."""
    act(
        "Ada orders tea over HTTP",
        "The route stores the order, and with it a chain of jobs, in one transaction:\n"
        "ChargeOrder, then SendInvoice, then ShipOrder, each when the one before it has succeeded.",
    )
    begin = time.monotonic()
    placed = shopper.place_order("Ada Holm", "SE", {"tea": 2, "pot": 1})
    took = (time.monotonic() - begin) * 1000
    print(f"\n    POST /orders answered in {took:.0f} ms: {json.dumps(placed)}")
    print("    Nothing is charged yet. The first job waits for a worker, and the others for it:")
    stage.flask("jobs", "list")


def start_to_work(stage: Stage) -> Process:
    """The workers of the shop."""
    act(
        "The workers start",
        "`flask jobs work` starts a worker process and watches over it. The card is charged first.\n"
        "The printer that writes the invoice is slow on purpose.",
    )
    workers = stage.start(
        "workers", "jobs", "work", "--queue", "default,low", "--backoff", "1", FLASK_SHOP_PRINT_SECONDS="3"
    )
    stage.wait_for(
        lambda: workers.has_ended or any(_size(path) for path in (stage.folder / "invoices").glob("*.part")),
        what="half an invoice is written",
    )
    print(
        f"\n    Written so far: {', '.join(invoice_files(stage.folder))}, which is half a document. No mail, no parcel."
    )
    print(f"    Charged: {', '.join(charges(stage.folder))}.")
    return workers


def kill_a_worker(stage: Stage, shopper: Shopper, workers: Process) -> None:
    """A worker dies in the middle of the invoice, and another takes over."""
    act(
        "The worker is killed in the middle of the invoice",
        "Its supervisor sees that at once: the attempt counts, the job is tried again, and a fresh worker takes over.\n"
        "SendInvoice may run twice without harm. ChargeOrder has ended, and does not run again.",
    )
    (pid,) = workers.children()
    print(f"\n  $ kill -9 {pid}")
    os.kill(pid, signal.SIGKILL)
    stage.wait_for(lambda: workers.has_ended or shopper.is_shipped(1), what="a fresh worker ships the order")
    if workers.has_ended:
        raise DemoFailed("The workers ended.")
    print(f"\n    Ada's order is {shopper.order(1)['status']}; {invoice_files(stage.folder)[0]} is written and mailed.")


def fail(stage: Stage, shopper: Shopper, workers: Process) -> None:
    """An order that the shop cannot charge."""
    act(
        "Bo's order fails",
        "He typed DR where he meant DE. The shop has no tax rate for that, and its author forgot to check.\n"
        "ChargeOrder gets three attempts, here one second apart (--backoff 1). Then the chain stops, and its `catch`,\n"
        "HoldOrder, puts the order on hold and writes to Bo.",
    )
    print("\n    POST /orders")
    shopper.place_order("Bo Kern", "DR", {"cup": 6})
    told = r"orders\.hold .* processed"
    stage.wait_for(lambda: workers.has_ended or workers.found(told), what="the order is put on hold")
    if workers.has_ended:
        raise DemoFailed("The workers ended.")
    print("\n    It is not lost either: a job that is given up on is kept, with all that happened to it.")
    stage.flask("jobs", "failed")
    stage.flask("jobs", "explain", failed_jobs(stage)[0]["id"])


def put_right(stage: Stage, shopper: Shopper) -> None:
    """Correct the data and retry."""
    act(
        "Somebody corrects the country and retries the job",
        "The job sees DE, as it holds a reference; the rest follows.",
    )
    print("\n    POST /customers/2 country=DE")
    shopper.correct_country(2, "DE")
    stage.flask("jobs", "retry", failed_jobs(stage)[0]["id"])
    stage.wait_for(lambda: shopper.is_shipped(2), what="the chain of the retried job ends")
    print(f"\n    Bo's order is {shopper.order(2)['status']}: the chain went on from where it had stopped.")


def close(stage: Stage, workers: Process) -> int:
    """Stop the workers politely; gives the exit code."""
    act("Closing time", "What is left are two letters, due in 14 days, that ask how it was.")
    stage.flask("jobs", "status")
    print(f"\n  $ kill -TERM {workers.pid}")
    return workers.end(signal.SIGTERM)


def summary(stage: Stage, shopper: Shopper, worker_code: int) -> int:
    """Look at what there is, and compare it with what was promised."""
    act("What came of it", "")
    documents = invoice_files(stage.folder)
    customers = ["ada@mail.example", "bo@mail.example"]
    sizes = stage.ask("jobs", "status", "--json")
    promises = {
        "One charge for each order, no card twice": charges(stage.folder) == ["order-1", "order-2"],
        "One invoice in the database for each order": invoice_rows(stage.folder) == [1, 2],
        "One document for each order, nothing half-written": documents == ["INV-00001.html", "INV-00002.html"],
        "Both documents are whole": all(_is_whole(stage.folder / "invoices" / name) for name in documents),
        "One invoice mail for each order, none twice": mails(stage.folder, "invoice") == customers,
        "Bo was told once that his order is on hold": mails(stage.folder, "hold") == ["bo@mail.example"],
        "Both orders are shipped": all(shopper.order(number)["status"] == "shipped" for number in (1, 2)),
        "No failed job is left": failed_jobs(stage) == [],
        "No job is held or waiting, but the two letters": _sizes(sizes) == (0, 2, 0),
        "The workers stopped politely, with exit code 0": worker_code == 0,
    }
    for promise, kept in promises.items():
        print(f"    {'✓' if kept else '✗'} {promise}")
    print(f"\n    {time.monotonic() - stage.started:.0f} seconds. To try it yourself, in two terminals:\n")
    print("  $ . .venv/bin/activate    # in both: `make demo` has put flask there")
    print("  $ flask --app example_app run")
    print("  $ flask --app example_app jobs work --queue default,low")
    return 0 if all(promises.values()) else 1


def failed_jobs(stage: Stage) -> list[dict[str, Any]]:
    """The failed jobs, as a program reads them."""
    found: list[dict[str, Any]] = stage.ask("jobs", "failed", "--json")["failed"]
    return found


def act(title: str, text: str) -> None:
    """Announce what comes."""
    print(f"\n\n{title}\n{'-' * len(title)}", flush=True)
    if text:
        print(text, flush=True)


def _sizes(status: Any) -> tuple[int, int, int]:
    queues = status["queues"]
    ready, delayed, running = (sum(queue[key] for queue in queues) for key in ("ready", "delayed", "running"))
    return ready, delayed, running


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_whole(path: Path) -> bool:
    return path.read_text(encoding="utf-8").rstrip().endswith("</html>")


def _leave(signum: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without these signs shows others
    sys.exit(main())
