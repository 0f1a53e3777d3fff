"""What the shop writes to its customers."""

from __future__ import annotations

from email.message import EmailMessage

from flask import current_app, render_template

from ..models import Invoice, Order


def invoice_page(invoice: Invoice) -> str:
    """The invoice as a document; the same each time it is made."""
    return render_template("shop/invoice.html", invoice=invoice, order=invoice.order)


def invoice_mail(invoice: Invoice) -> EmailMessage:
    """The mail that brings the invoice."""
    message = _mail(invoice.order, kind="invoice", subject=f"Your invoice {invoice.number}")
    message.set_content(render_template("shop/invoice_mail.txt", invoice=invoice, order=invoice.order))
    message.add_attachment(invoice_page(invoice), subtype="html", filename=f"{invoice.number}.html")
    return message


def reminder_mail(order: Order) -> EmailMessage:
    """The mail to a customer who has not paid."""
    message = _mail(order, kind="reminder", subject=f"A reminder: your order {order.id}")
    message.set_content(render_template("shop/reminder_mail.txt", order=order))
    return message


def _mail(order: Order, *, kind: str, subject: str) -> EmailMessage:
    message = EmailMessage()
    message["Message-ID"] = f"<{kind}-{order.id}-{order.placed_at:%Y%m%d%H%M%S}@shop.example>"
    message["From"] = "shop@shop.example"
    message["To"] = order.customer.email
    message["Subject"] = f"{subject} from {current_app.config['SHOP_NAME']}"
    return message
