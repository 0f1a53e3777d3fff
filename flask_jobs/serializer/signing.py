"""Signatures, so that whoever can write to the store still cannot make a worker run anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import itsdangerous

from ..errors import ConfigurationError, MalformedEnvelope

# Separates these signatures from all others that the app makes with the same secret key.
_SALT = b"flask_jobs.envelope"

Key = str | bytes


class Signer:
    """Signs with HMAC-SHA256 and the secret key; accepts what was signed with it or one of the fallbacks.

    The keys are derived from the secrets once, here.
    """

    def __init__(self, secret_key: Key, fallbacks: Sequence[Key] = ()) -> None:
        keys = [_derived(key) for key in (*reversed(list(fallbacks)), secret_key)]
        self._signer = itsdangerous.Signer(keys, key_derivation="none", digest_method=hashlib.sha256)

    def sign(self, text: str) -> str:
        """The text with its signature, as ``<text>.<signature>``. The text is ASCII."""
        return self._signer.sign(text).decode("ascii")

    def verify(self, text: str) -> str:
        """The text that was signed, or `MalformedEnvelope`."""
        _check_ascii(text)
        try:
            return self._signer.unsign(text).decode("ascii")
        except itsdangerous.BadSignature:
            raise MalformedEnvelope(
                "The payload is not signed with this app's SECRET_KEY, nor with one of SECRET_KEY_FALLBACKS: it was "
                "cut or changed, written by another app, or the key was replaced without keeping the old one there."
            ) from None


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
