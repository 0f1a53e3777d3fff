"""What a job is: the class that users write, and the middleware that may stand around it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, ParamSpec, Protocol, TypeVar

from .errors import InvalidArgument, UnrebuildableJob
from .parameters import Parameters

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Backoff = float | Sequence[float] | Callable[[int], float] | None
Deadline = dt.datetime | dt.timedelta | Callable[[], "dt.datetime | dt.timedelta"] | None


class Middleware(Protocol):
    """Stands around a job's body.

    Not calling `call_next()` ends the job quietly; raising `ReleaseJob(delay)` puts it back.
    """

    def handle(self, job: Any, call_next: Callable[[], None]) -> None:
        """Do what is to be done before and after, and call `call_next()` for what lies within."""


class Job:
    """Work to be done later by a worker. Subclasses write `handle()`; all else is optional.

    The constructor runs once, at dispatch; the worker restores the instance's attributes without it. So a class
    attribute is code (jobs already queued follow a new default), an instance attribute is data (it travels).
    """

    __slots__ = ()

    max_attempts: int = 3
    """How many times the body may start; 0 means no limit."""

    max_exceptions: int | None = None
    """How many raised errors until it fails for good."""

    backoff: Backoff = None
    """Seconds before the next attempt: a number, one for each attempt (the last repeats), or a method of the
    attempt. None: exponential with jitter, see `policy.default_backoff`."""

    retry_until: Deadline = None
    """No attempt but the first starts after this instant. Fixed at dispatch. Alone, it replaces `max_attempts`."""

    timeout: float | None = None
    """Seconds for one attempt; 0 means no limit, None the worker's."""

    fail_on_timeout: bool = False
    """Whether a timeout fails the job at once."""

    prefetch: int | None = None
    """1: a worker never takes it along with other short jobs; None: as the connection says."""

    max_releases: int | None = None
    """How often the job may be put back without its body having run."""

    max_interruptions: int = 20
    """How often a stop of the worker may cut the job short."""

    queue: str | None = None
    """The queue, unless the call names one; None: the connection's."""

    connection: str | None = None
    """The connection, unless the call names one; None: JOBS_DEFAULT."""

    after_commit: bool | None = None
    """Whether a dispatch waits for the open transaction, unless the call says; None: the connection's."""

    unique: bool | Literal["until_finished", "until_processing"] = False
    """Whether at most one job with this name and `unique_id()` is stored at a time: until it has ended (True), or
    until its body starts."""

    unique_for: float | dt.timedelta | None = None
    """Seconds from the dispatch after which another job may take the unique key even so; None: no such bound."""

    version: int = 1
    """The version of the stored fields; raise it when they change, and register an upcaster."""

    sensitive: tuple[str, ...] = ()
    """Fields that are never logged or shown."""

    def handle(self) -> Awaitable[None] | None:
        """Do the work. May be `async def`."""
        raise TypeError(f"{type(self).__name__} has no handle() method: write what the job does there.")

    def middleware(self) -> Sequence[Middleware]:
        """The middleware around `handle()`, outermost first."""
        return ()

    def unique_id(self) -> str | int | uuid.UUID:
        """What tells unique jobs of one name apart; asked once, at dispatch. Shown to operators, so no secret."""
        return ""

    def failed(self, error: BaseException) -> None:
        """Called once after the job has failed for good and that is recorded."""

    def tags(self) -> Iterable[str]:
        """Words for people who look at the job, such as "customer:7"; fixed at dispatch and shown with it."""
        return ()


class TaskJob(Job):
    """The job of a function: its stored fields are the arguments of the call.

    It takes no other attributes, for nothing else of it would be stored: options belong to the task.
    """

    __slots__ = ("arguments",)

    function: ClassVar[Callable[..., Any]]
    signature: ClassVar[inspect.Signature]
    parameters: ClassVar[Parameters]

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.arguments = dict(arguments)

    def handle(self) -> Awaitable[None] | None:
        """Call the function with the stored arguments."""
        result = self.called(type(self).function)
        return result if result is not None and inspect.isawaitable(result) else None

    def called(self, function: Callable[..., Any]) -> Any:
        """What a function gives for the stored arguments."""
        return self.parameters.call(function, self.arguments)


class Task(Generic[P, R]):
    """A function that can be dispatched: calling it makes the job, `call` runs the function plainly."""

    def __init__(self, function: Callable[P, R], job: type[TaskJob]) -> None:
        self.call = function
        self.job = job
        self.__name__ = getattr(function, "__name__", job.__name__)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskJob:
        """The job that will call the function with these arguments."""
        return self.job(self.job.parameters.bind(args, kwargs))


def require_job(job: object) -> None:
    """Raise `InvalidArgument`, which says what was given and what to do, unless it is an instance of a `Job` class."""
    if isinstance(job, Job):
        return
    if isinstance(job, Task):
        raise InvalidArgument(f"{job.__name__} is a task: call it with its arguments to get the job to dispatch.")
    raise InvalidArgument(f"Only a job can be dispatched, an instance of a Job class; this is {_given(job)}.")


def require_body(job: Job) -> None:
    """Raise `InvalidArgument` for a job that has nothing to do."""
    if type(job).handle is Job.handle:
        raise InvalidArgument(f"{type(job).__qualname__} has no handle() method: write what the job does there.")


def _given(thing: object) -> str:
    if isinstance(thing, type) and issubclass(thing, Job):
        return f"the class {thing.__qualname__}: call it with its arguments"
    if isinstance(thing, type):
        return f"the class {thing.__qualname__}"
    if inspect.isfunction(thing):
        return f"the function {thing.__qualname__}: put @jobs.task('some.name') above it and call it"
    return f"an object of type {type(thing).__qualname__}"


def task_job(function: Callable[..., Any], options: Mapping[str, object]) -> type[TaskJob]:
    """A job class for the function, with `options` as its class attributes.

    `unique_id` among them is a function of the same arguments.
    """
    asked = options.get("unique_id")
    if callable(asked):
        options = {**options, "unique_id": lambda job: job.called(asked)}
    signature = inspect.signature(function)
    members = {
        "__slots__": (),
        "function": staticmethod(function),
        "signature": signature,
        "parameters": Parameters(signature),
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        **options,
    }
    return type(function.__name__, (TaskJob,), members)


def fields_of(job: Job) -> dict[str, object]:
    """What is stored of the job: its instance attributes, or the arguments of its function."""
    return dict(job.arguments) if isinstance(job, TaskJob) else attributes_of(job)


def attributes_of(value: object) -> dict[str, object]:
    """The attributes of an instance, those in slots included."""
    attributes = dict(vars(value)) if hasattr(value, "__dict__") else {}
    cls: type = type(value)
    for slot in slots_of(cls):
        if hasattr(value, slot):
            attributes[slot] = getattr(value, slot)
    return attributes


def rebuild(cls: type[T], fields: Mapping[str, object]) -> T:
    """An instance with these fields, made without its constructor, or `UnrebuildableJob`.

    A dataclass gets the defaults of the fields that it was stored without. What is true of a job is true of a
    dataclass in one of its fields.
    """
    if issubclass(cls, TaskJob):
        _check_arguments(cls, fields)
        return cls(fields)
    value = _blank(cls)
    for name, field in fields.items():
        _restore(value, name, field)
    if dataclasses.is_dataclass(cls):
        _fill_up(value, fields)
    return value


def _blank(cls: type[T]) -> T:
    try:
        return cls.__new__(cls)
    except Exception as error:  # `__new__` is the user's own, and may raise anything
        raise UnrebuildableJob(f"{cls.__qualname__} cannot be made without arguments for its __new__.") from error


def _restore(value: object, name: str, field: object) -> None:
    try:
        object.__setattr__(value, name, field)  # frozen dataclasses refuse the plain way
    except Exception as error:  # a property is the user's own, and may raise anything
        raise UnrebuildableJob(f"{type(value).__qualname__} cannot take the stored field {name!r}.") from error


def _fill_up(value: Any, fields: Mapping[str, object]) -> None:
    for field in dataclasses.fields(value):
        if field.name in fields:
            continue
        if field.default is not dataclasses.MISSING:
            _restore(value, field.name, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            _restore(value, field.name, _made(field))
        elif field.init:
            raise UnrebuildableJob(
                f"{type(value).__qualname__} needs the field {field.name!r}, which was not stored. "
                "Give it a default, or raise the job's version and register an upcaster."
            )


def _made(field: dataclasses.Field[Any]) -> object:
    try:
        return field.default_factory() if callable(field.default_factory) else None
    except Exception as error:  # the factory is the user's own, and may raise anything
        raise UnrebuildableJob(f"The default of the field {field.name!r} cannot be made.") from error


def _check_arguments(cls: type[TaskJob], arguments: Mapping[str, object]) -> None:
    if cls.parameters.fit(arguments):
        return
    for name in cls.parameters.missing(arguments):
        raise UnrebuildableJob(f"{cls.__qualname__}() needs the argument {name!r}, which was not stored.")
    for name in arguments:
        if name not in cls.signature.parameters:
            raise UnrebuildableJob(f"{cls.__qualname__}() has no parameter {name!r} for a stored argument.")


def is_set(job: Job | type[Job], option: str) -> bool:
    """Whether the option is set on the instance or a class of the user's, and not just inherited from `Job`."""
    if isinstance(job, Job) and option in getattr(job, "__dict__", ()):
        return True
    cls = job if isinstance(job, type) else type(job)
    own = cls.__mro__[: cls.__mro__.index(Job)]
    return any(option in vars(c) for c in own)


@lru_cache(maxsize=1024)
def slots_of(cls: type) -> tuple[str, ...]:
    """The names of the attributes that instances of this class keep in slots."""
    return tuple(
        name if not name.startswith("__") or name.endswith("__") else f"_{c.__name__.lstrip('_')}{name}"
        for c in cls.__mro__
        for name in _declared_slots(c)
        if name not in {"__dict__", "__weakref__"}
    )


def _declared_slots(cls: type) -> tuple[str, ...]:
    declared = vars(cls).get("__slots__", ())
    return (declared,) if isinstance(declared, str) else tuple(declared)
