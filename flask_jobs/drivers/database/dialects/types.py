"""Column types and table options that differ between the servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

# SQLite gives out row numbers only to a column of exactly this type.
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# MySQL's TEXT ends at 64 kB, and its usual collations take A for a.
_MYSQL_LONG = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
LONG_TEXT = sa.Text().with_variant(_MYSQL_LONG, "mysql", "mariadb")

TABLE_OPTIONS: Mapping[str, Any] = {
    f"{server}_{option}": value
    for server in ("mysql", "mariadb")
    for option, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}
