"""From what a customer sends to an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ..extensions import db
from ..models import Customer, Order, OrderLine
from ..payments import CARDS
from .catalogue import PRODUCTS
from .jobs import fulfil

MOST = 100


class InvalidOrder(ValueError):
    """What was sent is no order; `problems` says for each field what is wrong with it."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)


@dataclass(frozen=True, slots=True)
class Request:
    """A well-formed wish for an order: who, and how many of which product."""

    name: str
    email: str
    country: str
    card: str
    quantities: Mapping[str, int]


def read(*, name: Any, email: Any, country: Any, card: Any, quantities: Mapping[str, Any]) -> Request:
    """Check what came in and make a request of it, or raise `InvalidOrder`."""
    problems: dict[str, str] = {}
    request = Request(
        name=_text(name, "name", problems),
        email=_text(email, "email", problems),
        country=_text(country, "country", problems).upper(),
        card=_text(card, "card", problems),
        quantities=_quantities(quantities, problems),
    )
    if request.email and "@" not in request.email:
        problems["email"] = "An e-mail address has an @ in it."
    if request.country and not (len(request.country) == 2 and request.country.isalpha()):
        problems["country"] = "A country is two letters, such as DE."
    if request.card and request.card not in CARDS:
        problems["card"] = f"The payment provider knows these cards: {', '.join(CARDS)}."
    if problems:
        raise InvalidOrder(problems)
    return request


def place(request: Request) -> Order:
    """Store the order, and the chain of jobs that fulfils it, in one transaction."""
    order = Order(customer=_customer(request))
    order.lines = [
        OrderLine(product=PRODUCTS[key].name, quantity=quantity, unit_cents=PRODUCTS[key].cents)
        for key, quantity in request.quantities.items()
    ]
    db.session.add(order)
    db.session.flush()  # gives the order the number by which the job refers to it
    fulfil(order)  # waits for the commit, and is gone if that fails
    db.session.commit()
    return order


def _customer(request: Request) -> Customer:
    known = db.session.scalar(sa.select(Customer).where(Customer.email == request.email))
    customer = known or Customer(email=request.email)
    customer.name = request.name
    customer.country = request.country
    customer.card = request.card
    return customer


def _text(value: Any, field: str, problems: dict[str, str]) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not text or len(text) > 200 or not text.isprintable():
        problems[field] = f"The {field} is missing, too long, or has more than one line."
    return text


def _quantities(given: Mapping[str, Any], problems: dict[str, str]) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for key, value in given.items():
        quantity = _quantity(value)
        if key not in PRODUCTS or quantity is None:
            problems["lines"] = f"Of each product on the list you can order up to {MOST}."
        elif quantity:
            wanted[key] = quantity
    if not wanted:
        problems.setdefault("lines", "Choose at least one product.")
    return wanted


def _quantity(value: Any) -> int | None:
    try:
        quantity = int(value or 0)
    except (TypeError, ValueError):
        return None
    return quantity if 0 <= quantity <= MOST else None
