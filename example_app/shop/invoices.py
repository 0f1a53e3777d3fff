"""The one invoice of each order."""

from __future__ import annotations

from sqlalchemy.exc import IntegrityError

from ..extensions import db
from ..models import Invoice, Order, now
from ..money import tax_cents


def invoice_of(order: Order) -> Invoice:
    """The invoice of the order, made if there is none; whoever else makes it at the same moment."""
    if order.invoice is None:
        tax = tax_cents(order.net_cents, order.customer.country)
        db.session.add(Invoice(order=order, issued_on=now().date(), net_cents=order.net_cents, tax_cents=tax))
        _keep_the_first()
    invoice = order.invoice
    assert invoice is not None
    return invoice


def _keep_the_first() -> None:
    try:
        db.session.commit()
    except IntegrityError:
        db.session.rollback()  # another worker was faster; its row is loaded when it is next asked for
