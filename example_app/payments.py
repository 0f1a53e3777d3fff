"""The payment provider, played by a file with one line for each charge.

A real one does the same where it matters: it takes a key with each charge, and answers a repeated key with the charge
that it has made. So a worker that was killed before it noted the answer may simply ask again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flask import current_app

from .locking import locked
from .money import euros

CARDS = {"works": "A test card", "declined": "A test card that is declined"}


class CardDeclined(Exception):
    """The customer's bank does not pay."""


def charge(key: str, cents: int, card: str) -> str:
    """Charge the card, once for each key, and give the number of the payment. Raises `CardDeclined`."""
    if card == "declined":
        raise CardDeclined(f"The bank declined a charge of {euros(cents)}.")
    ledger = _ledger()
    with locked(ledger.with_suffix(".lock")):
        keys = [entry["key"] for entry in charges()]
        if key not in keys:
            with ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "cents": cents}) + "\n")
            keys.append(key)
    return f"PAY-{keys.index(key) + 1:05d}"


def charges() -> list[dict[str, Any]]:
    """What the provider has charged, oldest first."""
    ledger = _ledger()
    return [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()] if ledger.exists() else []


def _ledger() -> Path:
    return Path(current_app.config["SHOP_FOLDER"]) / "payments.jsonl"
