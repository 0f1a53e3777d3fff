"""What a push within the app's own transaction promises: it is there with the app's data, or never was."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
import sqlalchemy as sa

from ...driver import Driver, HoldsKeys, RunsBatches, RunsChains, Transactional
from ...envelope import Ack, After
from ...errors import InvalidArgument
from ...pushes import BatchPush, ChainPush, Package, Push, Pushed
from ...stored import Sizes
from . import chains, keys, on_batches
from .support import Contract, envelope, pop_ids, pop_one

NOTES = sa.Table(
    "notes", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.String(50))
)


class TransactionalContract(Contract):
    """Jobs in the app's own transaction. Needs one more fixture, `app_engine`."""

    capability = Transactional

    shares_app_transaction: ClassVar[bool] = True

    @pytest.fixture
    def app_engine(self) -> sa.Engine:
        """The app's engine, for the database that the driver keeps its jobs in."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `app_engine`.")

    @pytest.fixture(autouse=True)
    def _notes(self, app_engine: sa.Engine, driver: Transactional) -> None:
        driver.prepare()
        NOTES.create(app_engine, checkfirst=True)

    def test_the_driver_knows_the_apps_engine(self, driver: Transactional, app_engine: sa.Engine) -> None:
        assert driver.shares(app_engine)
        assert not driver.shares(sa.create_engine(app_engine.url))

    def test_jobs_become_visible_with_the_apps_commit(self, driver: Transactional, app_engine: sa.Engine) -> None:
        ids = [envelope().id for _ in range(3)]
        with app_engine.connect() as connection:
            connection.execute(sa.insert(NOTES).values(text="with the jobs"))
            answers = driver.push_within(connection, [Push(envelope(id_=id_)) for id_ in ids])
            before = driver.size("default")
            connection.commit()

        assert [answer.stored for answer in answers] == [True, True, True]
        assert before == Sizes()
        assert pop_ids(driver, amount=4) == ids

    def test_jobs_vanish_with_the_apps_rollback(self, driver: Transactional, app_engine: sa.Engine) -> None:
        sent = Push(envelope())
        with app_engine.connect() as connection:
            connection.execute(sa.insert(NOTES).values(text="never"))
            driver.push_within(connection, [sent])
            connection.rollback()
            notes = connection.execute(sa.select(sa.func.count()).select_from(NOTES)).scalar()

        assert notes == 0
        assert driver.size("default") == Sizes()
        assert driver.push([sent])[0].stored

    def test_the_apps_data_is_not_touched_by_a_push(self, driver: Transactional, app_engine: sa.Engine) -> None:
        with app_engine.begin() as connection:
            connection.execute(sa.insert(NOTES).values(text="mine"))
            driver.push_within(connection, [Push(envelope())])
            connection.execute(sa.insert(NOTES).values(text="mine, too"))

        with app_engine.connect() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(NOTES)).scalar() == 2

    def test_a_push_that_is_all_of_the_transaction_can_be_rolled_back(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        with app_engine.connect() as connection:
            driver.push_within(connection, [Push(envelope())])
            connection.rollback()

        assert driver.size("default") == Sizes()

    def test_known_ids_are_answered_within_a_transaction_too(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        known, new = Push(envelope()), Push(envelope())
        driver.push([known])

        with app_engine.begin() as connection:
            answers = driver.push_within(connection, [known, new, new])

        assert [answer.stored for answer in answers] == [False, True, False]
        assert driver.size("default") == Sizes(ready=2)

    def test_delays_deadlines_and_the_front_hold_within_a_transaction_too(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        first, front, delayed = envelope(), envelope(), envelope()
        with app_engine.begin() as connection:
            driver.push_within(connection, [Push(first)])
            driver.push_within(connection, [Push(front, front=True, retry_until=After(50.0))])
            driver.push_within(connection, [Push(delayed, due=After(self.delay))])

        reservation = pop_one(driver)
        assert reservation.envelope.id == front.id
        assert reservation.retry_until == pytest.approx(reservation.pushed_at + 50.0, abs=0.1)
        assert driver.size("default") == Sizes(ready=1, delayed=1, reserved=1)

    def test_a_name_that_could_not_be_served_leaves_the_apps_transaction_as_it_was(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        with app_engine.begin() as connection:
            connection.execute(sa.insert(NOTES).values(text="mine"))
            with pytest.raises(InvalidArgument):
                driver.push_within(connection, [Push(envelope()), Push(envelope(queue="a b"))])

        assert driver.size("default") == Sizes()

    def test_chains_and_batches_become_visible_with_the_apps_commit_in_their_order(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        chain, batch, alone = _chain_for(driver), _batch_for(driver), Push(envelope())
        with app_engine.connect() as connection:
            connection.execute(sa.insert(NOTES).values(text="with the jobs"))
            answers = driver.push_within(connection, [alone, chain, batch])
            before = (driver.size("default"), _stored(driver, chain), _stored(driver, batch))
            connection.commit()

        assert before == (Sizes(), False, False)
        pushed = [alone, chain.links[0], *batch.members]
        assert answers == [Pushed(push.envelope.id) for push in pushed]
        assert (_stored(driver, chain), _stored(driver, batch)) == (True, True)
        assert pop_ids(driver, amount=5) == [push.envelope.id for push in pushed]

    def test_chains_and_batches_vanish_with_the_apps_rollback_and_can_be_pushed_again(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        chain, batch = _chain_for(driver), _batch_for(driver)
        with app_engine.connect() as connection:
            driver.push_within(connection, [chain, batch])
            connection.rollback()
        after = (driver.size("default"), _stored(driver, chain), _stored(driver, batch))

        with app_engine.begin() as connection:
            answers = driver.push_within(connection, [chain, batch])

        assert after == (Sizes(), False, False)
        assert [answer.stored for answer in answers] == [True] * 4
        assert driver.settle([Ack(pop_one(driver))]).followed[0].envelope == chain.links[1].envelope

    def test_repeated_chains_and_batches_are_answered_within_a_transaction_too(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        chain, batch = _chain_for(driver), _batch_for(driver)
        with app_engine.begin() as connection:
            driver.push_within(connection, [chain, batch])

        with app_engine.begin() as connection:
            answers = driver.push_within(connection, [batch, chain])

        pushed = [*batch.members, chain.links[0]]
        assert answers == [Pushed(push.envelope.id, stored=False) for push in pushed]
        assert driver.size("default") == Sizes(ready=4)

    def test_an_empty_batch_within_a_transaction_finishes_with_its_commit(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        batch = _batch_for(driver, size=0)
        with app_engine.begin() as connection:
            driver.push_within(connection, [batch])

        assert driver.size("callbacks") == Sizes(ready=2)

    def test_f13_a_unique_key_is_taken_with_the_apps_commit_or_never(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        if not isinstance(driver, HoldsKeys):
            pytest.skip("The driver holds no unique keys.")
        never, first, again = keys.keyed(), keys.keyed(), keys.keyed()
        with app_engine.connect() as connection:
            driver.push_within(connection, [never])
            connection.rollback()
        free = driver.holder(keys.digest(never))
        with app_engine.begin() as connection:
            answers = driver.push_within(connection, [first, Push(envelope()), again])

        assert free is None
        assert [(answer.stored, answer.holder) for answer in answers] == [
            (True, None),
            (True, None),
            (False, first.envelope.id),
        ]
        assert driver.holder(keys.digest(first)) == first.envelope.id

    def test_f13_a_key_that_is_held_costs_the_apps_transaction_nothing(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        if not isinstance(driver, HoldsKeys):
            pytest.skip("The driver holds no unique keys.")
        holder = keys.keyed()
        driver.push([holder])

        with app_engine.begin() as connection:
            connection.execute(sa.insert(NOTES).values(text="mine"))
            answers = driver.push_within(connection, [keys.keyed(), Push(envelope())])
            connection.execute(sa.insert(NOTES).values(text="mine, too"))

        assert [(answer.stored, answer.holder) for answer in answers] == [(False, holder.envelope.id), (True, None)]
        with app_engine.connect() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(NOTES)).scalar() == 2

    def test_transactions_that_want_the_same_keys_in_another_order_both_commit(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        if not isinstance(driver, HoldsKeys):
            pytest.skip("The driver holds no unique keys.")
        rounds, both_ready, answers = 5, threading.Barrier(2), []

        def commit(pushes: Sequence[Push]) -> list[Pushed]:
            with _lenient(app_engine).begin() as connection:
                both_ready.wait(10)
                return list(driver.push_within(connection, pushes))

        with ThreadPoolExecutor(2) as threads:
            for number in range(rounds):
                ours, theirs = ([keys.keyed(f"{number}:{key * 7919}") for key in range(60)] for _ in range(2))
                ending = threads.submit(commit, theirs[::-1])
                answers += [*commit(ours), *ending.result(30)]

        assert sum(answer.stored for answer in answers) == rounds * 60
        assert sum(answer.holder is not None for answer in answers) == rounds * 60

    def test_jobs_with_unique_keys_keep_their_order_within_a_transaction(
        self, driver: Transactional, app_engine: sa.Engine
    ) -> None:
        if not isinstance(driver, HoldsKeys):
            pytest.skip("The driver holds no unique keys.")
        pushes = [keys.keyed(word) for word in ("m", "z", "a", "k")]
        pushes.insert(2, Push(envelope()))
        with app_engine.begin() as connection:
            driver.push_within(connection, pushes)

        assert pop_ids(driver, amount=5) == [push.envelope.id for push in pushes]


def _lenient(engine: sa.Engine) -> sa.Engine:
    """The engine, with transactions that are not given up for meeting what others have committed meanwhile."""
    return engine.execution_options(isolation_level="READ COMMITTED") if engine.name == "postgresql" else engine


def _chain_for(driver: Driver) -> ChainPush:
    if not isinstance(driver, RunsChains):
        pytest.skip("The driver runs no chains.")
    return chains.chain(2)


def _batch_for(driver: Driver, *, size: int = 3) -> BatchPush:
    if not isinstance(driver, RunsBatches):
        pytest.skip("The driver runs no batches.")
    return on_batches.batch(size)


def _stored(driver: Driver, package: Package) -> bool:
    """Whether others see the chain or the batch."""
    match package:
        case ChainPush(id=id_):
            return isinstance(driver, RunsChains) and driver.chain(id_) is not None
        case BatchPush(id=id_):
            return isinstance(driver, RunsBatches) and driver.batch(id_) is not None
        case _:
            raise AssertionError("a single job is found by popping")
