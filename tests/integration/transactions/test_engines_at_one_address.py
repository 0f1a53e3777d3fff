"""An engine may live where another one has lived before."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from flask_jobs import transactions


def test_a_savepoint_lies_within_a_transaction_also_on_an_engine_at_the_address_of_an_earlier_one() -> None:
    kept, addresses, strays = [], set(), []
    for _ in range(300):
        engine = sa.create_engine("sqlite://", poolclass=StaticPool)
        is_reused = id(engine) in addresses
        addresses.add(id(engine))
        kept.append(engine.dialect)  # as caches of compiled statements do
        transactions.begin_before_savepoint(engine)
        if is_reused and not has_begun_after_a_savepoint(engine):
            strays.append(id(engine))
        engine.dispose()
        del engine

    assert len(addresses) < 300
    assert strays == []


def has_begun_after_a_savepoint(engine: sa.Engine) -> bool:
    with engine.connect() as connection, connection.begin():
        with connection.begin_nested():
            pass
        return bool(connection.connection.driver_connection.in_transaction)  # type: ignore[union-attr]
