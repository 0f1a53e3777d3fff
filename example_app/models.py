"""What the shop keeps: customers, their orders, and the invoices for them.

Each model that a job refers to has a stable name. What is stored with the job is that name and the row's key.
"""

from __future__ import annotations

import datetime as dt
from enum import Enum

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column, relationship
from sqlalchemy.schema import CreateTable

from .extensions import db, jobs


def now() -> dt.datetime:
    """The present instant in UTC, without a zone, as the database keeps it."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)


class OrderStatus(Enum):
    """How far an order has come."""

    PLACED = "placed"
    ON_HOLD = "on hold"
    CHARGED = "charged"
    INVOICED = "invoiced"
    SHIPPED = "shipped"
    RETURNED = "returned"


@jobs.model("customer")
class Customer(db.Model):
    """Somebody who orders; known by e-mail address."""

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(200))
    email: Mapped[str] = mapped_column(sa.String(200), unique=True)
    country: Mapped[str] = mapped_column(sa.String(2))
    card: Mapped[str] = mapped_column(sa.String(40), default="works")  # what the payment provider calls it
    orders: Mapped[list[Order]] = relationship(back_populates="customer")


@jobs.model("order")
class Order(db.Model):
    """What a customer bought. Money is in cents."""

    __tablename__ = "shop_order"  # "order" is a word of SQL

    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customer.id"))
    placed_at: Mapped[dt.datetime] = mapped_column(default=now)
    status: Mapped[OrderStatus] = mapped_column(sa.Enum(OrderStatus, native_enum=False), default=OrderStatus.PLACED)
    payment: Mapped[str | None] = mapped_column(sa.String(40))  # the payment provider's number for it
    shipped_at: Mapped[dt.datetime | None]
    customer: Mapped[Customer] = relationship(back_populates="orders")
    lines: Mapped[list[OrderLine]] = relationship(order_by="OrderLine.id", cascade="all, delete-orphan")
    invoice: Mapped[Invoice | None] = relationship(back_populates="order")

    @property
    def net_cents(self) -> int:
        """What the goods cost before tax."""
        return sum(line.cents for line in self.lines)


class OrderLine(db.Model):
    """So many of one product, at the price of the day."""

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(sa.ForeignKey("shop_order.id"))
    product: Mapped[str] = mapped_column(sa.String(200))
    quantity: Mapped[int]
    unit_cents: Mapped[int]

    @property
    def cents(self) -> int:
        """The price of the whole line."""
        return self.quantity * self.unit_cents


@jobs.model("invoice")
class Invoice(db.Model):
    """The one invoice of an order: the unique key makes a second one impossible, whoever tries."""

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(sa.ForeignKey("shop_order.id"), unique=True)
    issued_on: Mapped[dt.date]
    net_cents: Mapped[int]
    tax_cents: Mapped[int]
    printed: Mapped[bool] = mapped_column(default=False)
    mailed_at: Mapped[dt.datetime | None]
    order: Mapped[Order] = relationship(back_populates="invoice")

    @property
    def number(self) -> str:
        """What is printed on it, and the name of its file."""
        return f"INV-{self.order_id:05d}"

    @property
    def total_cents(self) -> int:
        """What the customer's card is charged."""
        return self.net_cents + self.tax_cents


def create_tables() -> None:
    """Make the tables that are missing; the web server and the workers may do so at the same time."""
    for table in db.metadata.sorted_tables:
        try:
            db.session.execute(CreateTable(table, if_not_exists=True))
            db.session.commit()
        except sa.exc.DBAPIError:
            db.session.rollback()
            if not sa.inspect(db.engine).has_table(table.name):  # else another process has made it at this moment
                raise
