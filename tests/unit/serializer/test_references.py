from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship

from flask_jobs.envelope import Envelope
from flask_jobs.errors import ModelNotFound, NotRegistered, UnrebuildableJob, UnserializableJob
from flask_jobs.registry import Registry
from flask_jobs.serializer import ModelReferences, Serializer, Signer
from tests.values import Echo


class Model(orm.DeclarativeBase):
    pass


class Order(Model):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str] = mapped_column(default="")
    items: Mapped[list[Item]] = relationship(lazy="joined", order_by="Item.position")

    def __bool__(self) -> bool:
        return False  # a row may say what it likes of itself


class Item(Model):
    __tablename__ = "items"

    order_id: Mapped[int] = mapped_column(sa.ForeignKey("orders.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)


class Visit(Model):
    __tablename__ = "visits"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)


class Day(Model):
    __tablename__ = "days"

    day: Mapped[dt.date] = mapped_column(primary_key=True)
    room: Mapped[str] = mapped_column(primary_key=True)


class Person(Model):
    __tablename__ = "people"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]


class Worker(Person):
    __tablename__ = "workers"
    __mapper_args__ = {"polymorphic_identity": "worker"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(sa.ForeignKey("people.id"), primary_key=True)
    task: Mapped[str] = mapped_column(default="")


class Forgotten(Model):
    __tablename__ = "forgotten"

    id: Mapped[int] = mapped_column(primary_key=True)


class PartNumber(sa.types.TypeDecorator[str]):
    """Part numbers, which once were text such as ``A-7``."""

    impl = sa.Integer
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: object) -> int:
        return int(value)


class Part(Model):
    __tablename__ = "parts"

    id: Mapped[str] = mapped_column(PartNumber, primary_key=True)


class Named:
    pass


class Tagged(Named, Model):
    __tablename__ = "tagged"

    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/app.db")
    Model.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine: sa.Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session


@pytest.fixture
def worker_session(engine: sa.Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register("echo")(Echo)
    registry.model("order")(Order)
    registry.model("item", delete_when_missing=True)(Item)
    registry.model("visit", delete_when_missing=True)(Visit)
    registry.model("day")(Day)
    registry.model("part")(Part)
    registry.model("person")(Person)
    return registry


@pytest.fixture
def serializer(registry: Registry, signer: Signer, worker_session: Session) -> Serializer:
    return Serializer(registry, signer=signer, references=ModelReferences(registry, lambda: worker_session))


@pytest.fixture
def statements(engine: sa.Engine) -> list[str]:
    """All statements sent from here on."""
    sent: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *arguments: sent.append(arguments[2]))
    return sent


Saved = Callable[..., Any]


@pytest.fixture
def saved(session: Session) -> Saved:
    def save(*rows: Any) -> Any:
        session.add_all(rows)
        session.commit()
        return rows[0] if len(rows) == 1 else rows

    return save


@pytest.fixture
def store(serializer: Serializer) -> Callable[[object], Envelope]:
    def encode(value: object) -> Envelope:
        name, body = serializer.encode(Echo(value))
        return Envelope("id", name, "default", body)

    return encode


Store = Callable[[object], Envelope]


def value_of(serializer: Serializer, envelope: Envelope) -> Any:
    job: Any = serializer.decode(envelope)
    return job.value


def test_a_row_is_stored_as_its_name_and_identity_and_loaded_fresh(
    serializer: Serializer, saved: Saved, store: Store, session: Session
) -> None:
    order = saved(Order(id=7, note="old"))
    envelope = store([{"order": order}])
    order.note = "new"
    session.commit()

    rebuilt = value_of(serializer, envelope)[0]["order"]

    assert '{"$model":["order",[7]]}' in envelope.body
    assert type(rebuilt) is Order
    assert rebuilt is not order
    assert rebuilt.note == "new"


def test_all_rows_of_a_model_are_loaded_with_one_query(
    serializer: Serializer, saved: Saved, store: Store, statements: list[str]
) -> None:
    orders = saved(*(Order(id=n, items=[Item(position=1), Item(position=2)]) for n in range(1, 11)))
    visits = saved(Visit(id=uuid.uuid4()), Visit(id=uuid.uuid4()))
    envelope = store({"orders": list(orders), "items": [order.items[1] for order in orders], "visits": visits})
    statements.clear()

    value = value_of(serializer, envelope)

    assert [order.id for order in value["orders"]] == list(range(1, 11))
    assert [(item.order_id, item.position) for item in value["items"]] == [(n, 2) for n in range(1, 11)]
    assert len(statements) == 3
    assert all("WHERE" in statement for statement in statements)


def test_more_rows_than_a_query_takes_are_loaded_in_chunks(
    serializer: Serializer, saved: Saved, store: Store, statements: list[str]
) -> None:
    people = saved(*(Person(kind="person") for _ in range(1001)))
    envelope = store(list(people))
    statements.clear()

    value = value_of(serializer, envelope)

    assert [person.id for person in value] == list(range(1, 1002))
    assert len(statements) == 3


def test_the_same_row_twice_is_one_object(serializer: Serializer, saved: Saved, store: Store) -> None:
    order = saved(Order())

    first, second = value_of(serializer, store([order, order]))

    assert first is second


def test_a_job_without_rows_touches_no_session(registry: Registry, signer: Signer) -> None:
    def session() -> Session:
        raise AssertionError("the session was asked for")

    serializer = Serializer(registry, signer=signer, references=ModelReferences(registry, session))
    name, body = serializer.encode(Echo({"$model": ["order", [7]], "engine": "none"}))

    assert value_of(serializer, Envelope("id", name, "default", body)) == {"$model": ["order", [7]], "engine": "none"}


def test_keys_of_several_columns_and_of_other_types_work(serializer: Serializer, saved: Saved, store: Store) -> None:
    key = uuid.uuid4()
    visit = saved(Visit(id=key))
    days = saved(Day(day=dt.date(2024, 2, 29), room="a"), Day(day=dt.date(2024, 2, 29), room="b"))

    rebuilt, first, second = value_of(serializer, store([visit, *days]))

    assert rebuilt.id == key
    assert (first.day, first.room) == (dt.date(2024, 2, 29), "a")
    assert (second.day, second.room) == (dt.date(2024, 2, 29), "b")


def test_an_identity_that_was_set_in_another_type_is_found(
    serializer: Serializer, session: Session, store: Store
) -> None:
    order = Order(id="7")
    session.add(order)
    session.flush()
    envelope = store(order)
    session.commit()

    assert value_of(serializer, envelope).id == 7


def test_a_subclass_of_a_registered_model_comes_back_as_itself(
    serializer: Serializer, saved: Saved, store: Store
) -> None:
    worker = saved(Worker(task="sweep"))

    rebuilt = value_of(serializer, store(worker))

    assert type(rebuilt) is Worker
    assert rebuilt.task == "sweep"


def test_a_subclass_with_a_name_of_its_own_is_loaded_by_it(
    registry: Registry, serializer: Serializer, saved: Saved, store: Store
) -> None:
    registry.model("worker")(Worker)
    worker = saved(Worker(task="sweep"))

    envelope = store(worker)

    assert '"$model":["worker",' in envelope.body
    assert type(value_of(serializer, envelope)) is Worker


def test_nothing_is_loaded_at_dispatch_and_detached_rows_will_do(
    saved: Saved, store: Store, session: Session, statements: list[str]
) -> None:
    order, other = saved(Order(), Order())  # their attributes are expired by the commit
    session.expunge(other)
    statements.clear()

    store([order, other])

    assert statements == []


@pytest.mark.parametrize("state", ["transient", "pending"])
def test_a_row_without_an_identity_is_refused_and_says_what_to_do(store: Store, session: Session, state: str) -> None:
    order = Order(id=7)
    if state == "pending":
        session.add(order)

    with pytest.raises(UnserializableJob, match=r"value\[0\] is a new Order without an identity: .* flush\(\)"):
        store([order])


@pytest.mark.parametrize("finish", ["flush", "commit"])
def test_a_deleted_row_is_refused(store: Store, saved: Saved, session: Session, finish: str) -> None:
    order = saved(Order())
    session.delete(order)
    getattr(session, finish)()

    with pytest.raises(UnserializableJob, match="value is a deleted Order"):
        store(order)


def test_a_flushed_row_may_be_dispatched_before_the_commit(store: Store, session: Session) -> None:
    order = Order()
    session.add(order)
    session.flush()

    assert '"$model":["order",[1]]' in store(order).body


def test_a_model_without_a_name_is_refused_and_says_what_to_write(store: Store, saved: Saved) -> None:
    with pytest.raises(NotRegistered, match=r'value\[0\] is of the model Forgotten.*@jobs.model\("forgotten"\)'):
        store([saved(Forgotten())])


def test_a_name_on_a_parent_without_a_table_does_not_do(registry: Registry, store: Store, saved: Saved) -> None:
    registry.model("named")(Named)

    with pytest.raises(NotRegistered, match="'named' is the name of its parent Named, which has no table"):
        store(saved(Tagged()))


@pytest.mark.parametrize("make", [lambda session: session, lambda session: session.get_bind(), lambda session: Order])
def test_what_only_belongs_to_sqlalchemy_is_no_row(store: Store, session: Session, make: Callable[[Any], Any]) -> None:
    with pytest.raises(UnserializableJob, match="value is of type"):
        store(make(session))


def delete(session: Session, *rows: object) -> None:
    for row in rows:
        session.delete(row)
    session.commit()


def test_a_row_that_is_gone_is_named(serializer: Serializer, saved: Saved, store: Store, session: Session) -> None:
    kept, gone = saved(Order(id=1), Order(id=7))
    envelope = store([kept, gone])
    delete(session, gone)

    with pytest.raises(ModelNotFound, match="No longer in the database: order#7") as failure:
        serializer.decode(envelope)

    assert not failure.value.quietly


def test_a_row_that_is_gone_ends_the_job_quietly_where_its_model_says_so(
    serializer: Serializer, saved: Saved, store: Store, session: Session
) -> None:
    day = saved(Visit(id=uuid.UUID(int=7)))
    envelope = store(day)
    delete(session, day)

    with pytest.raises(ModelNotFound, match="visit#00000000-0000-0000-0000-000000000007") as failure:
        serializer.decode(envelope)

    assert failure.value.quietly


def test_one_loud_model_among_the_missing_makes_it_loud(
    serializer: Serializer, saved: Saved, store: Store, session: Session
) -> None:
    order = saved(Order(id=7, items=[Item(position=2)]))
    envelope = store([order.items[0], order])
    delete(session, order.items[0], order)

    with pytest.raises(ModelNotFound, match="item#7,2, order#7") as failure:
        serializer.decode(envelope)

    assert not failure.value.quietly


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ('{"$model":["lost",[1]]}', "No model is registered under 'lost'"),
        ('{"$model":["order",[1,2]]}', "has 2 key columns, its table has 1"),
        ('{"$model":["order",[]]}', "has 0 key columns, its table has 1"),
        ('{"$model":["part",["A-7"]]}', "A stored reference to 'part' does not fit the key columns"),
        ('{"$model":["order",[99999999999999999999]]}', "A stored reference to 'order' does not fit"),
        ('{"$model":["order",[[1]]]}', "holds something that is no reference to a row"),
        ('{"$model":["order",[{"$model":["order",[1]]}]]}', "holds something that is no reference to a row"),
        ('{"$model":[7,[1]]}', "holds something that is no reference to a row"),
        ('{"$model":"order"}', "holds something that is no reference to a row"),
    ],
)
def test_a_reference_that_does_not_fit_is_told(
    serializer: Serializer, signer: Signer, stored: str, message: str
) -> None:
    body = signer.sign(f'{{"v":1,"job":"echo","jv":1,"fields":{{"value":[{stored}]}}}}')

    with pytest.raises(UnrebuildableJob, match=message):
        serializer.decode(Envelope("id", "echo", "default", body))


def test_an_error_of_the_database_is_not_taken_for_one_of_the_job(
    serializer: Serializer, saved: Saved, store: Store, engine: sa.Engine
) -> None:
    envelope = store(saved(Forgotten(), Order())[1])
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE orders")

    with pytest.raises(sa.exc.OperationalError):
        serializer.decode(envelope)


def test_an_operator_sees_the_name_and_key_of_a_row(serializer: Serializer, saved: Saved, store: Store) -> None:
    envelope = store([saved(Order(id=7)), saved(Day(day=dt.date(2024, 2, 29), room="a"))])

    assert serializer.describe(envelope)["fields"] == {"value": "[order#7, day#2024-02-29,a]"}
