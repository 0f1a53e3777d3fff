"""The shop's pages, commands and jobs."""

from . import commands  # the blueprint gets its commands with this import
from .jobs import AskForReview, ChargeOrder, HoldOrder, SendInvoice, ShipOrder, daily_sales
from .statements import ReportStatements, SendStatement
from .views import shop

__all__ = [
    "AskForReview",
    "ChargeOrder",
    "HoldOrder",
    "ReportStatements",
    "SendInvoice",
    "SendStatement",
    "ShipOrder",
    "commands",
    "daily_sales",
    "shop",
]
