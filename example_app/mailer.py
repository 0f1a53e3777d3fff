"""Where the shop's mail goes: to a mailbox file, or to an SMTP server."""

from __future__ import annotations

import mailbox
import smtplib
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import urlsplit

from flask import current_app

from .locking import locked


def send(message: EmailMessage) -> None:
    """Send a message. Its Message-ID is the same each time it is sent, so that a repeated one can be told."""
    target = current_app.config["SHOP_MAIL"]
    if target == "mbox":
        _file(message, mailbox_path())
    else:
        _post(message, target)


def mailbox_path() -> Path:
    """The mailbox of the current app."""
    return Path(current_app.config["SHOP_FOLDER"]) / "mailbox.mbox"


def _file(message: EmailMessage, path: Path) -> None:
    with locked(path.with_suffix(".lock")):
        box = mailbox.mbox(path)
        if all(known["Message-ID"] != message["Message-ID"] for known in box):
            box.add(message)
        box.close()


def _post(message: EmailMessage, target: str) -> None:
    server = urlsplit(target)
    with smtplib.SMTP(server.hostname or "", server.port or 25, timeout=10) as smtp:
        smtp.send_message(message)
