"""The application that the tests of the command line run, in this process and in others."""

from __future__ import annotations

import json
import logging
import logging.config
import os
import time
import uuid
from pathlib import Path
from typing import Any

from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_jobs import Job, Jobs


class Base(DeclarativeBase):
    """All models."""


db = SQLAlchemy(model_class=Base)
jobs = Jobs()


@jobs.model("order")
class Order(db.Model):  # type: ignore[name-defined,misc]
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


@jobs.model("line")
class Line(db.Model):  # type: ignore[name-defined,misc]
    order_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


@jobs.model("voucher")
class Voucher(db.Model):  # type: ignore[name-defined,misc]
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)


@jobs.register("shop.note")
class Note(Job):
    """Writes a line into a file of the instance folder, by which tests see that it ran."""

    sensitive = ("token",)

    def __init__(self, text: str, token: str = "") -> None:
        if text == "":
            raise ValueError("a note needs a text")
        self.text = text
        self.token = token

    def handle(self) -> None:
        note(self.text)


@jobs.register("shop.invoice")
class Invoice(Job):
    def __init__(self, order: Order) -> None:
        self.order = order

    def handle(self) -> None:
        note(f"invoice for {self.order.customer}")


@jobs.register("shop.boom")
class Boom(Job):
    def __init__(self, text: str = "nothing but \x1b[31mred") -> None:
        self.text = text

    def handle(self) -> None:
        note("boom")
        raise ValueError(self.text)


@jobs.register("shop.sleep")
class Sleep(Job):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def handle(self) -> None:
        note("asleep")
        time.sleep(self.seconds)


@jobs.register("shop.slow")
class Slow(Job):
    timeout = 30


@jobs.register("shop.commit")
class Patient(Invoice):
    after_commit = True


@jobs.task("shop.add")
def add(a: int, b: int = 2) -> None:
    note(str(a + b))


@jobs.task("shop.seen")
def seen(line: Line, voucher: Voucher | None = None) -> None:
    note(f"{line.order_id}/{line.number} {voucher and voucher.id}")


@jobs.task("shop.loggers")
def loggers() -> None:
    note(json.dumps(logging_tree()))


def note(text: str) -> None:
    with (Path(current_app.instance_path) / "notes").open("a") as notes:
        notes.write(f"{text}\n")


def logging_tree() -> dict[str, Any]:
    """All that a worker must leave alone."""
    names = ["", "app.x", "flask_jobs", "flask_jobs.lifecycle", "shop", "sqlalchemy"]
    found = {name: logging.getLogger(name) for name in names}
    return {
        name: [
            [type(handler).__name__ for handler in logger.handlers],
            [len(handler.filters) for handler in logger.handlers],
            logger.level,
            len(logger.filters),
            logger.disabled,
            logger.propagate,
        ]
        for name, logger in found.items()
    }


def create_app(instance: str | None = None, config: dict[str, Any] | None = None) -> Flask:
    app = Flask("shop", instance_path=instance or os.environ["SHOP_INSTANCE"])
    app.config.update(SECRET_KEY="not a secret", SQLALCHEMY_DATABASE_URI="sqlite:///shop.sqlite")
    app.config.update(json.loads(os.environ.get("SHOP_CONFIG", "{}")) if config is None else config)
    db.init_app(app)
    jobs.init_app(app)
    if "SHOP_LOGGING" in os.environ:
        logging.config.dictConfig(json.loads(os.environ["SHOP_LOGGING"]))
        with app.app_context():
            note(json.dumps(logging_tree()))
    with app.app_context():
        db.create_all()
    return app


def create_bare() -> Flask:
    """An app whose author has forgotten `init_app`."""
    return Flask("bare")
