"""The shop over HTTP: pages for people, JSON for programs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from flask import Blueprint, abort, flash, jsonify, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import joinedload, selectinload

from flask_jobs import Batch

from ..extensions import db, jobs
from ..models import Customer, Invoice, Order, OrderStatus, now
from ..money import euros
from ..payments import CARDS
from . import documents, orders, statements
from .catalogue import PRODUCTS
from .jobs import daily_sales

DEFAULT_CARD = next(iter(CARDS))

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
    return render_template("shop/orders.html", orders=found, this_month=f"{now():%Y-%m}")


@shop.get("/orders/new")
def new_order() -> ResponseReturnValue:
    """The form of an order."""
    return render_template("shop/new_order.html", products=PRODUCTS, cards=CARDS, given={}, problems={})


@shop.post("/orders")
def place_order() -> ResponseReturnValue:
    """Take an order from the form or as JSON. What it takes to fulfil it is done later, by workers."""
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


@shop.post("/orders/<int:order_id>/return")
def take_back(order_id: int) -> ResponseReturnValue:
    """Note that a parcel has come back."""
    order = db.get_or_404(Order, order_id)
    if order.status is not OrderStatus.SHIPPED:
        abort(409, f"This order is {order.status.value}: only a shipped one can come back.")
    order.status = OrderStatus.RETURNED
    db.session.commit()
    return redirect(url_for(".show_order", order_id=order.id), code=303)


@shop.post("/customers/<int:customer_id>")
def correct_customer(customer_id: int) -> ResponseReturnValue:
    """Correct the country of a customer, or note another card."""
    customer = db.get_or_404(Customer, customer_id)
    country = request.form.get("country", customer.country).strip().upper()
    card = request.form.get("card", customer.card)
    if not (len(country) == 2 and country.isalpha()):
        abort(400, "A country is two letters, such as DE.")
    if card not in CARDS:
        abort(400, f"The payment provider knows these cards: {', '.join(CARDS)}.")
    customer.country, customer.card = country, card
    db.session.commit()
    return redirect(url_for(".index"), code=303)


@shop.post("/reports")
def order_report() -> ResponseReturnValue:
    """Have the sales of today written. Who clicks twice is told that it is on its way already."""
    answer = jobs.dispatch(daily_sales(now().date()))
    if answer:
        flash(f"A worker will write the report (job {answer.id}).")
    else:
        flash(f"The report is already on its way (job {answer.holder}).")
    return redirect(url_for(".index"), code=303)


@shop.post("/statements")
def send_statements() -> ResponseReturnValue:
    """Have the statements of a month sent to all customers, and lead to the page that shows how far they are."""
    try:
        month = statements.month_of(request.form.get("month", ""))
    except ValueError:
        abort(400, "A month is written as 2026-11.")
    batch = statements.send_all(month)
    return redirect(url_for(".show_statements", batch_id=batch.id), code=303)


@shop.get("/statements/<batch_id>")
def show_statements(batch_id: str) -> ResponseReturnValue:
    """How far the statements are."""
    batch = jobs.find_batch(batch_id)
    if batch is None:
        abort(404, "There are no such statements, or they were sent long ago.")
    if _wants_json():
        return jsonify(_batch_as_json(batch))
    return render_template("shop/statements.html", batch=batch.state())


def _from_form() -> orders.Request:
    form = request.form
    quantities = {key: form.get(f"quantity-{key}", "0") for key in PRODUCTS}
    return orders.read(
        name=form.get("name"),
        email=form.get("email"),
        country=form.get("country"),
        card=form.get("card", DEFAULT_CARD),
        quantities=quantities,
    )


def _from_json() -> orders.Request:
    body = request.get_json()
    if not isinstance(body, dict) or not isinstance(body.get("quantities"), dict):
        raise orders.InvalidOrder({"lines": 'Send an object with name, email, country and quantities, as {"tea": 2}.'})
    return orders.read(
        name=body.get("name"),
        email=body.get("email"),
        country=body.get("country"),
        card=body.get("card", DEFAULT_CARD),
        quantities=body["quantities"],
    )


def _refused(error: orders.InvalidOrder) -> ResponseReturnValue:
    if request.is_json:
        return jsonify(problems=error.problems), 400
    form = render_template(
        "shop/new_order.html", products=PRODUCTS, cards=CARDS, given=request.form, problems=error.problems
    )
    return form, 400


def _wants_json() -> bool:
    return request.accept_mimetypes.best_match(["text/html", "application/json"]) == "application/json"


def _as_json(order: Order) -> dict[str, Any]:
    return {
        "id": order.id,
        "status": order.status.value,
        "customer": {"id": order.customer.id, "name": order.customer.name, "country": order.customer.country},
        "net_cents": order.net_cents,
        "payment": order.payment,
        "invoice": _invoice_as_json(order.invoice),
        "shipped_at": order.shipped_at.isoformat() if order.shipped_at else None,
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


def _batch_as_json(batch: Batch) -> dict[str, Any]:
    state = batch.state()
    return {
        "name": state.name,
        "finished": state.finished_at is not None,
        "total": state.total,
        "pending": state.pending,
        "done": state.done,
        "failed": state.failed,
        "skipped": state.skipped,
    }
