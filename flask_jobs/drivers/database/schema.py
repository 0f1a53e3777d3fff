"""The tables, their indexes and their version. `metadata` serves Alembic and Flask-Migrate.

One index of `flask_jobs` beside its keys serves popping, what falls due and what expires, with no sort and no
statistics: `(state, queue, at, seq)`. What `at` means depends on the state:

- ready: 0, so that `seq` alone gives the order; below 0 at the head of the queue, the newest lowest;
- delayed: the instant the job falls due;
- reserved: the instant the lease ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from ...store import READABLE
from .dialects import LONG_TEXT, SEQUENCE, TABLE_OPTIONS

READY, DELAYED, RESERVED = 0, 1, 2

VERSION = 1

metadata = sa.MetaData()

_KEY = sa.String(READABLE)


def _whole_job() -> Sequence[sa.Column[Any]]:
    """The columns that a job keeps when it moves between the waiting and the failed."""
    return [
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("queue", sa.String(80), nullable=False),
        *(sa.Column(counter, sa.Integer, nullable=False, server_default="0") for counter in COUNTERS),
        sa.Column("pushed_at", sa.Double, nullable=False),
        sa.Column("retry_until", sa.Double),
        sa.Column("retried_from", sa.String(36)),
        sa.Column("history", LONG_TEXT),
        # What its end is to be told, and the digest of its unique key; both NULL for a job that stands alone.
        sa.Column("ties", LONG_TEXT),
        sa.Column("unique_key", sa.String(64)),
        sa.Column("body", LONG_TEXT, nullable=False),
    ]


_HAS_KEY = sa.literal_column("unique_key IS NOT NULL", sa.Boolean)

COUNTERS = ("attempts", "errors", "releases", "interruptions")

jobs = sa.Table(
    "flask_jobs",
    metadata,
    sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    # Of a reserved job, who holds it; of a waiting one, which push stored it.
    sa.Column("token", sa.String(64)),
    sa.Column("alone", sa.Boolean(create_constraint=False), nullable=False, server_default=sa.false()),
    sa.Column("progress", LONG_TEXT),
    # When the unique key is free for others although the job is still there.
    sa.Column("key_until", sa.Double),
    *_whole_job(),
    sa.UniqueConstraint("id", name="uq_flask_jobs_id"),
    sa.Index("ix_flask_jobs_next", "state", "queue", "at", "seq"),
    # A key lives as long as the row that has it. Rows without one are left out where the server can do that.
    sa.Index("uq_flask_jobs_key", "unique_key", unique=True, postgresql_where=_HAS_KEY, sqlite_where=_HAS_KEY),
    **TABLE_OPTIONS,
)

# A position is never given out twice, so that a retry of all knows where to stop. The id is not unique here: a
# failure must be recorded whatever has been recorded before.
failed = sa.Table(
    "flask_jobs_failed",
    metadata,
    sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
    sa.Column("failed_at", sa.Double, nullable=False),
    sa.Column("hook", sa.String(10), nullable=False),
    sa.Column("error_type", LONG_TEXT, nullable=False),
    sa.Column("error_message", LONG_TEXT, nullable=False),
    sa.Column("error_traceback", LONG_TEXT, nullable=False),
    sa.Column("error_causes", LONG_TEXT, nullable=False),
    *_whole_job(),
    sa.Index("ix_flask_jobs_failed_id", "id"),
    sa.Index("ix_flask_jobs_failed_at", "failed_at"),
    sa.Index("ix_flask_jobs_failed_queue", "queue", "seq", "name"),
    sqlite_autoincrement=True,
    **TABLE_OPTIONS,
)

# How deliveries ended, so that a repeated settlement is known again, and which ids are used up until when.
ended = sa.Table(
    "flask_jobs_ended",
    metadata,
    sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(36), nullable=False),
    sa.Column("settlement", sa.String(100)),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    sa.Index("ix_flask_jobs_ended_id", "id"),
    **TABLE_OPTIONS,
)

# A chain that has not ended: which link (from 1) waits, runs or has failed, and as which job.
chains = sa.Table(
    "flask_jobs_chains",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("link", sa.Integer, nullable=False),
    sa.Column("job_id", sa.String(36), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    **TABLE_OPTIONS,
)

# A batch and how its members have ended; `total` is the sum of the four numbers after it.
batches = sa.Table(
    "flask_jobs_batches",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", LONG_TEXT, nullable=False),
    *(sa.Column(count, sa.Integer, nullable=False) for count in ("total", "pending", "done", "failed", "skipped")),
    sa.Column("allow_failures", sa.Boolean(create_constraint=False), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("cancelled_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("callbacks", sa.Integer, nullable=False),
    sa.Index("ix_flask_jobs_batches_finished", "finished_at"),
    **TABLE_OPTIONS,
)

# The later links of a chain and the callbacks of chains and batches, each whole, until the step that pushes it.
planned = sa.Table(
    "flask_jobs_planned",
    metadata,
    sa.Column("owner", sa.String(36), primary_key=True),
    sa.Column("role", sa.String(10), primary_key=True),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("push", LONG_TEXT, nullable=False),
    **TABLE_OPTIONS,
)

paused = sa.Table(
    "flask_jobs_paused",
    metadata,
    sa.Column("queue", sa.String(80), primary_key=True),
    sa.Column("until", sa.Double),
    **TABLE_OPTIONS,
)

# A place of a lock and who holds it: a delivery, named as in `flask_jobs` and live as long as it is, or whoever has it
# until an instant. For a delivery `until` says when to look whether it is gone for good.
locks = sa.Table(
    "flask_jobs_locks",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("holder", _KEY, nullable=False),
    sa.Column("job_id", sa.String(36), nullable=False),
    sa.Column("seq", sa.BigInteger),
    sa.Column("token", sa.String(64)),
    sa.Column("until", sa.Double, nullable=False),
    sa.Index("ix_flask_jobs_locks_until", "until"),
    **TABLE_OPTIONS,
)

# The quotas of limits: where to look for room (see `turns`), and until when anything of them matters.
limits = sa.Table(
    "flask_jobs_limits",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("amount", sa.Integer, nullable=False),
    sa.Column("frontier", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    sa.Index("ix_flask_jobs_limits_until", "until"),
    **TABLE_OPTIONS,
)

# How often each slice of a quota is taken.
slices = sa.Table(
    "flask_jobs_slices",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("taken", sa.Integer, nullable=False),
    **TABLE_OPTIONS,
)

# Who has booked a slice, under the name of which limiter. `reopens` is the first slice that giving it back may free.
bookings = sa.Table(
    "flask_jobs_bookings",
    metadata,
    sa.Column("owner", sa.String(36), primary_key=True),
    sa.Column("name", _KEY, primary_key=True),
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("reopens", sa.BigInteger, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    sa.Index("ix_flask_jobs_bookings_until", "until"),
    **TABLE_OPTIONS,
)

tallies = sa.Table(
    "flask_jobs_tallies",
    metadata,
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    sa.Index("ix_flask_jobs_tallies_until", "until"),
    **TABLE_OPTIONS,
)

schema = sa.Table(
    "flask_jobs_schema",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    **TABLE_OPTIONS,
)

_note_version = sa.insert(schema).values(version=sa.literal_column(str(VERSION)))


def create_tables(connection: sa.Connection) -> None:
    """Make the tables that are missing and note their version, within the connection's transaction."""
    metadata.create_all(connection)
    if connection.execute(sa.select(schema.c.version)).first() is None:
        connection.execute(_note_version)


def found_version(connection: sa.Connection) -> int | None:
    """The version of the tables that are there, or None if there are none."""
    if not sa.inspect(connection).has_table(schema.name):
        return None
    return connection.execute(sa.select(sa.func.max(schema.c.version))).scalar()


def create_sql(dialect: sa.Dialect) -> str:
    """The statements that make the tables, for a look or for the hands of a database administrator."""
    statements: list[sa.sql.ClauseElement] = []
    for table in metadata.sorted_tables:
        statements.append(CreateTable(table))
        statements += [CreateIndex(index) for index in sorted(table.indexes, key=lambda index: str(index.name))]
    statements.append(_note_version)
    return "".join(f"{str(statement.compile(dialect=dialect)).strip()};\n\n" for statement in statements)
