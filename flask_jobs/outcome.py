"""What happened in one attempt. The executor says it, the policy judges it."""

from __future__ import annotations

from .errors import MaxAttemptsExceeded, WorkerDied
from .values import value


@value
class Done:
    """The body returned."""


@value
class Skipped:
    """The job ended quietly: by a middleware, by itself, or with its model."""

    reason: str


@value
class Released:
    """The job asked to be put back. `started`: its body had been entered, and not because of a stop; `spends`: it costs
    an attempt anyway."""

    delay: float
    reason: str
    started: bool
    spends: bool = False


@value
class Raised:
    """An error came out of the body, a middleware or the rebuilding."""

    error: BaseException


@value
class TimedOut:
    """The attempt reached its limit of so many seconds. `ended`: its process had to be ended for it."""

    limit: float
    error: BaseException
    ended: bool = False


@value
class Interrupted:
    """The worker had to go and cut the attempt short."""

    reason: str


@value
class Died:
    """The worker process ended while the body ran, and not because it was to."""

    error: WorkerDied


@value
class Hopeless:
    """No further attempt could help: undecodable, a row gone, or failed by the job itself."""

    error: BaseException


@value
class Refused:
    """The body was not entered: a limit of the job had been used up before (see `policy.refuse`)."""

    error: MaxAttemptsExceeded


@value
class Unknown:
    """This worker's code has no class of that name; another's may."""

    error: BaseException


@value
class Newer:
    """The stored version is newer than this worker's code."""

    error: BaseException


Outcome = Done | Skipped | Released | Raised | TimedOut | Interrupted | Died | Hopeless | Refused | Unknown | Newer
