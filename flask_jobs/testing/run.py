"""Running one job as a worker would, and saying what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from ..driver import Driver
from ..drivers.memory import MemoryDriver
from ..envelope import Ack, Envelope, ErrorRecord, Fail, Release, Reservation, Room, Settlement, instant
from ..errors import InvalidArgument
from ..executor import Executor
from ..ids import new_id
from ..inline import Inline, held
from ..job import Job, require_job
from ..options import WorkerDefaults, check, deadline
from ..outcome import Outcome, Skipped
from ..pushes import Push
from ..state import AppState
from ..validation import count
from ..validation import seconds as as_seconds
from ..worker.alarm import Alarm

_SHOWN = 200
"""How many characters of a long message the repr of a result shows."""


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """What came of one attempt of a job: how it was settled, and what its body did."""

    name: str
    outcome: Outcome
    settlement: Settlement

    @property
    def error(self) -> BaseException | None:
        """The error that came out of the job, if one did."""
        error: BaseException | None = getattr(self.outcome, "error", None)
        return error

    @property
    def delay(self) -> float | None:
        """In how many seconds the job is due again, or None if it is not put back."""
        if not isinstance(self.settlement, Release):
            return None
        at = self.settlement.entry.at
        return instant(self.settlement.due, at) - at

    def assert_done(self) -> None:
        """The job has ended well; one that skipped itself has, too."""
        if not isinstance(self.settlement, Ack):
            raise AssertionError(f"{self.name} is not done: {self}") from self.error

    def assert_skipped(self) -> None:
        """The job has ended quietly, without its body having run to the end."""
        if not isinstance(self.outcome, Skipped):
            raise AssertionError(f"{self.name} was not skipped: {self}") from self.error

    def assert_released(self, delay: float | timedelta | None = None, *, delta: float = 0.5) -> None:
        """The job is put back; due in `delay` (seconds or timedelta) if that is given, within `delta` seconds."""
        if self.delay is None:
            raise AssertionError(f"{self.name} was not put back: {self}") from self.error
        if delay is not None and abs(self.delay - as_seconds(delay, what="delay")) > delta:
            raise AssertionError(f"{self.name} was put back for {self.delay:g} s, not {delay}: {self}") from self.error

    def assert_failed(self) -> None:
        """The job has failed for good."""
        if not isinstance(self.settlement, Fail):
            raise AssertionError(f"{self.name} has not failed for good: {self}") from self.error

    def assert_failed_with(self, error: type[BaseException], match: str = "") -> None:
        """The job has failed for good, with an error of this class whose message contains `match`."""
        self.assert_failed()
        if not isinstance(self.error, error) or match not in str(self.error):
            wanted = f"{error.__name__} with {match!r}" if match else error.__name__
            raise AssertionError(f"{self.name} has not failed with {wanted}: {self}") from self.error

    def __repr__(self) -> str:
        said = str(self)
        return f"<Result {self.name}: {said if len(said) <= _SHOWN else f'{said[:_SHOWN]}…'}>"

    def __str__(self) -> str:
        """The result in one line."""
        match self.settlement:
            case Ack():
                reason = self.outcome.reason if isinstance(self.outcome, Skipped) else ""
                return f"skipped ({reason})" if reason else "done"
            case Release(entry=entry):
                return f"put back for {self.delay:g} s ({entry.event.value}: {entry.reason})"
            case Fail(error=ErrorRecord(type=kind, message=message)):
                return f"failed with {kind}: {message}"


def attempt(
    state: AppState, driver: Driver, reservation: Reservation, connection: str, executor: Executor | None = None
) -> Result:
    """Run the delivery as a worker does, settle it, tell of it, and say what came of it."""
    with state.sessions.set_aside(), Alarm() as alarm:
        inline = Inline(
            driver,
            executor or state.inline_executor(connection),
            state.events(connection),
            timer=alarm,
            defaults=WorkerDefaults(),
        )
        verdict = inline.processor.judge(held(reservation))
        inline.settle(verdict)
    return Result(reservation.envelope.name, verdict.attempt.outcome, verdict.settlement)


def run_once(state: AppState, job: Job, *, attempt_number: int = 1) -> Result:
    """Run one job as a worker would run its attempt of this number; nothing of it stays anywhere."""
    require_job(job)
    check(job)
    state.check(job)
    if count(attempt_number, what="attempt") == 0:
        raise InvalidArgument("attempt must be 1 or more: 1 is the first time that the body starts.")
    settings = state.connections.settings(job.connection)
    name, body = state.serializer.encode(job)
    driver = MemoryDriver(retry_after=settings.retry_after)
    envelope = Envelope(new_id(), name, job.queue or settings.queue, body)
    driver.push([Push(envelope, retry_until=deadline(job))])
    reservation = driver.pop([envelope.queue], new_id(), Room()).reservations[0]
    counters = replace(reservation.counters, attempts=attempt_number, errors=attempt_number - 1)
    executor = state.isolated_executor(settings.name, driver.store)
    return attempt(state, driver, replace(reservation, counters=counters), settings.name, executor)
