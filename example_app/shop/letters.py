"""What the shop writes to its customers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from email.message import EmailMessage

from flask import current_app, render_template

from flask_jobs import Batch

from ..models import Customer, Invoice, Order

OFFICE = "shop@shop.example"


def invoice_page(invoice: Invoice) -> str:
    """The invoice as a document; the same each time it is made."""
    return render_template("shop/invoice.html", invoice=invoice, order=invoice.order)


def invoice_mail(invoice: Invoice) -> EmailMessage:
    """The mail that brings the invoice."""
    message = _about(invoice.order, kind="invoice", subject=f"Your invoice {invoice.number}")
    message.set_content(render_template("shop/invoice_mail.txt", invoice=invoice, order=invoice.order))
    message.add_attachment(invoice_page(invoice), subtype="html", filename=f"{invoice.number}.html")
    return message


def parcel_label(order: Order) -> str:
    """The label of the parcel; the same each time it is made."""
    return render_template("shop/parcel_label.txt", order=order)


def hold_mail(order: Order) -> EmailMessage:
    """The mail to a customer whose order could not be completed."""
    message = _about(order, kind="hold", subject=f"Your order {order.id} is on hold")
    message.set_content(render_template("shop/hold_mail.txt", order=order))
    return message


def review_mail(order: Order) -> EmailMessage:
    """The mail that asks how it was."""
    message = _about(order, kind="review", subject=f"How was your order {order.id}?")
    message.set_content(render_template("shop/review_mail.txt", order=order))
    return message


def statement_mail(customer: Customer, month: dt.date, orders: Sequence[Order]) -> EmailMessage:
    """The mail to a customer with the orders of a month."""
    message = _mail(customer.email, f"statement-{customer.id}-{month:%Y%m}", f"Your orders of {month:%Y-%m}")
    message.set_content(render_template("shop/statement_mail.txt", customer=customer, month=month, orders=orders))
    return message


def statements_report(month: dt.date, batch: Batch) -> EmailMessage:
    """The mail to the office about the statements of a month."""
    message = _mail(OFFICE, f"statements-{batch.id}", f"The statements of {month:%Y-%m}")
    message.set_content(render_template("shop/statements_report.txt", batch=batch.state()))
    return message


def _about(order: Order, *, kind: str, subject: str) -> EmailMessage:
    return _mail(order.customer.email, f"{kind}-{order.id}-{order.placed_at:%Y%m%d%H%M%S}", subject)


def _mail(to: str, name: str, subject: str) -> EmailMessage:
    message = EmailMessage()
    message["Message-ID"] = f"<{name}@{OFFICE.partition('@')[2]}>"  # the same each time, see `mailer.send`
    message["From"] = OFFICE
    message["To"] = to
    message["Subject"] = f"{subject} ({current_app.config['SHOP_NAME']})"
    return message
