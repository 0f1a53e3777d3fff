"""A customer of the shop, over HTTP; and a look at what the shop has done for its customers."""

from __future__ import annotations

import json
import mailbox
import sqlite3
import urllib.parse
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any


class Shopper:
    """Talks to the running shop."""

    def __init__(self, address: str) -> None:
        self.address = address

    def place_order(self, name: str, country: str, quantities: dict[str, int]) -> dict[str, Any]:
        """Order something, and give the shop's answer."""
        order = {
            "name": name,
            "email": f"{name.split()[0].lower()}@mail.example",
            "country": country,
            "quantities": quantities,
        }
        return self._ask("/orders", json.dumps(order).encode(), "application/json")

    def order(self, number: int) -> dict[str, Any]:
        """The order as it is now."""
        return self._ask(f"/orders/{number}")

    def is_shipped(self, number: int) -> bool:
        """Whether all that belongs to the order is done."""
        return self.order(number)["shipped_at"] is not None

    def correct_country(self, customer: int, country: str) -> None:
        """What somebody in the office does when a country was mistyped."""
        form = urllib.parse.urlencode({"country": country}).encode()
        self._ask(f"/customers/{customer}", form, "application/x-www-form-urlencoded")

    def _ask(self, path: str, body: bytes | None = None, content_type: str = "") -> dict[str, Any]:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if body else {})
        request = urllib.request.Request(self.address + path, body, headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def invoice_files(folder: Path) -> list[str]:
    """The names of the documents, half-written ones too."""
    return sorted(path.name for path in (folder / "invoices").glob("*"))


def invoice_rows(folder: Path) -> list[int]:
    """The order of each invoice in the database."""
    with closing(sqlite3.connect(folder / "shop.sqlite")) as database:
        return [order for (order,) in database.execute("SELECT order_id FROM invoice ORDER BY order_id")]


def charges(folder: Path) -> list[str]:
    """The key of each charge that the payment provider has made."""
    path = folder / "payments.jsonl"
    return [json.loads(line)["key"] for line in path.read_text().splitlines()] if path.exists() else []


def mails(folder: Path, kind: str) -> list[str]:
    """To whom each mail of a kind in the mailbox went."""
    path = folder / "mailbox.mbox"
    if not path.exists():
        return []
    with closing(mailbox.mbox(path, create=False)) as box:
        return sorted(str(mail["To"]) for mail in box if str(mail["Message-ID"]).startswith(f"<{kind}-"))
