"""Signatures, so that whoever can write to the store still cannot make a worker run anything."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

import itsdangerous

from ..errors import ConfigurationError, MalformedEnvelope

# Separates these signatures from all others that the app makes with the same secret key.
_SALT = b"flask_jobs.envelope"

Key = str | bytes


class Signer:
    """Signs with HMAC-SHA256 and the secret key; accepts what was signed with it or one of the fallbacks.

    The keys are derived from the secrets once, here, and what HMAC makes of a key before any text is made once, too:
    each signature begins with a copy of it.
    """

    def __init__(self, secret_key: Key, fallbacks: Sequence[Key] = ()) -> None:
        keys = [_derived(key) for key in (secret_key, *fallbacks)]
        self._begun = [hmac.new(key, digestmod=hashlib.sha256) for key in keys]

    def sign(self, text: str) -> str:
        """The text with its signature, as ``<text>.<signature>``. The text is ASCII."""
        return f"{text}.{_signature(self._begun[0], text)}"

    def verify(self, text: str) -> str:
        """The text that was signed, or `MalformedEnvelope`."""
        _check_ascii(text)
        signed, _, signature = text.rpartition(".")
        for begun in self._begun:
            if hmac.compare_digest(_signature(begun, signed), signature):
                return signed
        raise MalformedEnvelope(
            "The payload is not signed with this app's SECRET_KEY, nor with one of SECRET_KEY_FALLBACKS: it was "
            "cut or changed, written by another app, or the key was replaced without keeping the old one there."
        )


class Unsigned:
    """Signs nothing and believes everything: whoever can write to the store can run any registered job.

    It accepts signed payloads as well, without looking at their signatures, so that jobs which were queued before
    signing was turned off still run. The other way round, a `Signer` refuses what was stored unsigned, for it could
    not be told from a forgery: let the queues run empty before signing is turned on.
    """

    def sign(self, text: str) -> str:
        """The text as it is."""
        return text

    def verify(self, text: str) -> str:
        """The text, without a signature if it has one."""
        _check_ascii(text)
        # A payload ends with a brace, which no signature holds.
        return text if text.endswith("}") else text.rpartition(".")[0]


Signing = Signer | Unsigned


def _signature(begun: hmac.HMAC, text: str) -> str:
    signing = begun.copy()
    signing.update(text.encode("ascii"))
    return base64.urlsafe_b64encode(signing.digest()).rstrip(b"=").decode("ascii")


def _derived(key: Key) -> bytes:
    if not isinstance(key, str | bytes) or not key:
        raise ConfigurationError(
            "SECRET_KEY and each of SECRET_KEY_FALLBACKS must be a non-empty string or bytes, "
            f"not {'empty' if isinstance(key, str | bytes) else type(key).__name__}."
        )
    deriving = itsdangerous.Signer(key, salt=_SALT, key_derivation="hmac", digest_method=hashlib.sha256)
    return deriving.derive_key()


def _check_ascii(text: object) -> None:
    if not isinstance(text, str) or not text.isascii():
        raise MalformedEnvelope("The payload is not ASCII text, so it was not written by this library.")
