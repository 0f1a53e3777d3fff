"""What the shop sells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """One thing on the shelf."""

    name: str
    cents: int


PRODUCTS = {
    "tea": Product("Green tea, 100 g", 890),
    "pot": Product("Teapot, cast iron", 4950),
    "cup": Product("Cup, glazed", 1250),
    "tray": Product("Tray, beech", 2780),
}
