"""What PostgreSQL does in one round trip: storing jobs; settling what is done and popping what is next.

Each is one statement that changes rows in its common table expressions and takes its rows as JSON, so that its text is
the same for any number of them.

No plan may hang on statistics. Rows are named by an array, which the planner takes for short whatever it knows; what
would tempt it to another index is no plain comparison (`IS TRUE`); and a subquery that it must not turn into a join,
for which it would read a whole table, has an `OFFSET 0`.
"""

from __future__ import annotations

from .dialects.postgresql import CHANNEL
from .rows import JobRow

_GIVEN = """
given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g(
        place int, id text, name text, queue text, state smallint, push text, due_amount float8, due_relative int,
        retry_amount float8, retry_relative int, retried_from text, body text{ties}
    )
)"""

_GIVEN_TIES = ", ties text, unique_key text, key_amount float8, key_relative int"

# A used id is looked up before and met again at the unique key: what is stored under it meanwhile is left alone.
_STORED = """
stored AS (
    INSERT INTO flask_jobs (id, name, queue, state, at, token, pushed_at, retry_until, retried_from, body{columns})
    SELECT g.id, g.name, g.queue, g.state, g.due_amount + g.due_relative * {{now}}, g.push, {{now}},
        g.retry_amount + g.retry_relative * {{now}}, g.retried_from, g.body{values}
    FROM given g
    WHERE NOT EXISTS (SELECT FROM flask_jobs_ended e WHERE e.id = g.id AND e.until > {{now}} OFFSET 0)
        AND NOT EXISTS (SELECT FROM flask_jobs_failed f WHERE f.id = g.id OFFSET 0)
        {not_there}
    ORDER BY g.place
    ON CONFLICT {meeting} DO NOTHING
    RETURNING id, queue
)"""

# The job itself is looked up, too: it may end while the unique key is waited for, and this statement does not see its
# end. A serializable transaction would be given up for such a look as soon as another one pushes beside it.
_NOT_THERE = "AND NOT EXISTS (SELECT FROM flask_jobs k WHERE k.id = g.id OFFSET 0)"

_TIE_COLUMNS = ", ties, unique_key, key_until"
_TIE_VALUES = ", g.ties, g.unique_key, g.key_amount + g.key_relative * {{now}}"

_LEFT_OUT = "SELECT g.id FROM given g WHERE NOT EXISTS (SELECT FROM stored s WHERE s.id = g.id)"

_NOT_PAUSED = """NOT EXISTS (
        SELECT FROM flask_jobs_paused p WHERE p.queue = {queue} AND (p.until IS NULL OR p.until > {{now}})
    )"""

_TOLD = f"""
SELECT pg_notify('{CHANNEL}', q.queue)::text FROM (SELECT DISTINCT queue FROM stored) AS q
WHERE {_NOT_PAUSED.format(queue="q.queue")}"""


FREE_KEYS = """
UPDATE flask_jobs SET unique_key = NULL, key_until = NULL
WHERE unique_key = ANY (ARRAY (SELECT json_array_elements_text(%(keys)s::json))) AND unique_key IS NOT NULL
    AND key_until <= {now}"""
"""Takes these keys from jobs whose time with them is over, before others are stored that want them."""


QUEUE_FOR_KEYS = """
SELECT pg_advisory_xact_lock(710251473, s.stripe::int)
FROM (SELECT value AS stripe FROM json_array_elements_text(%(stripes)s::json) OFFSET 0) AS s"""
"""Waits for other transactions that are about to take several unique keys, some of them in these stripes.

The stripes come in order, and are few, for the server has room for so many locks. The first number is ours alone.
"""


def store(*, rings: bool, tied: bool, within: bool = False) -> str:
    """Stores the rows that are new, and gives the ids of the others; NULL or '' tells nothing.

    Only if they are `tied`, their ties and unique keys are written, and what is held by others is left out. `within`
    a transaction of the app's, the isolation level is whatever the app wants.
    """
    given = _GIVEN.format(ties=_GIVEN_TIES if tied else "")
    columns, values = (_TIE_COLUMNS, _TIE_VALUES.format()) if tied else ("", "")
    not_there, meeting = "" if within else _NOT_THERE, "" if tied else "(id)"
    stored = _STORED.format(columns=columns, values=values, not_there=not_there, meeting=meeting)
    answer = f"{_LEFT_OUT} UNION ALL {_TOLD}" if rings else _LEFT_OUT
    return f"WITH {given}, {stored} {answer}"


_ONE = """
INSERT INTO flask_jobs AS j (id, name, queue, state, at, token, pushed_at, retry_until, retried_from, body{columns})
SELECT g.id, g.name, g.queue, g.state, g.due_amount + g.due_relative * {{now}}, g.push, {{now}},
    g.retry_amount + g.retry_relative * {{now}}, g.retried_from, g.body{values}
FROM (
    SELECT %(id)s::text AS id, %(name)s::text AS name, %(queue)s::text AS queue, %(state)s::smallint AS state,
        %(due_amount)s::float8 AS due_amount, %(due_relative)s::int AS due_relative, %(push)s::text AS push,
        %(retry_amount)s::float8 AS retry_amount, %(retry_relative)s::int AS retry_relative,
        %(retried_from)s::text AS retried_from, %(body)s::text AS body{ties}
) AS g
WHERE NOT EXISTS (SELECT FROM flask_jobs_ended e WHERE e.id = g.id AND e.until > {{now}} OFFSET 0)
    AND NOT EXISTS (SELECT FROM flask_jobs_failed f WHERE f.id = g.id OFFSET 0)
    {not_there}
ON CONFLICT {meeting} DO NOTHING
RETURNING j.id"""

_TIE_PARAMETERS = """,
        %(ties)s::text AS ties, %(unique_key)s::text AS unique_key, %(key_amount)s::float8 AS key_amount,
        %(key_relative)s::int AS key_relative"""


def store_one(*, rings: bool, tied: bool) -> str:
    """Stores one row as `store` does, and gives its id if it was stored. It takes less planning."""
    columns, values, ties = (_TIE_COLUMNS, _TIE_VALUES.format(), _TIE_PARAMETERS) if tied else ("", "", "")
    meeting = "" if tied else "(id)"
    one = _ONE.format(columns=columns, values=values, ties=ties, not_there=_NOT_THERE, meeting=meeting)
    told = f"CASE WHEN {_NOT_PAUSED.format(queue='j.queue')} THEN pg_notify('{CHANNEL}', j.queue)::text END"
    return f"{one}, {told}" if rings else one


_DONE = """
done AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(acks)s::json) AS d(row_seq bigint, holder text, settlement text)
),
gone AS (
    DELETE FROM flask_jobs j USING done d
    WHERE j.seq = ANY (ARRAY (SELECT row_seq FROM done)) AND j.seq = d.row_seq AND j.token = d.holder
        AND (j.state = 2) IS TRUE
    RETURNING j.id, j.pushed_at, d.settlement
),
noted AS (
    INSERT INTO flask_jobs_ended (id, settlement, at, until)
    SELECT id, settlement, {now}, pushed_at + %(remember_ids)s FROM gone
    RETURNING seq
)"""

ACK = f"WITH {_DONE} SELECT count(*) FROM noted"
"""Removes what is done and notes it, and says how many deliveries that were live."""

ACK_EACH = f"WITH {_DONE} SELECT settlement FROM gone"
"""Does what `ACK` does, and gives the settlement of each delivery that was live."""

_ASKED = f"""
asked AS MATERIALIZED (
    SELECT a.queue, a.due_first, a.place
    FROM ROWS FROM (json_to_recordset(%(queues)s::json) AS (queue text, due_first boolean))
        WITH ORDINALITY AS a(queue, due_first, place)
    WHERE {_NOT_PAUSED.format(queue="a.queue")}
)"""

# What expired is taken in before anything is popped, which is a transaction of several statements, and rare.
_EXPIRED = """
expired AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM asked a CROSS JOIN LATERAL (
            SELECT 1 FROM flask_jobs j WHERE j.state = 2 AND j.queue = a.queue AND j.at <= {now} ORDER BY j.at LIMIT 1
        ) AS x
    ) AS is_so
)"""

_LANE = """SELECT * FROM (
    SELECT {lane} AS lane, j.seq, j.at, j.name, j.attempts, j.interruptions FROM flask_jobs j
    WHERE j.state = {state} AND j.queue = a.queue AND {of_lane} ORDER BY j.at, j.seq
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) AS {name}"""

_HEAD = _LANE.format(lane=0, state=0, of_lane="j.at < 0", name="head")
_READY = _LANE.format(lane=1, state=0, of_lane="j.at >= 0", name="ready")
_DUE = _LANE.format(lane=2, state=1, of_lane="j.at <= {{now}} AND {when}", name="{name}")
_LANES = " UNION ALL ".join(
    [
        _HEAD,
        _DUE.format(when="a.due_first", name="due_first"),
        _READY,
        _DUE.format(when="NOT a.due_first", name="due"),
    ]
)

# Lanes are read one after the other and no further than asked for, so that no row is held that is not wanted.
_FOUND = f"""
found AS MATERIALIZED (
    SELECT a.place, a.due_first, l.* FROM asked a CROSS JOIN LATERAL ({_LANES}) AS l
    WHERE NOT (SELECT e.is_so FROM expired e)
    LIMIT %(cut)s
)"""

# The order of `transitions.in_turn` and the box of `Room.fits`.
_CHOSEN = """
placed AS (
    SELECT f.*, row_number() OVER (PARTITION BY f.place, f.lane ORDER BY f.at, f.seq) AS turn FROM found f
),
filling AS (
    SELECT p.seq, row_number() OVER w AS nth,
        sum(CASE WHEN p.attempts = 0 AND p.interruptions = 0 THEN coalesce(m.mean, 'Infinity') ELSE 'Infinity' END)
            OVER w AS used
    FROM placed p LEFT JOIN (
        SELECT key, value::float8 AS mean FROM json_each_text(%(means)s::json)
    ) AS m ON m.key = p.name
    WINDOW w AS (
        ORDER BY p.place, p.lane <> 0, p.turn, (p.lane = 2) <> p.due_first ROWS UNBOUNDED PRECEDING
    )
),
chosen AS (
    SELECT seq, nth, count(*) OVER () AS together FROM filling
    WHERE nth = 1 OR (nth <= %(limit)s AND used <= %(box)s)
)"""

_CHANGED = {"attempts": "j.attempts - 1", "alone": "false", "progress": "NULL"}
_COLUMNS = ", ".join(f"{_CHANGED.get(name, f'j.{name}')} AS {name}" for name in JobRow._fields)

_TAKEN = f"""
taken AS (
    UPDATE flask_jobs j SET state = 2, at = {{now}} + %(retry_after)s + (c.nth - 1) * 1e-6, token = %(token)s,
        alone = c.together = 1, attempts = j.attempts + 1
    FROM chosen c WHERE j.seq = ANY (ARRAY (SELECT seq FROM chosen)) AND j.seq = c.seq
    RETURNING c.nth, {_COLUMNS}
)"""

EXCHANGE = f"""
WITH {_DONE}, {_ASKED}, {_EXPIRED}, {_FOUND}, {_CHOSEN}, {_TAKEN}
SELECT {{now}}, (SELECT is_so FROM expired), (SELECT count(*) FROM noted), t.*
FROM (VALUES (1)) AS one(line) LEFT JOIN taken t ON true ORDER BY t.nth
"""
"""Does what `ACK` does, and then pops.

Each row: the present, whether something has expired and nothing was popped therefore, how many deliveries were live,
and a popped job, if there is one.
"""
