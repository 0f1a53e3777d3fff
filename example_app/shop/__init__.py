"""The shop's pages and jobs."""

from .jobs import AskForReview, ChargeOrder, HoldOrder, SendInvoice, ShipOrder, daily_sales
from .views import shop

__all__ = ["AskForReview", "ChargeOrder", "HoldOrder", "SendInvoice", "ShipOrder", "daily_sales", "shop"]
