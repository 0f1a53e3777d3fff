"""The shop's files: whole, or not there."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from pathlib import Path
from typing import IO

from flask import current_app

from ..models import Invoice, Order


def invoice_path(invoice: Invoice) -> Path:
    """Where the document of an invoice lies."""
    return _folder("invoices") / f"{invoice.number}.html"


def label_path(order: Order) -> Path:
    """Where the label of an order's parcel lies."""
    return _folder("labels") / f"order-{order.id:05d}.txt"


def report_path(day: dt.date) -> Path:
    """Where the sales of a day are written."""
    return _folder("reports") / f"sales-{day.isoformat()}.csv"


def write(path: Path, text: str) -> None:
    """Write a file so that whoever opens it sees all of it, also if the writer is killed half-way.

    It is written under another name beside its place and then moved there, which is one step.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="", dir=path.parent, prefix=f"{path.name}.", suffix=".part", delete=False
    ) as part:
        _print(part, text)
    os.replace(part.name, path)
    for left_behind in path.parent.glob(f"{path.name}.*.part"):
        left_behind.unlink(missing_ok=True)  # by a writer that was killed


def _print(file: IO[str], text: str) -> None:
    half = len(text) // 2
    file.write(text[:half])
    file.flush()
    time.sleep(current_app.config["SHOP_PRINT_SECONDS"])
    file.write(text[half:])
    file.flush()
    os.fsync(file.fileno())


def _folder(name: str) -> Path:
    return Path(current_app.config["SHOP_FOLDER"]) / name
