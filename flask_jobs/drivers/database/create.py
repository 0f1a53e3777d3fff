"""The driver of a configured connection: on the app's own database unless a URL or an engine is given."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from ...config import ConnectionSettings
from ...errors import ConfigurationError
from .. import Surroundings
from .driver import DatabaseDriver
from .engines import engine_beside, open_engine

FILE = "jobs.sqlite"

_FLAGS = {"durable": False, "wal": True, "notify": True}


def create(settings: ConnectionSettings, surroundings: Surroundings) -> DatabaseDriver:
    """The driver of a connection with ``"driver": "database"``."""
    where = f"JOBS_CONNECTIONS[{settings.name!r}]"
    flags = {key: _flag(settings, where, key, default) for key, default in _FLAGS.items()}
    url, given = settings.options.get("url"), settings.options.get("engine")
    if url is not None and given is not None:
        raise ConfigurationError(f"{where} has a url and an engine: give one of them.")
    if given is not None and not isinstance(given, sa.Engine):
        raise ConfigurationError(f"{where}['engine'] must be a SQLAlchemy Engine, not {type(given).__name__}.")
    app_engine = surroundings.app_engine() if url is None and given is None else given
    engine = given or _own_engine(url, app_engine, surroundings.instance_path, where, durable=flags["durable"])
    driver = DatabaseDriver(
        engine,
        retry_after=settings.retry_after,
        remember_ids=settings.remember_ids,
        clock=settings.clock or ("local" if surroundings.testing else "store"),
        wal=flags["wal"],
        notify=flags["notify"],
        app_engine=app_engine,
        owns_engine=engine is not app_engine,
    )
    # Here, so that a dispatch says it at once, and not the commit of a transaction that the job has waited for.
    driver.dialect.refuse_unusable(engine)
    return driver


def _own_engine(url: object, app_engine: sa.Engine | None, folder: Path, where: str, *, durable: bool) -> sa.Engine:
    if app_engine is not None:
        return engine_beside(app_engine, durable=durable)
    if url is None:
        _make(folder)
        return open_engine(sa.URL.create("sqlite", database=str(folder / FILE)), durable=durable)
    if not isinstance(url, str | sa.URL):
        raise ConfigurationError(f"{where}['url'] must be a database URL, not {type(url).__name__}.")
    try:
        return open_engine(url, durable=durable)
    except (ArgumentError, NoSuchModuleError):
        raise ConfigurationError(
            f"{where}['url'] is no database URL that SQLAlchemy knows, such as 'sqlite:////var/lib/shop/jobs.sqlite'."
        ) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"The instance folder {folder}, where jobs are kept when no database is given, cannot be made "
            f"({error.strerror}). Make it and let the process write to it, or give the connection a url."
        ) from error


def _flag(settings: ConnectionSettings, where: str, key: str, default: bool) -> bool:
    value = settings.options.get(key, default)
    if isinstance(value, bool):
        return value
    raise ConfigurationError(f"{where}[{key!r}] must be True or False, not {value!r}.")
