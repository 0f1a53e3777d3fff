"""The shop's pages and jobs."""

from .jobs import RemindOfPayment, SendInvoice, daily_sales
from .views import shop

__all__ = ["RemindOfPayment", "SendInvoice", "daily_sales", "shop"]
