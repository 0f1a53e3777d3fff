"""The transaction gate: jobs wait for the outermost commit of the session they were dispatched with.

A session that is watched keeps a *ledger* in its ``info``: one frame for its transaction and one for each open
savepoint, each with the jobs that wait and the engines that were written through. The listeners are functions of
this module and hold nothing, so that neither a session nor an app lives longer for being watched.

When the transaction ends, the jobs go

- into the transaction itself, just before its COMMIT, where the sink can store them through its connection;
- else to the sink, when the commit has succeeded and the session is free;
- nowhere, if it was rolled back or ended without a commit; the sink is told in one call.

"Outermost" is the session's own view. A session that joins a transaction begun on its connection (the usual
fixture of a test suite) releases its jobs when it commits itself, whatever becomes of the outer transaction; where
the sink can store them through that connection, they share the outer transaction's fate. A two-phase transaction
takes them in before it is prepared.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.orm import Session, SessionTransaction, scoped_session, sessionmaker

from .ledger import Entry, Ledger, Sink
from .statements import only_reads

Item = TypeVar("Item")
SessionSource = Session | type[Session] | sessionmaker[Session] | scoped_session[Session]

# Both names are written on objects of others: a session's `info`, a connection's execution options, and as an
# attribute on session classes and dialects. They die with those objects, so nothing has to be taken back.
_LEDGER = "flask_jobs.ledger"
_WATCHED = "_flask_jobs_watched"
_BEGINS = "_flask_jobs_begins"

_installing = threading.Lock()
_deferring: ContextVar[tuple[object, ...]] = ContextVar("flask_jobs.deferring", default=())


def watch(target: SessionSource) -> None:
    """Follow the transactions of all sessions that the target makes, or of this one session. Safe to repeat.

    A transaction that is open already counts as having written, for nobody knows what it did. Sessions of a plain
    function or of SQLAlchemy's own `Session` class can only be followed one by one, from their first job on.
    """
    _listen_to_sessions()
    if isinstance(target, scoped_session):
        target = target.session_factory
    if isinstance(target, Session):
        target.info.setdefault(_LEDGER, Ledger())
        target = type(target)
    if isinstance(target, sessionmaker):
        target = target.class_
    if isinstance(target, type) and issubclass(target, Session) and target is not Session:
        setattr(target, _WATCHED, True)


def has_written(session: Session) -> bool:
    """Whether the session's open transaction has written, or is about to with its next flush."""
    if not session.in_transaction():
        return False
    ledger = _ledger_of(session)
    return ledger.has_written or (ledger.is_open and _has_changes(session))


def written(session: Session) -> set[sa.Engine]:
    """The engines that the session's open transaction is known to have written through."""
    ledger: Ledger | None = session.info.get(_LEDGER)
    return set() if ledger is None else ledger.written


def waits(session: Session | None, sink: Sink[Item], *, call: bool | None, default: bool) -> bool:
    """Whether a dispatch waits for the session's commit: what the call says, else the class or the connection.

    `call=True` waits for any open transaction, `default=True` only for one that has written. A transaction that
    was rolled back already, and only has to be left, is waited for by nobody.
    """
    if call is False:
        return False
    if any(owner is sink for owner in _deferring.get()):
        return True
    if session is None or not session.in_transaction():
        return False
    return _ledger_of(session).is_open if call else default and has_written(session)


def waiting(session: Session | None, sink: Sink[Item]) -> list[Item]:
    """What waits for the session's commit and will be handed to this sink."""
    ledger: Ledger | None = None if session is None else session.info.get(_LEDGER)
    if ledger is None:
        return []
    return [cast("Item", entry.item) for entry in ledger.entries() if entry.sink is sink]


@contextmanager
def deferring(sink: Sink[Item]) -> Iterator[None]:
    """Within this block, every dispatch to the sink waits for the next commit, unless the call forbids it."""
    token = _deferring.set((*_deferring.get(), sink))
    try:
        yield
    finally:
        _deferring.reset(token)


def defer(session: Session, sink: Sink[Item], items: Sequence[Item]) -> None:
    """Let the jobs wait for the session's outermost commit.

    Where no transaction is open one is begun, without a statement sent, so that every way in which the session
    may end is heard of.
    """
    if not session.in_transaction():
        watch(session)
        session.begin()
    taker = cast("Sink[object]", sink)  # it is only ever handed what it was deferred with
    ledger = _ledger_of(session)
    ledger.defer(Entry(taker, item) for item in items)
    for connection in ledger.connections.values():
        _listen_to_commit(connection)


def begin_before_savepoint(engine: sa.Engine) -> None:
    """Make a savepoint on this SQLite engine lie within a transaction, as on any other database. Safe to repeat.

    Python's sqlite3 sends BEGIN before the first write only. A savepoint before that is the transaction itself,
    and releasing it commits.
    """
    with _installing:
        # Asking SQLAlchemy whether it listens is asking for the address of the engine, which an earlier engine may have
        # had whose dialect still lives.
        if _BEGINS not in vars(engine.dialect):
            event.listen(engine, "do_execute", _begin_first)
            setattr(engine.dialect, _BEGINS, True)


def watch_engine(engine: sa.Engine) -> None:
    """Follow what is executed on this engine by watched sessions. Safe to repeat; otherwise done at first use."""
    # On the dialect: events of the engine or its connections would slow down each of their steps.
    with _installing:
        if _WATCHED in vars(engine.dialect):
            return
        for name in ("do_execute", "do_executemany", "do_execute_no_params"):
            event.listen(engine, name, _executing)
        setattr(engine.dialect, _WATCHED, True)


def _ledger_of(session: Session) -> Ledger:
    ledger: Ledger | None = session.info.get(_LEDGER)
    if ledger is not None and ledger.frames:
        return ledger
    watch(session)
    ledger = session.info[_LEDGER]
    ledger.adopt(session.get_nested_transaction() or session.get_transaction())
    return ledger


def _has_changes(session: Session) -> bool:
    return bool(session.new or session.deleted) or any(session.is_modified(changed) for changed in session.dirty)


def _listen_to_sessions() -> None:
    # On Session itself and not on each factory's class: SQLAlchemy finds listeners of a class by the class's id,
    # which the next app's class may have again. Sessions that are not watched cost a dictionary look-up.
    with _installing:
        if event.contains(Session, "after_transaction_end", _ended):
            return
        event.listen(Session, "after_transaction_create", _created)
        event.listen(Session, "after_begin", _joined)
        # Before others: should one of them raise, the transaction has ended all the same.
        event.listen(Session, "after_commit", _committed, insert=True)
        event.listen(Session, "after_rollback", _rolled_back, insert=True)
        event.listen(Session, "after_transaction_end", _ended, insert=True)


def _created(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is not None and not transaction.nested:
        return
    ledger: Ledger | None = session.info.get(_LEDGER)
    if ledger is None:
        if not hasattr(type(session), _WATCHED):
            return
        ledger = session.info[_LEDGER] = Ledger()
    if ledger.frames or transaction.parent is None:
        ledger.begin(transaction)


def _joined(session: Session, transaction: SessionTransaction, connection: sa.Connection) -> None:
    ledger: Ledger | None = session.info.get(_LEDGER)
    engine = connection.engine
    if ledger is None or not ledger.frames or engine in ledger.connections:
        return
    if _WATCHED not in vars(engine.dialect):
        watch_engine(engine)
    ledger.connections[engine] = connection
    if ledger.has_entries:
        _listen_to_commit(connection)
    # Several sessions may have joined one connection, and what is written there is written for all of them.
    others = (other for other in _ledgers_on(connection) if other.frames and other is not ledger)
    connection.execution_options(**{_LEDGER: (*others, ledger)})


def _committed(session: Session) -> None:
    ledger: Ledger | None = session.info.get(_LEDGER)
    if ledger is not None and ledger.frames:
        ledger.frames[-1].committed = True


def _rolled_back(session: Session) -> None:
    ledger: Ledger | None = session.info.get(_LEDGER)
    if ledger is not None and ledger.frames:
        ledger.note_rollback()


def _ended(session: Session, transaction: SessionTransaction) -> None:
    ledger: Ledger | None = session.info.get(_LEDGER)
    if ledger is None or not ledger.frames or ledger.frames[-1].transaction is not transaction:
        return
    if transaction.nested:
        ledger.end_savepoint()
    else:
        ledger.end()


def _ledgers_on(connection: sa.Connection) -> tuple[Ledger, ...]:
    ledgers: tuple[Ledger, ...] = connection.get_execution_options().get(_LEDGER, ())
    return ledgers


def _executing(
    cursor: object, statement: str, parameters: object, context: ExecutionContext | None, *_: object
) -> None:
    if context is None:
        return
    connection = context.root_connection
    for ledger in _ledgers_on(connection):
        if not ledger.frames or connection.engine in ledger.frames[-1].written:
            continue
        if not only_reads(statement, context):
            ledger.frames[-1].written.add(connection.engine)


def _listen_to_commit(connection: sa.Connection) -> None:
    if not event.contains(connection, "commit", _committing):
        event.listen(connection, "commit", _committing)
        event.listen(connection, "prepare_twophase", _preparing)


def _committing(connection: sa.Connection) -> None:
    for ledger in _ledgers_on(connection):
        # While the session's own commit runs its transaction is not active any more. If it is, somebody else
        # commits a connection that the session has joined, and its jobs wait on.
        if ledger.frames and not ledger.frames[0].transaction.is_active:
            _place_or_roll_back(ledger, connection)


def _place_or_roll_back(ledger: Ledger, connection: sa.Connection) -> None:
    try:
        ledger.place(connection)
    except BaseException:
        # SQLAlchemy takes this for a COMMIT that failed and sends no ROLLBACK of its own: the pool would hand
        # out the connection with the app's half-done work on it.
        connection.connection.rollback()
        raise


def _preparing(connection: sa.Connection, xid: object) -> None:
    for ledger in _ledgers_on(connection):
        ledger.place(connection)


def _begin_first(cursor: object, statement: str, *_: object) -> None:
    if not statement.startswith("SAVEPOINT") or not isinstance(cursor, sqlite3.Cursor):
        return
    connection = cursor.connection
    legacy = getattr(connection, "autocommit", -1) == -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, from Python 3.12 on
    if legacy and connection.isolation_level is not None and not connection.in_transaction:
        connection.execute(f"BEGIN {connection.isolation_level}")
