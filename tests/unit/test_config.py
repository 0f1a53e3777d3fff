from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from flask_jobs import config
from flask_jobs.errors import ConfigurationError, InvalidArgument


def keys_of(driver: str) -> Collection[str]:
    known = {"database": {"url", "engine"}, "redis": {"url"}, "sync": set()}
    if driver not in known:
        raise ConfigurationError(f"There is no driver {driver!r}.")
    return known[driver]


def read(**settings: object) -> config.Config:
    return config.read(settings, keys_of)


async def later() -> bool:
    return True


def test_without_configuration_jobs_live_in_the_database() -> None:
    settings = read().connection(None)

    assert (settings.name, settings.driver, settings.queue) == ("database", "database", "default")
    assert (settings.retry_after, settings.renew, settings.after_commit) == (90.0, True, True)


def test_a_given_connection_is_merged_over_its_default_key_by_key() -> None:
    settings = read(JOBS_CONNECTIONS={"database": {"queue": "mail"}}).connection("database")

    assert settings.queue == "mail"
    assert settings.options == {"url": None}


def test_other_keys_of_the_app_are_none_of_our_business() -> None:
    assert read(SECRET_KEY="x", JOBS="mine").default == "database"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"JOBS_CONECTIONS": {}}, "Did you mean 'JOBS_CONNECTIONS'"),
        ({"JOBS_DEFAULT": "redsi"}, "JOBS_DEFAULT names the connection 'redsi'"),
        ({"JOBS_CONNECTIONS": []}, "JOBS_CONNECTIONS must be a dict"),
        ({"JOBS_CONNECTIONS": {"database": "sqlite://"}}, r"JOBS_CONNECTIONS\['database'\] must be a dict"),
        ({"JOBS_CONNECTIONS": {"database": {"ulr": "x"}}}, "no setting 'ulr'. Did you mean 'url'"),
        ({"JOBS_CONNECTIONS": {"mail": {}}}, r"JOBS_CONNECTIONS\['mail'\] needs a \"driver\""),
        ({"JOBS_CONNECTIONS": {"databaze": {}}}, r"needs a \"driver\".* Did you mean 'database'\?"),
        ({"JOBS_CONNECTIONS": {"database": {"prefetch": 0}}}, r"\['prefetch'\] is \"auto\" or how many"),
        ({"JOBS_CONNECTIONS": {"database": {"prefetch": True}}}, r"\['prefetch'\] is"),
        ({"JOBS_CONNECTIONS": {"database": {"prefetch": "all"}}}, r"\['prefetch'\] is"),
        ({"JOBS_CONNECTIONS": {"mail": {"driver": "smoke"}}}, r"\['driver'\]: There is no driver 'smoke'"),
        ({"JOBS_CONNECTIONS": {"database": {"retry_after": -1}}}, r"\['retry_after'\] must be a finite number"),
        ({"JOBS_CONNECTIONS": {"database": {"retry_after": 0}}}, r"\['retry_after'\] must be more than 0"),
        ({"JOBS_CONNECTIONS": {"database": {"retry_after": float("nan")}}}, r"\['retry_after'\]"),
        ({"JOBS_CONNECTIONS": {"database": {"renew": "yes"}}}, r"\['renew'\] must be True or False"),
        ({"JOBS_CONNECTIONS": {"database": {"queue": "a b"}}}, r"\['queue'\]: 'a b' is no queue name"),
        ({"JOBS_CONNECTIONS": {"database": {"clock": "sun"}}}, r"\['clock'\] is"),
        ({"JOBS_STORE": "sync"}, "JOBS_STORE names the store 'sync'"),
        ({"JOBS_SIGN": 0}, "JOBS_SIGN must be True or False"),
        ({"JOBS_MAX_PAYLOAD": "1MB"}, "JOBS_MAX_PAYLOAD must be a whole number"),
        ({"JOBS_BASE_URL": "shop.example"}, "JOBS_BASE_URL must be like"),
        ({"JOBS_BASE_URL": "https://"}, "JOBS_BASE_URL must be like"),
        ({"JOBS_BASE_URL": "https:///shop"}, "JOBS_BASE_URL must be like"),
        ({"JOBS_BASE_URL": "http://[::1"}, "JOBS_BASE_URL must be like"),
        ({"JOBS_BASE_URL": "ftp://shop.example"}, "JOBS_BASE_URL must be like"),
        ({"JOBS_MAINTENANCE": 1}, "JOBS_MAINTENANCE must be True, False, or a plain function"),
        ({"JOBS_MAINTENANCE": "true"}, "JOBS_MAINTENANCE must be"),
        ({"JOBS_MAINTENANCE": None}, "JOBS_MAINTENANCE must be"),
        ({"JOBS_MAINTENANCE": lambda app: True}, "JOBS_MAINTENANCE must be"),
        ({"JOBS_MAINTENANCE": later}, "JOBS_MAINTENANCE must be"),
        ({"JOBS_BASE_URL": 7}, "JOBS_BASE_URL must be like"),
    ],
)
def test_what_cannot_work_is_refused_and_the_key_is_named(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read(**settings)


@pytest.mark.parametrize("value", [True, False])
def test_maintenance_can_be_said_once(value: bool) -> None:
    assert read(JOBS_MAINTENANCE=value).maintenance() is value


def test_without_configuration_there_is_no_maintenance() -> None:
    assert read().maintenance() is False


def test_maintenance_can_be_asked_anew_each_time() -> None:
    answers = iter([True, False])

    maintenance = read(JOBS_MAINTENANCE=lambda: next(answers)).maintenance

    assert [maintenance(), maintenance()] == [True, False]


def test_a_function_for_maintenance_may_have_arguments_that_nobody_needs_to_give(tmp_path: Path) -> None:
    def closed(flag: Path = tmp_path / "closed") -> bool:
        return flag.exists()

    assert read(JOBS_MAINTENANCE=closed).maintenance() is False
    assert read(JOBS_MAINTENANCE=tmp_path.exists).maintenance() is True


def test_what_a_function_for_maintenance_raises_reaches_whoever_asks() -> None:
    def closed() -> bool:
        raise OSError("the flag cannot be read")

    maintenance = read(JOBS_MAINTENANCE=closed).maintenance

    with pytest.raises(OSError, match="the flag cannot be read"):
        maintenance()


def test_an_unknown_connection_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="no connection 'redsi'; known are database, redis, sync"):
        read().connection("redsi")


def test_another_driver_under_a_known_name_inherits_no_keys_of_the_old_one() -> None:
    settings = read(JOBS_CONNECTIONS={"database": {"driver": "sync"}}).connection("database")

    assert settings.options == {}
