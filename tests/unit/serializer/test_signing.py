from __future__ import annotations

import pytest

from flask_jobs.errors import ConfigurationError, MalformedEnvelope
from flask_jobs.serializer import Signer, Unsigned

TEXT = '{"v":1}'
SIGNED = '{"v":1}.gnJeRnz0R0lhtY1bGavTfTgFCOIWdkM78le3XfX7JtU'


def test_what_was_signed_is_verified() -> None:
    signed = Signer("key").sign(TEXT)

    assert signed.startswith(TEXT + ".")
    assert Signer(b"key").verify(signed) == TEXT


def test_any_changed_character_is_noticed() -> None:
    signed = Signer("key").sign(TEXT)

    for place in range(len(signed)):
        changed = signed[:place] + ("x" if signed[place] != "x" else "y") + signed[place + 1 :]
        with pytest.raises(MalformedEnvelope, match="not signed with this app's SECRET_KEY"):
            Signer("key").verify(changed)


def test_a_replaced_key_is_accepted_while_it_is_a_fallback() -> None:
    signed = Signer("old").sign(TEXT)

    assert Signer("new", ["older", "old"]).verify(signed) == TEXT
    with pytest.raises(MalformedEnvelope):
        Signer("new", ["older"]).verify(signed)


def test_signatures_are_those_of_the_versions_before() -> None:
    assert Signer("key").sign(TEXT) == SIGNED


def test_the_newest_key_signs() -> None:
    assert Signer("new", ["old", "older"]).sign(TEXT) == Signer("new").sign(TEXT)


@pytest.mark.parametrize("text", ["", ".", "é.x", "\ud800", '{"v":1}', None, b"bytes"])
def test_what_is_no_signed_text_is_malformed(text: str) -> None:
    with pytest.raises(MalformedEnvelope):
        Signer("key").verify(text)


def test_the_signature_differs_from_those_that_the_app_makes_itself() -> None:
    import itsdangerous

    assert Signer("key").sign(TEXT) != itsdangerous.Signer("key").sign(TEXT).decode()


@pytest.mark.parametrize("key", ["", b"", None, 7])
def test_a_key_that_is_none_is_a_configuration_error(key: str) -> None:
    with pytest.raises(ConfigurationError, match="SECRET_KEY"):
        Signer(key)
    with pytest.raises(ConfigurationError, match="SECRET_KEY_FALLBACKS"):
        Signer("key", [key])


def test_without_signing_jobs_that_were_queued_signed_still_run() -> None:
    assert Unsigned().sign(TEXT) == TEXT
    assert Unsigned().verify(TEXT) == TEXT
    assert Unsigned().verify(Signer("key").sign(TEXT)) == TEXT


def test_with_signing_what_was_queued_unsigned_is_malformed() -> None:
    with pytest.raises(MalformedEnvelope):
        Signer("key").verify(Unsigned().sign(TEXT))
