"""Telling those who wait on PostgreSQL which queues have been written to, with the commit of what was written."""

from __future__ import annotations

import json
from collections.abc import Collection

from .dialects import Postgresql
from .dialects.postgresql import CHANNEL, raw
from .statements import Compiler, Transaction


class Bell:
    """Rings for queues that are not paused. On other servers, and if `notify` is off, it is silent."""

    def __init__(self, compile_: Compiler, *, notify: bool) -> None:
        self.rings = notify and isinstance(compile_.dialect, Postgresql)
        self._ring = raw(_RING, local_clock=compile_.local_clock)

    def ring(self, transaction: Transaction, queues: Collection[str]) -> None:
        """Wake who waits for these queues, as soon as the transaction is committed."""
        if self.rings and queues:
            transaction.rows(self._ring, {"queues": json.dumps(sorted(queues))})


_RING = f"""
SELECT pg_notify('{CHANNEL}', q.queue) FROM json_array_elements_text(%(queues)s::json) AS q(queue)
WHERE NOT EXISTS (
    SELECT FROM flask_jobs_paused p WHERE p.queue = q.queue AND (p.until IS NULL OR p.until > {{now}})
)
"""
