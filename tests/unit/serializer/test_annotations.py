from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping  # noqa: F401  # used by an annotation that is text
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,  # noqa: F401  # used by an annotation that is text
    NewType,
    Optional,
    TypeVar,
    Union,
)

import pytest

from flask_jobs.envelope import Envelope
from flask_jobs.errors import UnrebuildableJob, UnserializableJob
from flask_jobs.job import Job
from flask_jobs.registry import Registry
from flask_jobs.serializer import Serializer, Unsigned

if TYPE_CHECKING:
    from somewhere import Missing  # noqa: F401  # used by annotations that are text


class Status(enum.Enum):
    OPEN = "open"
    PAID = "paid"


class Size(enum.Enum):
    SMALL = 1


class Strange(enum.Enum):
    THING = object()


class Misled(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        raise RuntimeError("no such member")


@dataclass
class Item:
    name: str
    status: Status
    parts: list[Item] = field(default_factory=list)


@dataclass
class Other:
    status: Status


@dataclass(frozen=True)
class Counted:
    start: int
    calls: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        self.calls.append("constructed")


@dataclass(slots=True)
class Slotted:
    name: str


T = TypeVar("T", bound=Status)
Alias = Union[Status, None]  # noqa: UP007  # the old spelling is in many code bases
Named = NewType("Named", Item)


@dataclass
class Box(Generic[T]):
    inside: T


Hold = Callable[[Any], Job]

ANNOTATIONS: list[tuple[object, object]] = [
    (Status, Status.PAID),
    ("Status", Status.PAID),
    ("Status | None", Status.PAID),
    (Optional[Status], Status.PAID),  # noqa: UP045
    ("Alias", Status.PAID),
    ("dict[str, list[Status]]", {"a": [Status.OPEN]}),
    ("Mapping[Status, int]", {Status.OPEN: 1}),
    ("tuple[Status, ...]", (Status.OPEN,)),
    (list["Status"], [Status.OPEN]),
    (Annotated[Status, "said of it"], Status.PAID),
    ("Literal[Status.PAID]", Status.PAID),
    ("Status | Size", Size.SMALL),
    ("Missing | Status", Status.PAID),
    ("Missing[int] | list[Status]", [Status.PAID]),
    ("Named", Item("a", Status.OPEN)),
    ("Item", Item("a", Status.OPEN, [Item("b", Status.PAID)])),
    ("Box[Status]", Box(Status.PAID)),
    ("Item | Other", Other(Status.OPEN)),
]


def annotated(annotation: object) -> type[Job]:
    return type("Holder", (Job,), {"__module__": __name__, "__annotations__": {"value": annotation}})


@pytest.mark.parametrize(("annotation", "value"), ANNOTATIONS, ids=[str(a) for a, _ in ANNOTATIONS])
def test_enums_and_dataclasses_are_found_in_the_annotation_of_the_attribute(
    registry: Registry, round_trip: Callable[[Job], Any], annotation: object, value: object
) -> None:
    job: Any = registry.register("holder")(annotated(annotation))()
    job.value = value

    assert round_trip(job).value == value


def test_the_annotation_of_the_constructor_parameter_counts_too_also_that_of_a_parent(
    registry: Registry, round_trip: Callable[[Job], Any]
) -> None:
    class Parent(Job):
        def __init__(self, status: Status) -> None:
            self.status = status

    @registry.register("child")
    class Child(Parent):
        def __init__(self, status: Status, items: list[Item]) -> None:
            super().__init__(status)
            self.items = items

    job = round_trip(Child(Status.PAID, [Item("a", Status.OPEN)]))

    assert job.status is Status.PAID
    assert job.items == [Item("a", Status.OPEN)]


def test_the_parameters_of_a_task_count(registry: Registry, round_trip: Callable[[Job], Any]) -> None:
    @registry.task("report")
    def report(status: Status, *items: Item, **sizes: Size) -> None:
        pass

    job = round_trip(report(Status.OPEN, Item("a", Status.PAID), small=Size.SMALL))

    assert job.arguments == {
        "status": Status.OPEN,
        "items": (Item("a", Status.PAID),),
        "sizes": {"small": Size.SMALL},
    }


@pytest.mark.parametrize(
    ("annotation", "value"),
    [("Size", Status.OPEN), ("int", Status.OPEN), ("Any", Item("a", Status.OPEN)), ("Other", Item("a", Status.OPEN))],
)
def test_a_class_that_the_annotation_does_not_name_is_refused_and_says_what_to_write(
    registry: Registry, serializer: Serializer, annotation: str, value: object
) -> None:
    job: Any = registry.register("holder")(annotated(annotation))()
    job.value = [value]
    name = type(value).__name__

    with pytest.raises(UnserializableJob) as refusal:
        serializer.encode(job)

    assert f"value[0] is of type {name}, but the annotation of 'value' in Holder does not name it" in str(refusal.value)
    assert f'Annotate the field, such as `value: {name}`, or: register a codec: jobs.codec({name}, "' in str(
        refusal.value
    )


def test_an_annotation_that_cannot_be_resolved_spoils_its_own_field_alone(
    registry: Registry, serializer: Serializer, round_trip: Callable[[Job], Any]
) -> None:
    @registry.register("half")
    class Half(Job):
        lost: somewhere.Missing  # noqa: F821
        kept: Status

    job: Any = Half()
    job.kept = Status.PAID
    assert round_trip(job).kept is Status.PAID

    job.lost = Status.PAID
    with pytest.raises(UnserializableJob, match="uses names that do not exist at run time"):
        serializer.encode(job)


def test_a_member_that_its_value_does_not_lead_back_to_is_refused(registry: Registry, serializer: Serializer) -> None:
    job: Any = registry.register("holder")(annotated(Strange))()
    job.value = Strange.THING

    with pytest.raises(UnserializableJob, match=r"value\.value is of type object"):
        serializer.encode(job)


def test_two_classes_of_one_name_in_one_annotation_are_refused(registry: Registry, serializer: Serializer) -> None:
    twin = enum.Enum("Status", {"OPEN": "open"})
    job: Any = registry.register("holder")(annotated(Status | twin))()
    job.value = Status.OPEN

    with pytest.raises(UnserializableJob, match="may be one of 2 classes with the name Status"):
        serializer.encode(job)


def test_a_dataclass_is_restored_without_its_constructor_and_with_all_its_attributes(
    registry: Registry, round_trip: Callable[[Job], Any]
) -> None:
    job: Any = registry.register("holder")(annotated(Counted))()
    job.value = Counted(1)

    assert round_trip(job).value == Counted(1)
    assert round_trip(job).value.calls == ["constructed"]


def stored(value: str) -> Envelope:
    return Envelope("id", "holder", "default", f'{{"v":1,"job":"holder","jv":1,"fields":{{"value":{value}}}}}')


@pytest.fixture
def signer() -> Unsigned:
    return Unsigned()


def test_a_class_that_was_renamed_is_found_when_it_is_the_only_one(registry: Registry, serializer: Serializer) -> None:
    registry.register("holder")(annotated("dict[Status, Item]"))

    job: Any = serializer.decode(
        stored('[{"$enum":["State","paid"]},{"$data":["Position",{"name":"a","status":null}]}]')
    )

    assert job.value == [Status.PAID, Item("a", None)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("Status | Size", '{"$enum":["State","paid"]}', "is of a class that the annotation of its field does not name"),
        ("int", '{"$enum":["Status","paid"]}', "is of a class that the annotation of its field does not name"),
        ("Status", '{"$data":["Item",{}]}', "is of a class that the annotation of its field does not name"),
        ("Status", '[{"$enum":["Status","lost"]}]', r"value\[0\] is no member of Status any more"),
        ("Misled", '{"$enum":["Misled",7]}', "value is no member of Misled any more"),
        ("Item", '{"$data":["Item",{"name":"a"}]}', "Item needs the field 'status', which was not stored"),
        ("Slotted", '{"$data":["Slotted",{"name":"a","age":1}]}', "Slotted cannot take the stored field 'age'"),
    ],
)
def test_what_does_not_fit_the_annotation_any_more_is_told(
    registry: Registry, serializer: Serializer, annotation: str, value: str, message: str
) -> None:
    registry.register("holder")(annotated(annotation))

    with pytest.raises(UnrebuildableJob, match=message):
        serializer.decode(stored(value))


def test_a_field_that_a_dataclass_has_got_since_then_has_its_default(
    registry: Registry, serializer: Serializer
) -> None:
    newer = dataclasses.make_dataclass(
        "Item", [("name", str), ("size", int, 7), ("parts", list, field(default_factory=list))], slots=True
    )
    registry.register("holder")(annotated(newer))

    job: Any = serializer.decode(stored('{"$data":["Item",{"name":"a"}]}'))

    assert job.value == newer("a", 7, [])
