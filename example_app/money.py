"""Money in cents, and the tax on it."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

TAX_RATES = {
    "AT": Decimal("0.20"),
    "BE": Decimal("0.21"),
    "DE": Decimal("0.19"),
    "ES": Decimal("0.21"),
    "FR": Decimal("0.20"),
    "IT": Decimal("0.22"),
    "NL": Decimal("0.21"),
    "SE": Decimal("0.25"),
}


class UnknownCountry(LookupError):
    """The shop has no tax rate for the customer's country."""


def tax_cents(net_cents: int, country: str) -> int:
    """The tax on a net amount, rounded to whole cents as a merchant does."""
    try:
        rate = TAX_RATES[country]
    except KeyError:
        raise UnknownCountry(f"There is no tax rate for the country {country!r}.") from None
    return int((net_cents * rate).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def euros(cents: int) -> str:
    """An amount as it is printed: ``€ 1,234.50``."""
    return f"€ {Decimal(cents) / 100:,.2f}"
