"""The names under which jobs, models and value types are stored.

A stored name outlives the class that it was written for, so names are append-only: what moves or is renamed in the
code keeps its name here, and a name that is replaced stays as an alias.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from .errors import ConfigurationError, InvalidArgument, NotRegistered, UnknownJob, UnrebuildableJob
from .job import Job, Task, task_job
from .limiters import Limiters
from .validation import job_name as checked_name
from .validation import require_called

P = ParamSpec("P")
R = TypeVar("R")
J = TypeVar("J", bound=Job)
T = TypeVar("T")
Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
U = TypeVar("U", bound=Upcaster)

OPTIONS = (*Job.__annotations__, "unique_id")
"""The options that a job class, and so `task()`, may set."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model class and its stored name. `delete_when_missing`: a job whose row is gone ends quietly."""

    name: str
    cls: type
    delete_when_missing: bool = False


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """How a value type is written by hand: `encode` to something storable, `decode` back."""

    name: str
    cls: type
    encode: Callable[[Any], object]
    decode: Callable[[Any], object]


class _Names:
    """Which class stands under which name, one each. `what` says what kind of class, for the messages."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.classes: dict[str, type] = {}
        self.names: dict[type, str] = {}

    def add(self, name: str, cls: type) -> None:
        checked_name(name)
        known = self.classes.get(name)
        if known is not None and not _is_reload(known, cls):
            raise ConfigurationError(
                f"The {self.what} name {name!r} is given to two classes: {_path(known)} and {_path(cls)}. "
                "Give one of them another name."
            )
        other = self.names.get(cls, name)
        if other != name:
            raise ConfigurationError(
                f"{_path(cls)} is registered as {other!r} already and cannot be {name!r}, too. "
                "Names that are no longer written belong into aliases."
            )
        self.classes[name] = cls
        self.names[cls] = name


class JobNames:
    """The registered jobs, their aliases and the steps between their versions."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = _Names("job")
        self._aliases: dict[str, str] = {}
        self._upcasters: dict[tuple[str, int], Upcaster] = {}

    def register(self, name: str, *, aliases: Sequence[str] = ()) -> Callable[[type[J]], type[J]]:
        """Give a job class its stored name; jobs stored under one of the `aliases` are its own, too.

        Stands above all other decorators of the class, `@dataclass` included. The same class registered anew
        under the same name, as a reloaded module does, takes the place of the old one.
        """
        require_called(name, "@jobs.register")

        def add(cls: type[J]) -> type[J]:
            if not (isinstance(cls, type) and issubclass(cls, Job)):
                raise InvalidArgument(f"{name!r} cannot be registered: {_described(cls)} is no subclass of Job.")
            self._check_version(cls)
            self._add(name, cls, aliases)
            return cls

        return add

    def task(
        self, name: str, *, aliases: Sequence[str] = (), **options: object
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a job of a function: calling it gives the job, its `call` runs the function plainly.

        `options` are the options of a job class, such as ``max_attempts=1``.
        """
        require_called(name, "@jobs.task")
        for option in options:
            if option not in OPTIONS:
                raise InvalidArgument(f"A job has no option {option!r}; known are {', '.join(OPTIONS)}.")

        def add(function: Callable[P, R]) -> Task[P, R]:
            if not inspect.isfunction(function):
                raise InvalidArgument(f"{name!r} cannot be a task: {_described(function)} is no function.")
            cls = self.register(name, aliases=aliases)(task_job(function, options))
            return Task(function, cls)

        return add

    def upcast(self, job_name: str, from_version: int) -> Callable[[U], U]:
        """Register the step from stored fields of `from_version` to those of the next version."""
        checked_name(job_name)
        if type(from_version) is not int or from_version < 1:
            raise InvalidArgument(f"from_version must be a whole number of 1 or more, not {from_version!r}.")

        def add(function: U) -> U:
            known = self._upcasters.get((job_name, from_version), function)
            if not _is_reload(known, function):
                raise ConfigurationError(
                    f"Two functions are registered to take {job_name!r} from version {from_version}: "
                    f"{_path(known)} and {_path(function)}."
                )
            self._upcasters[job_name, from_version] = function
            return function

        return add

    def jobs(self) -> dict[str, type[Job]]:
        """All registered jobs by name, aliases left out."""
        return dict(self._jobs.classes)

    def job_class(self, name: str) -> type[Job]:
        """The class of a stored name or alias, or `UnknownJob`."""
        found = self._jobs.classes.get(name) or self._jobs.classes.get(self._aliases.get(name, name))
        if found is None:
            raise UnknownJob(
                f"No job is registered under {name!r}. Is the module with its class imported when the app is made? "
                "If it was renamed, register the new name with the old one in aliases."
            )
        return found

    def name_of(self, job: Job | type[Job] | Task[..., Any]) -> str:
        """The registered name of a job, of its class or of a task, or `NotRegistered`.

        A subclass has its parent's code, but not its name.
        """
        cls = job.job if isinstance(job, Task) else job if isinstance(job, type) else type(job)
        name = self._jobs.names.get(cls)
        if name is None:
            raise self._nameless(cls)
        return name

    def upcaster(self, job_name: str, from_version: int) -> Upcaster | None:
        """The step from this version to the next, whether it is registered under the job's name or an alias."""
        name = self._aliases.get(job_name, job_name)
        known_as = [name, *(alias for alias, target in self._aliases.items() if target == name)]
        steps = (self._upcasters.get((known, from_version)) for known in known_as)
        return next((step for step in steps if step is not None), None)

    def _add(self, name: str, cls: type[Job], aliases: Sequence[str]) -> None:
        if isinstance(aliases, str):
            raise InvalidArgument(f"aliases must be a list of names, not one: aliases=[{aliases!r}].")
        for alias in aliases:
            self._check_alias(checked_name(alias), name)
        if name in self._aliases:
            raise ConfigurationError(f"{name!r} is an alias of the job {self._aliases[name]!r} already.")
        self._jobs.add(name, cls)
        kept = {alias: target for alias, target in self._aliases.items() if target != name}
        self._aliases = kept | dict.fromkeys(aliases, name)

    def _check_alias(self, alias: str, name: str) -> None:
        owner = alias if alias in self._jobs.classes else self._aliases.get(alias, name)
        if owner != name or alias == name:
            raise ConfigurationError(f"{alias!r} cannot be an alias of {name!r}: it names the job {owner!r} already.")

    def _check_version(self, cls: type[Job]) -> None:
        if type(cls.version) is not int or cls.version < 1:
            raise InvalidArgument(f"{_path(cls)}.version must be a whole number of 1 or more, not {cls.version!r}.")

    def _nameless(self, cls: object) -> NotRegistered | InvalidArgument:
        if not (isinstance(cls, type) and issubclass(cls, Job)):
            return InvalidArgument(f"{_described(cls)} is no job: a job is an instance of a registered Job class.")
        twin = next((name for known, name in self._jobs.names.items() if _is_reload(known, cls)), None)
        if twin is not None:
            return NotRegistered(
                f"{_path(cls)} was made anew after it had been registered as {twin!r}. "
                f"Put @jobs.register({twin!r}) above all other decorators, @dataclass(slots=True) included."
            )
        parent = next((self._jobs.names[c] for c in cls.__mro__ if c in self._jobs.names), None)
        inherited = f" The name {parent!r} of its parent is not inherited." if parent else ""
        return NotRegistered(
            f'{cls.__qualname__} has no job name. Add @jobs.register("{kebab(cls)}") above it.{inherited}'
        )


class ModelNames:
    """The registered models."""

    def __init__(self) -> None:
        super().__init__()
        self._models = _Names("model")
        self._by_name: dict[str, Model] = {}

    def model(self, name: str, *, delete_when_missing: bool = False) -> Callable[[type[T]], type[T]]:
        """Give a model class its stored name, so that jobs can hold its rows. Holds for its subclasses, too.

        `delete_when_missing`: a job whose row is gone when it is to run ends quietly instead of failing.
        """
        require_called(name, "@jobs.model")

        def add(cls: type[T]) -> type[T]:
            if not isinstance(cls, type):
                raise InvalidArgument(f"{name!r} cannot be registered: {_described(cls)} is no class.")
            self._models.add(name, cls)
            self._by_name[name] = Model(name, cls, delete_when_missing)
            return cls

        return add

    def model_named(self, name: str) -> Model:
        """The model of a stored name, or `UnrebuildableJob`."""
        found = self._by_name.get(name)
        if found is None:
            raise UnrebuildableJob(
                f"No model is registered under {name!r}. Is its module imported when the app is made?"
            )
        return found

    def model_of(self, obj: object) -> Model | None:
        """The registered model of an instance or a class: its own, or that of the nearest parent."""
        cls = obj if isinstance(obj, type) else type(obj)
        names = self._models.names
        return next((self._by_name[names[c]] for c in cls.__mro__ if c in names), None)


class ValueCodecs:
    """The value types that are written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self._codecs = _Names("codec")
        self._by_class: dict[type, ValueCodec] = {}

    def codec(self, cls: type[T], name: str, encode: Callable[[T], object], decode: Callable[[Any], T]) -> None:
        """Store values of exactly this class as what `encode` gives; `decode` makes the value of it again.

        What `encode` gives may be of any storable kind, values with codecs of their own included.
        """
        if not isinstance(cls, type) or cls.__module__ == "builtins":
            raise InvalidArgument(f"A codec is for a class of yours, not for {_described(cls)}.")
        if not (callable(encode) and callable(decode)):
            raise InvalidArgument(f"The codec {name!r} needs two functions: encode and decode.")
        self._codecs.add(name, cls)
        self._by_class[cls] = ValueCodec(name, cls, encode, decode)

    def codec_of(self, cls: type) -> ValueCodec | None:
        """The codec of exactly this class."""
        return self._by_class.get(cls)

    def codec_named(self, name: str) -> ValueCodec | None:
        """The codec of a stored name."""
        cls = self._codecs.classes.get(name)
        return None if cls is None else self._by_class[cls]


class Registry(JobNames, ModelNames, ValueCodecs, Limiters):
    """All names of one `Jobs` object, shared by the apps that it serves. Filled while modules are imported."""


def kebab(cls: type) -> str:
    """The class's name as it would be written in a stored name: ``SendInvoice`` is ``send-invoice``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()


def _is_reload(known: Any, new: Any) -> bool:
    if known.__qualname__.rpartition(".")[2] in {"_", "<lambda>"}:
        return known is new  # not a name: two of these are two things
    return _path(known) == _path(new)


def _path(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _described(thing: object) -> str:
    if isinstance(thing, type) or inspect.isroutine(thing):
        return repr(getattr(thing, "__qualname__", type(thing).__qualname__))
    return f"an object of type {type(thing).__qualname__}"
