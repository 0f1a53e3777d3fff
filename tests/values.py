"""Values that a job may hold, for every test that sends them somewhere and looks at what comes back."""

from __future__ import annotations

import datetime as dt
import enum
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from flask_jobs.job import Job, attributes_of

BERLIN = ZoneInfo("Europe/Berlin")
REPEATED_HOUR = dt.datetime(2024, 10, 27, 2, 30)


class Status(enum.Enum):
    OPEN = "open"
    PAID = ("paid", 2)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2
    SHARE = 4


class Colour(enum.Flag):
    RED = enum.auto()
    BLUE = enum.auto()


@dataclass
class Line:
    text: str
    price: Decimal
    status: Status = Status.OPEN


@dataclass(frozen=True, slots=True)
class Bill:
    lines: tuple[Line, ...]
    levels: dict[Level, str] = field(default_factory=dict)
    after: Bill | None = None


class Echo(Job):
    """Holds one value. Tests that need to see it run subclass it."""

    def __init__(self, value: Status | Level | Permission | Colour | Line | Bill | object) -> None:
        self.value = value

    def handle(self) -> None:
        pass


def nested(levels: int) -> object:
    """Something in so many lists and dicts."""
    value: object = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


class MyText(str):
    pass


class Plain:
    pass


class Point(NamedTuple):
    x: int
    y: int


class NamelessZone(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(hours=1)

    def dst(self, when: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(0)

    def tzname(self, when: dt.datetime | None) -> str:
        return "somewhere"


def cycle() -> list[object]:
    """A list that holds itself."""
    value: list[object] = []
    value.append(value)
    return value


VALUES: list[tuple[str, Callable[[], object]]] = [
    ("None", lambda: None),
    ("true", lambda: True),
    ("false", lambda: False),
    ("zero", lambda: 0),
    ("negative int", lambda: -7),
    ("int of 63 bits", lambda: (1 << 63) - 1),
    ("int of 64 bits", lambda: 1 << 63),
    ("negative int of 64 bits", lambda: -(1 << 63) - 1),
    ("int of 9,000 digits", lambda: 7**10_650),
    ("float", lambda: 0.1),
    ("whole float", lambda: 1.0),
    ("negative zero", lambda: -0.0),
    ("largest float", lambda: 1.7976931348623157e308),
    ("smallest float", lambda: 5e-324),
    ("empty text", lambda: ""),
    ("text", lambda: 'say "hi" \\ \n\t/'),
    ("unicode", lambda: "Zürich 名前 🎉 e\u0301"),
    ("text with NUL", lambda: "a\x00b"),
    ("lone surrogate", lambda: "a\ud83cb"),
    ("surrogates that must not join", lambda: "\ud83c\udf89\ud83c\udf89"),
    ("text like JSON", lambda: '{"$tuple": []}'),
    ("all bytes", lambda: bytes(range(256))),
    ("no bytes", lambda: b""),
    ("list", lambda: [1, "two", None, [3.0]]),
    ("tuple", lambda: (1, (), [2])),
    ("set", lambda: {1, "a", None, (2, 3)}),
    ("empty set", lambda: set()),
    ("frozenset", lambda: frozenset({b"x", frozenset({1})})),
    ("dict", lambda: {"b": 1, "a": [2], "": {}}),
    ("dict with int keys", lambda: {1: "one", -2: "two", 1 << 70: "big"}),
    ("dict with other keys", lambda: {None: 1, True: 2, 0.5: 3, b"k": 4, dt.date(2024, 2, 29): 5, Decimal("1.10"): 6}),
    ("dict with mixed keys", lambda: {"1": "text", 1: "number", uuid.UUID(int=7): "uuid", dt.timedelta(1): "day"}),
    ("dict like a tag", lambda: {"$tuple": [1]}),
    ("dict like an escaped tag", lambda: {"$dict": [["$tuple", [1]]]}),
    ("dict with a dollar", lambda: {"$": 1, "a": 2}),
    ("dict with torn keys", lambda: {"\ud83c\udf89": 1}),
    ("date", lambda: dt.date(2024, 2, 29)),
    ("first date", lambda: dt.date.min),
    ("time", lambda: dt.time(23, 59, 59, 999_999)),
    ("time with fold", lambda: dt.time(2, 30, fold=1)),
    ("time with offset", lambda: dt.time(2, 30, tzinfo=dt.timezone(dt.timedelta(hours=-3)))),
    ("time with zone", lambda: dt.time(2, 30, tzinfo=BERLIN)),
    ("naive datetime", lambda: dt.datetime(2024, 1, 31, 12, 0, 0, 1)),
    ("naive datetime with fold", lambda: REPEATED_HOUR.replace(fold=1)),
    ("last datetime", lambda: dt.datetime.max),
    ("datetime in UTC", lambda: dt.datetime(2024, 1, 31, tzinfo=dt.UTC)),
    ("datetime in the zone UTC", lambda: dt.datetime(2024, 1, 31, tzinfo=ZoneInfo("UTC"))),
    ("datetime with odd offset", lambda: dt.datetime(2024, 1, 1, tzinfo=dt.timezone(-dt.timedelta(0, 1234, 567)))),
    ("datetime with tiny offset", lambda: dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(microseconds=-7)))),
    ("time with tiny offset", lambda: dt.time(1, tzinfo=dt.timezone(dt.timedelta(microseconds=7)))),
    ("datetime with named offset", lambda: dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET"))),
    ("repeated hour, first", lambda: REPEATED_HOUR.replace(tzinfo=BERLIN)),
    ("repeated hour, second", lambda: REPEATED_HOUR.replace(tzinfo=BERLIN, fold=1)),
    ("timedelta", lambda: dt.timedelta(-1, 86_399, 999_999)),
    ("largest timedelta", lambda: dt.timedelta.max),
    ("decimal", lambda: Decimal("1.10")),
    ("decimal NaN", lambda: Decimal("NaN")),
    ("signalling NaN", lambda: Decimal("-sNaN123")),
    ("decimal infinity", lambda: Decimal("-Infinity")),
    ("decimal with exponent", lambda: Decimal("-0E+999")),
    ("UUID", lambda: uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("enum", lambda: Status.OPEN),
    ("enum with a tuple as value", lambda: Status.PAID),
    ("int enum", lambda: Level.HIGH),
    ("int flag", lambda: Permission.READ | Permission.SHARE),
    ("empty flag", lambda: Colour(0)),
    ("flag", lambda: Colour.RED | Colour.BLUE),
    ("enums in containers", lambda: {"all": [Status.OPEN, (Level.LOW,)], "set": {Level.HIGH}}),
    ("dict with enum keys", lambda: {Level.LOW: 1, Status.PAID: 2}),
    ("dataclass", lambda: Line("book", Decimal("9.90"), Status.PAID)),
    ("nested dataclass", lambda: Bill((Line("a", Decimal(1)),), {Level.LOW: "x"}, Bill(()))),
    ("dataclasses in containers", lambda: [{"bill": Bill(())}, (Line("b", Decimal(2)),)]),
    ("32 levels", lambda: nested(32)),
]
"""A label and what makes the value, for each kind that comes back as it was from a field like that of `Echo`."""

REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("infinity", lambda: float("inf")),
    ("float NaN", lambda: float("nan")),
    ("object", Plain),
    ("class", lambda: Plain),
    ("function", lambda: nested),
    ("lambda", lambda: lambda: None),
    ("generator", lambda: (n for n in range(3))),
    ("range", lambda: range(3)),
    ("bytearray", lambda: bytearray(b"x")),
    ("complex", lambda: 1j),
    ("subclass of str", lambda: MyText("x")),
    ("subclass of dict", lambda: type("Counts", (dict,), {})()),
    ("named tuple", lambda: Point(1, 2)),
    ("zone without a name", lambda: dt.datetime(2024, 1, 1, tzinfo=NamelessZone())),
    ("tuple as key", lambda: {(1, 2): 3}),
    ("33 levels", lambda: nested(33)),
    ("cycle", cycle),
    ("open file", lambda: sys.stdout),
]
"""A label and what makes the value, for what is refused where it is dispatched."""


def no_session() -> Session:
    """Where a session is given for jobs that hold no rows: it must not be asked for."""
    raise AssertionError("no job here holds a row")


def same(left: object, right: object) -> bool:
    """Whether two values are equal in value and type, down to what ``==`` does not look at."""
    if type(left) is not type(right):
        return False
    match left:
        case float():
            return left.hex() == right.hex()
        case Decimal():
            return str(left) == str(right)
        case dt.datetime() | dt.time():
            return _same_time(left, right)
        case list() | tuple():
            return len(left) == len(right) and all(map(same, left, right))
        case dict():
            return same(list(left.items()), list(right.items()))
        case set() | frozenset():
            return len(left) == len(right) and all(any(same(one, other) for other in right) for one in left)
        case Line() | Bill():
            return same(attributes_of(left), attributes_of(right))
    return bool(left == right)


def _same_time(left, right) -> bool:
    zones = [(type(t.tzinfo), str(t.tzinfo), t.utcoffset()) for t in (left, right)]
    return left.replace(tzinfo=None) == right.replace(tzinfo=None) and left.fold == right.fold and zones[0] == zones[1]
