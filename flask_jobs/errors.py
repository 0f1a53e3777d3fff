"""Everything the library raises on its own account.

::

    JobsError
    ├── ConfigurationError      a key, a name or the way things are wired is wrong
    │   └── SchemaMissing       the tables are not there yet
    ├── InvalidArgument         bad input to a call (also a ValueError); nothing was sent
    ├── NotRegistered           a job or model class without a registered name
    ├── UnserializableJob       a value that cannot be stored, named by its place
    ├── UnrebuildableJob        stored fields do not fit the class any more
    │   └── NewerVersion        stored by newer code than this
    ├── ModelNotFound           a referenced row is gone
    ├── UnknownJob              a stored name that no class is registered under
    ├── MalformedEnvelope       what is stored cannot be decoded or is not signed by us
    ├── MaxAttemptsExceeded     a limit of the job was used up before its body could run
    ├── WorkerDied              the worker process ended while the job's body ran
    ├── CapabilityMissing       the driver cannot do that
    ├── BatchNotFound           a batch that is not stored, or not any more
    ├── KeyHeld                 a failed job cannot be retried while another one holds its unique key
    ├── StoreRefused            the store answered, and said no (disk full, locked, read-only)
    ├── ConnectionLost          the store did not answer; says what became of a push
    ├── PushFailed              some jobs could not be stored after a commit; names each
    └── NoCurrentJob            `current_job` outside a job

Control flow (`ReleaseJob`, `DiscardJob`, `FailJob`, `JobTimeout`, `JobInterrupted`) lives in `control`:
it is no error, and no ``except Exception`` may swallow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pushes import Package


class JobsError(Exception):
    """The root of every error that the library raises on its own account."""


class ConfigurationError(JobsError):
    """Something is set, named or wired in a way that cannot work; the message names the key."""


class SchemaMissing(ConfigurationError):
    """The tables are missing or of another version; the message says which command makes them."""


class InvalidArgument(JobsError, ValueError):
    """A call was given something it cannot use. Nothing was sent."""


class NotRegistered(JobsError):
    """A job or model class has no registered name; the message says what to write."""


class UnserializableJob(JobsError):
    """A value of the job cannot be stored. The message names its place, never the value."""


class UnrebuildableJob(JobsError):
    """The stored fields cannot be put back into the job's class."""


class NewerVersion(UnrebuildableJob):
    """The stored version is newer than this code; a newer worker can run it."""


class ModelNotFound(JobsError):
    """A row that the job refers to is gone. Waiting would not bring it back.

    `quietly`: its model is registered with ``delete_when_missing``, so that the job ends without failing.
    """

    def __init__(self, message: str, *, quietly: bool = False) -> None:
        super().__init__(message)
        self.quietly = quietly


class UnknownJob(JobsError):
    """No class is registered under the stored name."""


class MalformedEnvelope(JobsError):
    """What is stored is not an envelope of ours: cut, not JSON, of a newer format, or not signed."""


class MaxAttemptsExceeded(JobsError):
    """A limit of the job was used up before its body could run again."""


class WorkerDied(JobsError):
    """The worker process ended while the job's body ran; the message says how."""


class CapabilityMissing(JobsError):
    """The connection's driver cannot do what was asked."""


class BatchNotFound(JobsError):
    """The batch is not stored: its transaction is open or was rolled back, or it was pruned."""


class KeyHeld(JobsError):
    """A failed job cannot be retried, for another job holds its unique key by now. `holder` is that job's id."""

    def __init__(self, message: str, *, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class StoreRefused(JobsError):
    """The store answered and refused (disk full, locked, read-only). Nothing was written."""


class Stored(Enum):
    """What is known of a push that failed."""

    YES = "stored"
    NO = "not stored"
    UNKNOWN = "unknown"


class ConnectionLost(JobsError):
    """The store did not answer within its limit.

    `stored` says what became of a push: when it is `Stored.UNKNOWN`, pushing again with the same id is safe.
    """

    def __init__(self, message: str, *, stored: Stored = Stored.NO) -> None:
        super().__init__(message)
        self.stored = stored


class PushFailed(JobsError):
    """Jobs that waited for a commit could not be stored after it. The commit itself stands.

    `packages` are the jobs, chains and batches that are not (or not surely) stored, ready to be pushed again with
    `Jobs.push_again`; `ids` are their ids, of a chain that of its first link; `causes` the error of each connection.
    """

    def __init__(
        self, message: str, *, packages: Sequence[Package], ids: Sequence[str], causes: Sequence[BaseException]
    ) -> None:
        super().__init__(message)
        self.packages = tuple(packages)
        self.ids = tuple(ids)
        self.causes = tuple(causes)


class NoCurrentJob(JobsError, RuntimeError):
    """`current_job` was used where no job is running."""
