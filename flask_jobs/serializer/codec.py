"""The kinds of values that JSON has no word for, and how each is written.

A value that JSON has a word for is written as that. Any other is an object with one key, its tag:
``{"$decimal": "1.10"}``. A dict of the user's that could be taken for one is written with a tag itself.
What is written here stays readable for ever: a tag may be added, but never changed.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias
from zoneinfo import ZoneInfo

from ..errors import JobsError

JSON: TypeAlias = Any
"""What `json` reads and writes."""

DEPTH = 32
"""How many levels of containers, dataclasses and codecs may stand in each other."""

PLAIN_INTS = 1 << 63
"""Whole numbers beyond this are tagged and written in hex: Python itself reads only 4,300 digits of decimals."""

_SHOWN_KEY = 40

# Two halves of a surrogate pair that stand in a string as two characters: JSON would read them as one.
_TORN_PAIR = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")


class Reference(NamedTuple):
    """A row by the stored name of its model and its identity."""

    model: str
    identity: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.model}#{','.join(map(str, self.identity))}"


class References(Protocol):
    """Knows models, so that the codec need not."""

    def identify(self, value: object) -> Reference | None:
        """The reference to store for a model instance; None for anything else.

        Raises `NotRegistered` for a model without a name, `UnserializableJob` for an instance without an identity.
        """

    def load(self, wanted: Collection[Reference]) -> Mapping[Reference, object]:
        """The rows of all references, or `ModelNotFound`."""


class Unfit(Exception):
    """A value that cannot go through. On the way up it learns where it stands."""

    def __init__(self, reason: str, error: type[JobsError] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error
        self._steps: list[str] = []

    def stands_in(self, step: str) -> None:
        """Add the next step outwards to its place."""
        self._steps.append(step)

    @property
    def field(self) -> str:
        """The field that it stands in."""
        return self._steps[-1]

    @property
    def place(self) -> str:
        """Where the value stands, such as ``items[3].price``."""
        return "".join(reversed(self._steps)) or "the payload"


def step(key: object) -> str:
    """A key of a dict as part of a place; left out where it would say too much."""
    if type(key) is int and abs(key) < 10**_SHOWN_KEY:
        return f"[{key}]"
    return f"[{key!r}]" if type(key) is str and len(key) <= _SHOWN_KEY else "[…]"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value without parts. `read` may raise any of `MISREAD` when what is stored is not its own."""

    tag: str
    cls: type
    write: Callable[[Any], JSON]
    read: Callable[[Any], object]


MISREAD = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, OSError)
"""What reading a kind may raise: `ArithmeticError` comes from decimals and overflows, `OSError` from time zones."""


def is_plain(text: str) -> bool:
    """Whether a string comes back from JSON as it is."""
    return text.isascii() or _TORN_PAIR.search(text) is None


def write_torn(text: str) -> JSON:
    """A string that JSON would not give back, cut where it must not be joined."""
    return {"$str": _TORN_PAIR.split(text)}


def write_int(value: int) -> JSON:
    """A whole number of any size."""
    return value if -PLAIN_INTS <= value < PLAIN_INTS else {"$int": f"{value:x}"}


def _read_torn(raw: JSON) -> str:
    return "".join(_of(list, raw))


def _read_int(raw: JSON) -> int:
    return int(_of(str, raw), 16)


def _write_bytes(value: bytes) -> JSON:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(raw: JSON) -> bytes:
    return base64.b64decode(_of(str, raw), validate=True)


def _read_date(raw: JSON) -> dt.date:
    return dt.date.fromisoformat(_of(str, raw))


def _write_time(value: dt.time | dt.datetime) -> JSON:
    if not value.fold and _iso_says_it(value.tzinfo):
        return value.isoformat()
    return [value.replace(tzinfo=None).isoformat(), value.fold, _write_zone(value.tzinfo)]


def _read_time(raw: JSON) -> dt.time:
    if isinstance(raw, str):
        return dt.time.fromisoformat(raw)
    iso, fold, zone = _of(list, raw)
    return dt.time.fromisoformat(iso).replace(fold=fold, tzinfo=_read_zone(zone))


def _read_datetime(raw: JSON) -> dt.datetime:
    if isinstance(raw, str):
        return dt.datetime.fromisoformat(raw)
    iso, fold, zone = _of(list, raw)
    return dt.datetime.fromisoformat(iso).replace(fold=fold, tzinfo=_read_zone(zone))


def _iso_says_it(zone: dt.tzinfo | None) -> bool:
    """Whether the ISO form tells all there is to know of the zone: none, or an offset without a name."""
    if zone is None:
        return True
    if type(zone) is not dt.timezone or zone.tzname(None) != _nameless(zone).tzname(None):
        return False
    return not zone.utcoffset(None).microseconds  # Python reads an offset of less than a second as UTC


def _write_zone(zone: dt.tzinfo | None) -> JSON:
    if zone is None:
        return None
    if type(zone) is dt.timezone:
        offset, name = zone.utcoffset(None) // dt.timedelta(microseconds=1), zone.tzname(None)
        if not is_plain(name):
            raise Unfit("has a time zone with a name that is no text.")
        return [offset] if name == _nameless(zone).tzname(None) else [offset, name]
    if type(zone) is ZoneInfo and _is_known(zone.key):
        return zone.key
    raise Unfit(f"has a time zone of type {_type_name(zone)} that cannot be named: use zoneinfo.ZoneInfo.")


def _read_zone(raw: JSON) -> dt.tzinfo | None:
    if raw is None:
        return None
    if isinstance(raw, str):
        return ZoneInfo(raw)
    offset, *name = _of(list, raw)
    return dt.timezone(dt.timedelta(microseconds=offset), *name)


def _nameless(zone: dt.timezone) -> dt.timezone:
    return dt.timezone(zone.utcoffset(None))


def _is_known(key: str | None) -> bool:
    try:
        return key is not None and ZoneInfo(key).key == key
    except MISREAD:
        return False


def _write_timedelta(value: dt.timedelta) -> JSON:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(raw: JSON) -> dt.timedelta:
    days, seconds, microseconds = _of(list, raw)
    return dt.timedelta(days, seconds, microseconds)


def _read_decimal(raw: JSON) -> decimal.Decimal:
    return decimal.Decimal(_of(str, raw))


def _read_uuid(raw: JSON) -> uuid.UUID:
    return uuid.UUID(_of(str, raw))


def _of(cls: type, raw: JSON) -> JSON:
    if type(raw) is not cls:
        raise TypeError(f"expected {cls.__name__}")
    return raw


def _type_name(value: object) -> str:
    return type(value).__qualname__


KINDS = (
    Kind("$bytes", bytes, _write_bytes, _read_bytes),
    Kind("$date", dt.date, dt.date.isoformat, _read_date),
    Kind("$time", dt.time, _write_time, _read_time),
    Kind("$datetime", dt.datetime, _write_time, _read_datetime),
    Kind("$timedelta", dt.timedelta, _write_timedelta, _read_timedelta),
    Kind("$decimal", decimal.Decimal, str, _read_decimal),
    Kind("$uuid", uuid.UUID, str, _read_uuid),
)

BY_CLASS = {kind.cls: kind for kind in KINDS}
"""The kinds without parts that are tagged, by their exact class."""

READERS: dict[str, Callable[[Any], object]] = {
    "$str": _read_torn,
    "$int": _read_int,
    **{kind.tag: kind.read for kind in KINDS},
}
"""How each tag of a kind without parts is read."""
