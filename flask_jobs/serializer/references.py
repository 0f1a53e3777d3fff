"""Rows in jobs: stored as model name and identity, loaded fresh where the job runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.orm import InstanceState, Mapper, Session

from ..errors import ModelNotFound, NotRegistered, UnrebuildableJob, UnserializableJob
from ..registry import Model, Registry, kebab
from .codec import Reference

VALUES = 500
"""How many key values one query holds at most; every database takes as many."""


class ModelReferences:
    """References to rows of SQLAlchemy's mapped classes.

    `session` gives the session that loads them; it is not called for jobs that hold none.
    """

    def __init__(self, registry: Registry, session: Callable[[], Session]) -> None:
        self._registry = registry
        self._session = session

    def identify(self, value: object) -> Reference | None:
        """The name and identity of a row; None for what is no mapped instance.

        Reads no attribute of it, so that nothing is loaded and a detached instance will do.
        """
        mapper = _mapper(type(value))
        if mapper is None:
            return None
        model = self._model_of(type(value), mapper)
        state: InstanceState[Any] = sa.inspect(value, raiseerr=True)
        if state.deleted or state.was_deleted:
            raise UnserializableJob(f"is a deleted {mapper.class_.__qualname__}; its row will not be there.")
        if state.identity is None:
            raise UnserializableJob(
                f"is a new {mapper.class_.__qualname__} without an identity: add it to the session and flush() or "
                "commit() it before the dispatch."
            )
        return Reference(model.name, tuple(state.identity))

    def load(self, wanted: Collection[Reference]) -> Mapping[Reference, object]:
        """All rows, with one query for each model (for each `VALUES` key values, if there are more)."""
        if not wanted:
            return {}
        session = self._session()
        rows: dict[Reference, object] = {}
        missing: dict[Reference, Model] = {}
        for name in sorted({reference.model for reference in wanted}):
            model = self._registry.model_named(name)
            references = [reference for reference in wanted if reference.model == name]
            rows |= _found(session, model, references)
            missing |= {reference: model for reference in references if reference not in rows}
        if missing:
            raise _missing(missing)
        return rows

    def _model_of(self, cls: type, mapper: Mapper[Any]) -> Model:
        model = self._registry.model_of(cls)
        if model is None:
            raise NotRegistered(
                f"is of the model {cls.__qualname__}, which has no stored name. "
                f'Add @jobs.model("{kebab(cls)}") above the class.'
            )
        if not any(parent.class_ is model.cls for parent in mapper.iterate_to_root()):
            raise NotRegistered(
                f"is of the model {cls.__qualname__}, and {model.name!r} is the name of its parent "
                f"{model.cls.__qualname__}, which has no table. Add @jobs.model(...) above {cls.__qualname__} itself."
            )
        return model


def _mapper(cls: type) -> Mapper[Any] | None:
    # Asked of the class: an instance of Engine or Session would answer with something quite different.
    mapper: object = sa.inspect(cls, raiseerr=False)
    return mapper if isinstance(mapper, Mapper) else None


def _found(session: Session, model: Model, references: Sequence[Reference]) -> dict[Reference, object]:
    mapper = _mapper(model.cls)
    if mapper is None:
        raise UnrebuildableJob(f"{model.cls.__qualname__}, registered as {model.name!r}, is no mapped class.")
    keys = mapper.primary_key
    for reference in references:
        if len(reference.identity) != len(keys):
            raise UnrebuildableJob(
                f"A stored reference to {model.name!r} has {len(reference.identity)} key columns, its table has "
                f"{len(keys)}."
            )
    rows = [row for chunk in _chunks(references, VALUES // len(keys)) for row in _query(session, model, keys, chunk)]
    return _matched(references, rows)


def _query(
    session: Session, model: Model, keys: Sequence[sa.ColumnElement[Any]], references: Sequence[Reference]
) -> Sequence[object]:
    if len(keys) == 1:
        wanted = keys[0].in_([reference.identity[0] for reference in references])
    else:
        wanted = sa.tuple_(*keys).in_([reference.identity for reference in references])
    try:
        return session.scalars(sa.select(model.cls).where(wanted)).unique().all()
    except exc.DBAPIError as error:
        if isinstance(error, exc.DataError):
            raise _misfit(model) from error
        raise
    except (exc.StatementError, OverflowError, TypeError, ValueError) as error:
        raise _misfit(model) from error  # the key column is of another type than it was at dispatch


def _misfit(model: Model) -> UnrebuildableJob:
    return UnrebuildableJob(f"A stored reference to {model.name!r} does not fit the key columns of its table.")


def _matched(references: Sequence[Reference], rows: Sequence[object]) -> dict[Reference, object]:
    identities = {tuple(sa.inspect(row).identity): row for row in rows}
    # An identity may have been set in another type than the database gives, such as "7" for 7.
    similar = {tuple(map(str, identity)): row for identity, row in identities.items()}
    found = {}
    for reference in references:
        row = identities.get(reference.identity)
        if row is None:
            row = similar.get(tuple(map(str, reference.identity)))
        if row is not None:
            found[reference] = row
    return found


def _missing(missing: Mapping[Reference, Model]) -> ModelNotFound:
    names = ", ".join(sorted(map(str, missing)))
    return ModelNotFound(
        f"No longer in the database: {names}. The job refers to it and cannot run without.",
        quietly=all(model.delete_when_missing for model in missing.values()),
    )


def _chunks(references: Sequence[Reference], size: int) -> Iterator[Sequence[Reference]]:
    for start in range(0, len(references), size):
        yield references[start : start + size]
