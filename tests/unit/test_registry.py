from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from flask_jobs.errors import ConfigurationError, InvalidArgument, NotRegistered, UnknownJob, UnrebuildableJob
from flask_jobs.job import Job, Task, rebuild
from flask_jobs.registry import Registry


class SendInvoice(Job):
    pass


class SendMail(Job):
    pass


class Order:
    pass


class Voucher(Order):
    pass


class Money:
    pass


class Weight:
    pass


@pytest.fixture
def registry() -> Registry:
    return Registry()


def made_anew(cls: type) -> type:
    """The class as it is after its module was reloaded."""
    return type(cls.__name__, cls.__bases__, {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


# Jobs


def test_a_job_is_found_by_its_name_and_knows_it(registry: Registry) -> None:
    assert registry.register("billing.send-invoice")(SendInvoice) is SendInvoice

    assert registry.job_class("billing.send-invoice") is SendInvoice
    assert registry.name_of(SendInvoice) == "billing.send-invoice"
    assert registry.name_of(SendInvoice()) == "billing.send-invoice"
    assert registry.jobs() == {"billing.send-invoice": SendInvoice}


def test_an_alias_finds_the_job_and_is_none_of_its_names(registry: Registry) -> None:
    registry.register("new", aliases=["old", "older"])(SendInvoice)

    assert registry.job_class("older") is SendInvoice
    assert registry.name_of(SendInvoice) == "new"
    assert list(registry.jobs()) == ["new"]


def test_a_name_given_twice_is_an_error_that_names_both_classes(registry: Registry) -> None:
    registry.register("mail")(SendInvoice)

    with pytest.raises(ConfigurationError) as failure:
        registry.register("mail")(SendMail)

    assert "SendInvoice" in str(failure.value)
    assert "SendMail" in str(failure.value)
    assert registry.job_class("mail") is SendInvoice


def test_a_class_has_one_name(registry: Registry) -> None:
    registry.register("mail")(SendMail)

    with pytest.raises(ConfigurationError, match=r"registered as 'mail' already and cannot be 'post', too.*aliases"):
        registry.register("post")(SendMail)


def test_a_reloaded_class_takes_the_place_of_the_old_one(registry: Registry) -> None:
    registry.register("mail", aliases=["post"])(SendMail)
    anew = made_anew(SendMail)

    registry.register("mail", aliases=["letter"])(anew)

    assert registry.job_class("mail") is registry.job_class("letter") is anew
    assert registry.name_of(SendMail) == registry.name_of(anew) == "mail"
    with pytest.raises(UnknownJob):
        registry.job_class("post")


@pytest.mark.parametrize(("name", "aliases"), [("post", ["mail"]), ("post", ["old"]), ("old", []), ("x", ["x"])])
def test_an_alias_that_is_taken_is_an_error(registry: Registry, name: str, aliases: list[str]) -> None:
    registry.register("mail", aliases=["old"])(SendMail)

    with pytest.raises(ConfigurationError, match="alias"):
        registry.register(name, aliases=aliases)(SendInvoice)

    assert registry.jobs() == {"mail": SendMail}


def test_aliases_given_as_one_text_are_refused(registry: Registry) -> None:
    with pytest.raises(InvalidArgument, match=r"aliases=\['old'\]"):
        registry.register("new", aliases="old")(SendMail)


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 121, None, 7])
@pytest.mark.parametrize("kind", ["job", "alias", "task", "model", "codec", "upcast"])
def test_a_name_that_cannot_be_stored_is_refused(registry: Registry, name: Any, kind: str) -> None:
    registrations: dict[str, Callable[[], object]] = {
        "job": lambda: registry.register(name)(SendMail),
        "alias": lambda: registry.register("mail", aliases=[name])(SendMail),
        "task": lambda: registry.task(name)(nightly),
        "model": lambda: registry.model(name)(Order),
        "codec": lambda: registry.codec(Money, name, repr, eval),
        "upcast": lambda: registry.upcast(name, 1),
    }

    with pytest.raises(InvalidArgument, match="is no name to register"):
        registrations[kind]()


@pytest.mark.parametrize(
    ("bare", "said"),
    [
        (lambda registry: registry.register(SendMail), r"@jobs\.register above SendMail needs the name"),
        (lambda registry: registry.task(nightly), r"@jobs\.task above nightly needs the name"),
        (lambda registry: registry.model(Order), r"@jobs\.model above Order needs the name"),
    ],
)
def test_a_decorator_without_its_name_is_refused_where_it_stands(
    registry: Registry, bare: Callable[[Registry], object], said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        bare(registry)


@pytest.mark.parametrize("thing", [Order, SendMail(), 7, lambda: None])
def test_only_a_job_class_is_registered(registry: Registry, thing: Any) -> None:
    with pytest.raises(InvalidArgument, match="is no subclass of Job"):
        registry.register("mail")(thing)


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_version_is_a_whole_number_from_1(registry: Registry, version: Any) -> None:
    cls = type("Versioned", (Job,), {"version": version})

    with pytest.raises(InvalidArgument, match=r"Versioned.version must be a whole number of 1 or more"):
        registry.register("versioned")(cls)


def test_an_unknown_name_says_what_may_be_wrong(registry: Registry) -> None:
    with pytest.raises(UnknownJob, match=r"No job is registered under 'lost'.*aliases"):
        registry.job_class("lost")


def test_a_job_without_a_name_says_what_to_write(registry: Registry) -> None:
    with pytest.raises(NotRegistered, match=r'SendInvoice has no job name. Add @jobs.register\("send-invoice"\) above'):
        registry.name_of(SendInvoice())


def test_a_subclass_does_not_go_by_the_name_of_its_parent(registry: Registry) -> None:
    registry.register("mail")(SendMail)

    class SendLetter(SendMail):
        pass

    with pytest.raises(NotRegistered, match=r"SendLetter has no job name.*'mail' of its parent is not inherited"):
        registry.name_of(SendLetter())


@pytest.mark.parametrize("thing", [Order, 7, None, "mail"])
def test_what_is_no_job_has_no_name(registry: Registry, thing: Any) -> None:
    with pytest.raises(InvalidArgument, match="is no job"):
        registry.name_of(thing)


def test_a_dataclass_is_registered_above_its_decorator(registry: Registry) -> None:
    @registry.register("frozen")
    @dataclass(frozen=True, slots=True)
    class Frozen(Job):
        number: int

    assert registry.name_of(Frozen(1)) == "frozen"


def test_below_a_decorator_that_makes_the_class_anew_the_error_says_so(registry: Registry) -> None:
    @dataclass(slots=True)
    @registry.register("slotted")
    class Slotted(Job):
        number: int

    with pytest.raises(NotRegistered, match=r"made anew.*Put @jobs.register\('slotted'\) above all other decorators"):
        registry.name_of(Slotted(1))


def test_below_a_decorator_that_keeps_the_class_it_works_all_the_same(registry: Registry) -> None:
    @dataclass(frozen=True)
    @registry.register("plain")
    class Plain(Job):
        number: int

    assert registry.name_of(Plain(1)) == "plain"


# Tasks


def nightly(day: str, *, dry: bool = False) -> str:
    """Writes the report of a day."""
    return f"{day} {dry}"


def test_a_function_becomes_a_task(registry: Registry) -> None:
    task = registry.task("reports.nightly", aliases=["nightly"], max_attempts=1, queue="slow")(nightly)

    job = task("monday", dry=True)

    assert isinstance(task, Task)
    assert task.call("monday") == "monday False"
    assert task.__doc__ == "Writes the report of a day."
    assert (job.max_attempts, job.queue, job.arguments) == (1, "slow", {"day": "monday", "dry": True})
    assert registry.name_of(job) == registry.name_of(task) == "reports.nightly"
    assert registry.job_class("nightly") is task.job


def test_the_job_of_a_task_runs_its_function(registry: Registry) -> None:
    calls = []

    @registry.task("plain")
    def plain(number: int) -> None:
        calls.append(number)

    @registry.task("async")
    async def later(number: int) -> None:
        calls.append(number)

    plain(1).handle()
    coroutine: Any = later(2).handle()
    asyncio.run(coroutine)

    assert calls == [1, 2]


def test_a_call_that_the_function_would_not_take_is_refused_at_once(registry: Registry) -> None:
    task: Any = registry.task("reports.nightly")(nightly)

    with pytest.raises(TypeError, match="missing a required argument: 'day'"):
        task()


def plain(first: int, second: int = 2, third: int = 3) -> tuple[int, ...]:
    return first, second, third


def mixed(first: int, /, *rest: int, last: int = 9, **named: int) -> tuple[Any, ...]:
    return first, rest, last, named


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (plain, (1,), {}),
        (plain, (1, 5, 6), {}),
        (plain, (1,), {"third": 6}),
        (plain, (), {"third": 6, "first": 1}),
        (mixed, (1,), {}),
        (mixed, (1, 2, 3), {"last": 4, "more": 5}),
    ],
)
def test_a_task_stores_the_arguments_in_the_order_of_its_parameters_and_passes_them_on(
    registry: Registry, function: Any, args: Any, kwargs: Any
) -> None:
    job = registry.task("some.task")(function)(*args, **kwargs)

    bound = inspect.signature(function).bind(*args, **kwargs).arguments
    assert list(job.arguments.items()) == list(bound.items())
    assert job.called(function) == function(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2, 3, 4), {}), ((1,), {"first": 1}), ((1,), {"fourth": 1}), ((), {"second": 1})]
)
def test_a_call_of_a_task_is_refused_in_the_words_of_python(registry: Registry, args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError) as words:
        inspect.signature(plain).bind(*args, **kwargs)

    with pytest.raises(TypeError, match=re.escape(str(words.value))):
        registry.task("some.task")(plain)(*args, **kwargs)


def test_stored_arguments_are_passed_on_in_whatever_order_they_come_back(registry: Registry) -> None:
    cls = registry.task("some.task")(plain).job

    assert rebuild(cls, {"third": 3, "first": 1, "second": 2}).called(plain) == (1, 2, 3)


def test_an_unknown_option_is_named(registry: Registry) -> None:
    with pytest.raises(InvalidArgument, match="no option 'max_tries'; known are max_attempts, max_exceptions"):
        registry.task("reports.nightly", max_tries=1)


@pytest.mark.parametrize("thing", [Order, SendMail, 7, partial(nightly, "monday")])
def test_only_a_function_is_a_task(registry: Registry, thing: Any) -> None:
    with pytest.raises(InvalidArgument, match="is no function"):
        registry.task("task")(thing)


# Upcasters


def test_an_upcaster_is_found_by_the_name_and_every_alias_of_its_job(registry: Registry) -> None:
    @registry.upcast("old", 1)
    def first(fields: dict[str, Any]) -> dict[str, Any]:
        return fields

    registry.register("new", aliases=["old"])(SendMail)
    second = registry.upcast("new", 2)(lambda fields: fields)

    assert registry.upcaster("new", 1) is registry.upcaster("old", 1) is first
    assert registry.upcaster("old", 2) is second
    assert registry.upcaster("new", 3) is None


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None])
def test_the_version_of_an_upcaster_is_a_whole_number_from_1(registry: Registry, version: Any) -> None:
    with pytest.raises(InvalidArgument, match="from_version"):
        registry.upcast("mail", version)


def test_two_upcasters_for_one_step_are_an_error(registry: Registry) -> None:
    registry.upcast("mail", 1)(lambda fields: fields)

    with pytest.raises(ConfigurationError, match="Two functions are registered to take 'mail' from version 1"):
        registry.upcast("mail", 1)(lambda fields: {})


# Models


def test_a_model_is_found_by_its_name_and_its_rows(registry: Registry) -> None:
    registry.model("order", delete_when_missing=True)(Order)

    model = registry.model_named("order")

    assert (model.name, model.cls, model.delete_when_missing) == ("order", Order, True)
    assert registry.model_of(Order()) is registry.model_of(Order) is model
    assert registry.model_of(Money()) is None


def test_a_subclass_goes_by_the_nearest_registered_model(registry: Registry) -> None:
    registry.model("order")(Order)
    assert registry.model_of(Voucher()) is registry.model_named("order")

    registry.model("voucher")(Voucher)
    assert registry.model_of(Voucher()) is registry.model_named("voucher")


def test_two_models_of_one_name_and_two_names_for_one_model_are_errors(registry: Registry) -> None:
    registry.model("order")(Order)

    with pytest.raises(ConfigurationError, match=r"model name 'order' is given to two classes: .*Order and .*Money"):
        registry.model("order")(Money)
    with pytest.raises(ConfigurationError, match="registered as 'order' already"):
        registry.model("purchase")(Order)


def test_a_stored_name_of_no_model_is_told(registry: Registry) -> None:
    with pytest.raises(UnrebuildableJob, match="No model is registered under 'lost'"):
        registry.model_named("lost")


def test_only_a_class_is_a_model(registry: Registry) -> None:
    with pytest.raises(InvalidArgument, match="is no class"):
        registry.model("order")(Order())  # type: ignore[arg-type]


# Codecs


def test_a_codec_is_found_by_its_name_and_exact_class(registry: Registry) -> None:
    registry.codec(Money, "money", repr, eval)

    codec = registry.codec_of(Money)

    assert codec is registry.codec_named("money") is not None
    assert registry.codec_of(type("Coin", (Money,), {})) is None
    assert registry.codec_named("lost") is None


def test_two_codecs_of_one_name_and_two_names_for_one_class_are_errors(registry: Registry) -> None:
    registry.codec(Money, "money", repr, eval)

    with pytest.raises(ConfigurationError, match="codec name 'money' is given to two classes"):
        registry.codec(Weight, "money", repr, eval)
    with pytest.raises(ConfigurationError, match="registered as 'money' already"):
        registry.codec(Money, "cash", repr, eval)


@pytest.mark.parametrize("cls", [str, dict, int, 7])
def test_a_codec_for_what_is_stored_plainly_is_refused(registry: Registry, cls: Any) -> None:
    with pytest.raises(InvalidArgument, match="A codec is for a class of yours"):
        registry.codec(cls, "text", repr, eval)


def test_a_codec_needs_two_functions(registry: Registry) -> None:
    with pytest.raises(InvalidArgument, match="needs two functions"):
        registry.codec(Money, "money", repr, None)  # type: ignore[arg-type]


def test_an_option_set_on_the_job_of_a_task_is_refused_at_once(registry: Registry) -> None:
    @registry.task("reports.daily")
    def daily(day: int) -> None: ...

    job = daily(1)

    with pytest.raises(AttributeError):
        job.timeout = 5
