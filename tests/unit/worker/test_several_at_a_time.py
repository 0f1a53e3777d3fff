"""A worker that is watched takes short jobs several at a time, and keeps none of them from the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from flask_jobs import clock
from flask_jobs.control import current_job
from flask_jobs.envelope import Counters
from flask_jobs.slate import Slate, State
from flask_jobs.slate.layout import HEADER, LANE
from flask_jobs.stored import Sizes
from flask_jobs.worker import Post, Stop, Worker
from flask_jobs.worker.means import MOST, Means

from ..support.bench import Bench, lost


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


@pytest.fixture
def slate() -> Slate:
    return Slate(bytearray(HEADER + LANE), 1)


@pytest.fixture
def watched(bench: Bench, slate: Slate) -> Callable[..., Worker]:
    """Makes a worker that notes on the slate what it does."""

    def make(**settings: object) -> Worker:
        return bench.worker(post=Post(lane=slate.lane(0)), **settings)

    return make


Watched = Callable[..., Worker]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job is taken to be short, however busy the machine is, once one of its name has run."""
    note = Means.note
    monkeypatch.setattr(Means, "note", lambda self, name, seconds: note(self, name, 0.0001))


@pytest.fixture
def patient(known: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes back because something takes too long."""
    monkeypatch.setattr("flask_jobs.worker.hand._PATIENCE", 60.0)


def eventually(condition: Callable[[], bool]) -> None:
    ends = clock.monotonic() + 10
    while not condition():
        assert clock.monotonic() < ends, "It never came true."
        time.sleep(0.002)


class Script:
    """The body of jobs that do what is written here for the one that is the n-th to run; the others do nothing."""

    def __init__(self, bench: Bench, **members: object) -> None:
        self.ran: list[str] = []
        self.at: dict[int, Callable[[], object]] = {}
        bench.knows("demo", lambda job: self._run(), **members)

    def _run(self) -> None:
        self.ran.append(current_job.id)
        self.at.get(len(self.ran), lambda: None)()


@pytest.mark.usefixtures("patient")
def test_short_jobs_are_taken_together_once_it_is_known_that_they_are_short(bench: Bench, watched: Watched) -> None:
    script = Script(bench)
    ids = [bench.store.add("demo") for _ in range(MOST)]

    reason = watched().run()

    assert reason is Stop.EMPTY
    assert script.ran == ids
    assert bench.store.calls == ["pop", "exchange", "exchange"]
    assert bench.store.size("default") == Sizes()
    assert bench.signals().count("job-processed") == MOST


def test_long_jobs_are_taken_alone(bench: Bench, watched: Watched) -> None:
    bench.knows("demo", lambda self: time.sleep(0.03))
    for _ in range(3):
        bench.store.add("demo")

    watched().run()

    assert bench.store.calls == ["pop", "exchange", "exchange", "exchange"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("settings", [{"prefetch": 1}, {"once": True, "stop_when_empty": False}])
def test_where_it_is_so_wanted_all_are_taken_alone(bench: Bench, watched: Watched, settings: dict[str, object]) -> None:
    script = Script(bench)
    for _ in range(3):
        bench.store.add("demo")

    watched(**settings).run()

    taken = [call for call in bench.store.calls if call in ("pop", "exchange")]
    assert len(taken) == len(script.ran) + ("once" not in settings)


@pytest.mark.usefixtures("patient")
def test_a_job_can_ask_to_be_taken_alone(bench: Bench, watched: Watched) -> None:
    Script(bench, prefetch=1)
    for _ in range(3):
        bench.store.add("demo")

    watched().run()

    assert bench.store.calls == ["pop", "exchange", "exchange", "exchange"]


def test_a_worker_that_nobody_watches_takes_one_at_a_time(bench: Bench) -> None:
    Script(bench)
    for _ in range(3):
        bench.store.add("demo")

    bench.work()

    assert bench.store.calls == ["pop", "exchange", "exchange", "exchange"]


@pytest.mark.usefixtures("patient")
def test_a_failure_is_settled_at_once_with_what_ended_before_it(bench: Bench, watched: Watched) -> None:
    script = Script(bench, backoff=30)
    ids = [bench.store.add("demo") for _ in range(5)]
    open_then: list[Sizes] = []

    def fail() -> None:
        raise ValueError

    script.at[3] = fail
    script.at[4] = lambda: open_then.append(bench.store.size("default"))

    watched().run()

    assert script.ran == ids
    assert bench.store.calls == ["pop", "exchange", "settle", "exchange"]
    assert open_then == [Sizes(reserved=2, delayed=1)]
    assert bench.store.size("default") == Sizes(delayed=1)


def behind_a_long_one(bench: Bench, script: Script, until: Callable[[], bool]) -> list[str]:
    """Add a job that makes the mean known, one before the long one, the long one and three behind it."""
    script.at[3] = lambda: eventually(until)
    return [bench.store.add("demo") for _ in range(6)]


@pytest.mark.usefixtures("known")
def test_what_waits_behind_a_long_job_goes_back_and_what_was_finished_is_settled(
    bench: Bench, watched: Watched
) -> None:
    script = Script(bench)
    ids = behind_a_long_one(bench, script, lambda: bench.store.size("default") == Sizes(ready=3, reserved=1))

    watched().run()

    assert script.ran == ids
    assert bench.store.size("default") == Sizes()
    assert bench.signals().count("job-processed") == 6
    assert "recover" in bench.store.calls


@pytest.mark.usefixtures("known")
def test_what_went_back_is_charged_to_nobody_and_others_may_have_it(bench: Bench, watched: Watched) -> None:
    script = Script(bench)
    elsewhere: list[tuple[str, Counters]] = []

    def all_three() -> bool:
        while bench.store.size("default").ready and len(elsewhere) < 3:
            (held,) = bench.store.pop(["default"], f"other-{len(elsewhere)}", Means().room(1)).reservations
            elsewhere.append((held.envelope.id, held.counters))
        return len(elsewhere) == 3

    ids = behind_a_long_one(bench, script, all_three)

    watched().run()

    assert script.ran == ids[:3]
    assert elsewhere == [(job_id, Counters(attempts=1)) for job_id in ids[3:]]
    assert bench.store.size("default") == Sizes(reserved=3)


@pytest.mark.usefixtures("known")
def test_what_may_have_gone_back_is_not_run_though_the_answer_was_lost(
    bench: Bench, slate: Slate, watched: Watched
) -> None:
    script = Script(bench)
    bench.store.after["recover"] = [lost()]
    taken: list[str] = []

    def another_has_one() -> bool:
        if bench.store.size("default").ready and not taken:
            (held,) = bench.store.pop(["default"], "other", Means().room(1)).reservations
            taken.append(held.envelope.id)
        return bool(taken)

    ids = behind_a_long_one(bench, script, another_has_one)

    watched().run()

    assert taken == [ids[3]]
    assert script.ran == [*ids[:3], *ids[4:]]
    assert bench.store.calls.count("recover") == 2
    assert bench.store.size("default") == Sizes(reserved=1)


@pytest.mark.usefixtures("known")
def test_what_was_finished_is_settled_once_though_the_answer_was_lost(bench: Bench, watched: Watched) -> None:
    script = Script(bench)
    bench.store.after["settle"] = [lost()]
    ids = behind_a_long_one(bench, script, lambda: bench.store.calls.count("settle") == 2)

    watched().run()

    assert script.ran == ids
    assert bench.signals().count("job-processed") == 6
    assert "settlement-lost" not in bench.signals()


@pytest.mark.usefixtures("known")
def test_the_last_of_several_is_settled_for_when_it_takes_long(bench: Bench, watched: Watched) -> None:
    script = Script(bench)
    ids = [bench.store.add("demo") for _ in range(4)]
    script.at[4] = lambda: eventually(lambda: bench.store.size("default") == Sizes(reserved=1))

    watched().run()

    assert script.ran == ids
    assert "recover" not in bench.store.calls
    assert bench.signals().count("job-processed") == 4


@pytest.mark.usefixtures("patient")
def test_a_stop_puts_back_what_has_not_begun(bench: Bench, watched: Watched) -> None:
    script = Script(bench)
    ids = [bench.store.add("demo") for _ in range(6)]
    worker = watched(stop_when_empty=False)
    script.at[3] = worker.stop

    reason = worker.run()

    assert reason is Stop.SIGNAL
    assert script.ran == ids[:3]
    assert bench.store.size("default") == Sizes(ready=3)
    assert [bench.store.find(job_id).counters for job_id in ids[3:]] == [Counters()] * 3  # type: ignore[union-attr]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("name", ["max_jobs", "recycle_after"])
def test_no_more_are_taken_than_it_is_to_run(bench: Bench, watched: Watched, name: str, limit: int) -> None:
    script = Script(bench)
    ids = [bench.store.add("demo") for _ in range(6)]

    watched(**{name: limit}).run()

    assert script.ran == ids[:limit]
    assert bench.store.size("default") == Sizes(ready=6 - limit)
    assert "recover" not in bench.store.calls


@pytest.mark.usefixtures("patient")
def test_a_pause_puts_back_what_has_not_begun(bench: Bench, slate: Slate) -> None:
    script, is_paused = Script(bench), threading.Event()
    ids = [bench.store.add("demo") for _ in range(5)]
    worker = bench.worker(
        post=Post(lane=slate.lane(0), is_held_back=is_paused.is_set), stop_when_empty=False, max_time=0.2, sleep=0.05
    )
    script.at[2] = is_paused.set

    worker.run()

    assert script.ran == ids[:2]
    assert bench.store.size("default") == Sizes(ready=3)


@pytest.mark.usefixtures("patient")
def test_the_slate_tells_the_finished_the_running_and_the_waiting_apart(
    bench: Bench, slate: Slate, watched: Watched
) -> None:
    script, seen = Script(bench), []
    for _ in range(5):
        bench.store.add("demo")
    script.at[3] = lambda: seen.append([held.state for held in slate.view(0).held])

    watched().run()

    assert seen == [[State.DONE, State.STARTED, State.HELD, State.HELD]]


@pytest.mark.usefixtures("patient")
def test_a_bug_between_two_of_them_runs_none_twice(bench: Bench, watched: Watched) -> None:
    script = Script(bench)
    ids = [bench.store.add("demo") for _ in range(5)]
    worker = watched()
    judge = worker._processor.judge

    def broken(delivery: object) -> object:
        verdict = judge(delivery)  # type: ignore[arg-type]
        if len(script.ran) == 3:
            raise KeyError("a bug")
        return verdict

    worker._processor.judge = broken  # type: ignore[method-assign,assignment]

    worker.run()

    assert script.ran == ids
    assert bench.store.size("default") == Sizes(reserved=1)


def test_a_mean_follows_what_jobs_take() -> None:
    means = Means()
    rooms = []
    for seconds in (0.001, 0.5, 0.001, *[0.001] * 20):
        means.note("demo", seconds)
        rooms.append(means.room(10).limit)

    assert rooms[0] == 10
    assert rooms[1:5] == [1] * 4
    assert rooms[-1] == 10
