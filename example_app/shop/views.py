"""The shop over HTTP: pages for people, JSON for programs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from flask import Blueprint, abort, jsonify, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import joinedload, selectinload

from ..extensions import db, jobs
from ..models import Customer, Invoice, Order, OrderStatus, now
from ..money import euros
from . import documents, orders
from .catalogue import PRODUCTS
from .jobs import daily_sales

shop = Blueprint("shop", __name__, template_folder="templates")
shop.add_app_template_filter(euros)


@shop.get("/")
def index() -> ResponseReturnValue:
    """The orders, newest first, with their invoices."""
    everything = (joinedload(Order.customer), selectinload(Order.lines), joinedload(Order.invoice))
    newest_first = sa.select(Order).options(*everything).order_by(Order.id.desc()).limit(100)
    found = list(db.session.scalars(newest_first))
    if _wants_json():
        return jsonify([_as_json(order) for order in found])
    return render_template("shop/orders.html", orders=found)


@shop.get("/orders/new")
def new_order() -> ResponseReturnValue:
    """The form of an order."""
    return render_template("shop/new_order.html", products=PRODUCTS, given={}, problems={})


@shop.post("/orders")
def place_order() -> ResponseReturnValue:
    """Take an order from the form or as JSON. Its invoice is written later, by a worker."""
    try:
        order = orders.place(_from_json() if request.is_json else _from_form())
    except orders.InvalidOrder as error:
        return _refused(error)
    place = url_for(".show_order", order_id=order.id)
    if request.is_json:
        return jsonify(_as_json(order)), 201, {"Location": place}
    return redirect(place, code=303)


@shop.get("/orders/<int:order_id>")
def show_order(order_id: int) -> ResponseReturnValue:
    """One order."""
    order = db.get_or_404(Order, order_id)
    return jsonify(_as_json(order)) if _wants_json() else render_template("shop/order.html", order=order)


@shop.get("/orders/<int:order_id>/invoice")
def download_invoice(order_id: int) -> ResponseReturnValue:
    """The document of an order's invoice, once it is there."""
    invoice = db.get_or_404(Order, order_id).invoice
    if invoice is None or not invoice.printed:
        abort(404, "The invoice of this order is not written yet.")
    return send_file(documents.invoice_path(invoice), mimetype="text/html", download_name=f"{invoice.number}.html")


@shop.post("/orders/<int:order_id>/payment")
def pay_order(order_id: int) -> ResponseReturnValue:
    """Note that an invoiced order is paid."""
    order = db.get_or_404(Order, order_id)
    if order.status is not OrderStatus.INVOICED:
        abort(409, f"This order is {order.status.value}: only an invoiced one can be paid.")
    order.status = OrderStatus.PAID
    db.session.commit()
    return redirect(url_for(".show_order", order_id=order.id), code=303)


@shop.post("/customers/<int:customer_id>")
def correct_customer(customer_id: int) -> ResponseReturnValue:
    """Correct the country of a customer."""
    customer = db.get_or_404(Customer, customer_id)
    country = request.form.get("country", "").strip().upper()
    if not (len(country) == 2 and country.isalpha()):
        abort(400, "A country is two letters, such as DE.")
    customer.country = country
    db.session.commit()
    return redirect(url_for(".index"), code=303)


@shop.post("/reports")
def order_report() -> ResponseReturnValue:
    """Have the sales of today written."""
    jobs.dispatch(daily_sales(now().date()))
    return redirect(url_for(".index"), code=303)


def _from_form() -> orders.Request:
    form = request.form
    quantities = {key: form.get(f"quantity-{key}", "0") for key in PRODUCTS}
    return orders.read(form.get("name"), form.get("email"), form.get("country"), quantities)


def _from_json() -> orders.Request:
    body = request.get_json()
    if not isinstance(body, dict) or not isinstance(body.get("quantities"), dict):
        raise orders.InvalidOrder({"lines": 'Send an object with name, email, country and quantities, as {"tea": 2}.'})
    return orders.read(body.get("name"), body.get("email"), body.get("country"), body["quantities"])


def _refused(error: orders.InvalidOrder) -> ResponseReturnValue:
    if request.is_json:
        return jsonify(problems=error.problems), 400
    return render_template("shop/new_order.html", products=PRODUCTS, given=request.form, problems=error.problems), 400


def _wants_json() -> bool:
    return request.accept_mimetypes.best_match(["text/html", "application/json"]) == "application/json"


def _as_json(order: Order) -> dict[str, Any]:
    return {
        "id": order.id,
        "status": order.status.value,
        "customer": {"id": order.customer.id, "name": order.customer.name, "country": order.customer.country},
        "net_cents": order.net_cents,
        "invoice": _invoice_as_json(order.invoice),
    }


def _invoice_as_json(invoice: Invoice | None) -> dict[str, Any] | None:
    if invoice is None:
        return None
    mailed_at = invoice.mailed_at.isoformat() if invoice.mailed_at else None
    return {
        "number": invoice.number,
        "total_cents": invoice.total_cents,
        "printed": invoice.printed,
        "mailed_at": mailed_at,
    }
