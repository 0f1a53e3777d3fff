"""A slate says the truth of a worker whatever instruction was its last."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_jobs.envelope import Reservation
from flask_jobs.slate import LEFT, MOST, Lane, Order, Slate, State, Status, View
from flask_jobs.slate.layout import HEADER, LANE, MAGIC

from ..support.values import reservation


class Died(Exception):
    """The process was killed amid a write."""


class Memory(bytearray):
    """Takes so many more bytes, one after the other as a copy does, and then the process is dead."""

    left = 1 << 30

    def __setitem__(self, where: object, what: object) -> None:
        if isinstance(where, slice):
            assert isinstance(what, bytes)
            allowed = min(self.left, len(what))
            self.left -= len(what)
            super().__setitem__(slice(where.start or 0, (where.start or 0) + allowed), what[:allowed])
        else:
            self.left -= 1
            if self.left >= 0:
                super().__setitem__(where, what)  # type: ignore[call-overload]
        if self.left < 0:
            raise Died


class Interrupted(Memory):
    """Lets something happen just before one of the reader's looks, counted from 0."""

    happens: Callable[[], None] = staticmethod(lambda: None)
    looks = -1

    def __getitem__(self, where: Any) -> Any:
        self.looks -= 1
        if self.looks == -1:
            self.happens()
        return super().__getitem__(where)


def slate() -> tuple[Memory, Slate, Lane]:
    memory = Memory(HEADER + LANE)
    memory[: len(MAGIC)] = MAGIC
    whole = Slate(memory, 1)
    return memory, whole, whole.lane(0)


def named(token: str, count: int = 1) -> list[Reservation]:
    return [replace(reservation(), receipt=f"{number}:{token}") for number in range(count)]


def a_life(lane: Lane, note: Callable[[str], None]) -> None:
    """Two pops, the first with a job that is done and one that fails; `note` is called when a step is whole."""
    steps: list[tuple[str, Callable[[], None]]] = [
        ("asking a", lambda: lane.asking("a")),
        ("answered a", lambda: lane.answered("a", named("a", 2))),
        ("entered 0", lambda: lane.enter(0)),
        ("running 0", lambda: lane.run(0, 5.0, '{"max_attempts": 3}')),
        ("started 0", lambda: lane.start(0)),
        ("left 0", lane.unlimited),
        ("done 0", lambda: lane.end(0, State.DONE)),
        ("out 0", lane.leave),
        ("entered 1", lambda: lane.enter(1)),
        ("running 1", lambda: lane.run(1, 7.0, '{"max_attempts": 9}')),
        ("started 1", lambda: lane.start(1)),
        ("out 1", lane.leave),
        ("settled 1", lambda: lane.end(1, State.SETTLED)),
        ("asking b", lambda: lane.asking("b")),
        ("answered b", lambda: lane.answered("b", ())),
        ("cleared", lane.clear),
    ]
    for name, step in steps:
        step()
        note(name)


WHOLE_LIFE = 40_000
"""More bytes than are written in one."""


@given(st.integers(0, WHOLE_LIFE))
def test_whatever_write_is_the_last_the_slate_says_what_came_before_it_or_what_it_says_itself(last: int) -> None:
    said: dict[str, View] = {}
    _, whole, lane = slate()
    order = ["nothing"]
    said["nothing"] = whole.view(0)
    a_life(lane, lambda name: (order.append(name), said.__setitem__(name, whole.view(0)))[0])  # type: ignore[func-returns-value]
    memory, dying, lane = slate()
    memory.left = last
    reached = ["nothing"]

    with contextlib.suppress(Died):
        a_life(lane, reached.append)

    memory.left = 1 << 30
    here = order.index(reached[-1])
    allowed = [_facts(said[name]) for name in order[here : here + 2]]
    assert _facts(dying.view(0)) in [*allowed, *(facts for one in allowed for facts in _torn(one))]


def _facts(view: View) -> tuple[object, ...]:
    running = view.running
    limits = None if running is None else (running.position, running.limit, running.options)
    return view.token, view.asking, tuple((held.receipt, held.state) for held in view.held), view.in_use, limits


def _torn(facts: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Half written, a token reads as none, and so does the run; `in_use` may stand before its state."""
    token, asking, held, in_use, limits = facts
    return [
        (token, one, held, used, run) for one in (asking, None) for used in (in_use, True) for run in (limits, None)
    ]


def test_a_view_names_what_is_under_way_and_what_the_store_has_not_been_told() -> None:
    _, whole, lane = slate()
    lane.asking("a")
    lane.answered("a", named("a", 3))
    lane.enter(0)
    lane.end(0, State.SETTLED)
    lane.enter(1)
    lane.run(1, 5.0, "")
    lane.start(1)

    view = whole.view(0)

    assert view.under_way is not None
    assert view.under_way.receipt == "1:a"
    assert [held.receipt for held in view.unsettled] == ["1:a", "2:a"]
    assert view.running is not None
    assert (view.running.position, view.running.limit) == (1, 5.0)
    lane.unlimited()
    after = whole.view(0).running
    assert after is not None
    assert after.limit == LEFT


def test_a_job_that_is_taken_up_does_not_inherit_limit_and_options_of_the_one_before() -> None:
    _, whole, lane = slate()
    for token in ("a", "b"):
        lane.answered(token, named(token))
        lane.enter(0)
        before = whole.view(0).running
        lane.run(0, 5.0, '{"max_interruptions": 0}')
        lane.unlimited()
        lane.end(0, State.DONE)

        assert before is None


def test_a_renewal_counts_for_what_it_was_made_of_only() -> None:
    _, whole, lane = slate()
    lane.asking("a")
    lane.answered("a", named("a"))
    before = whole.view(0)
    whole.renewed(before, 12.5)
    of_a = lane.renewed
    lane.asking("b")
    lane.answered("b", named("b"))

    assert of_a == 12.5
    assert lane.renewed == float("-inf")
    whole.renewed(before, 13.5)
    assert lane.renewed == float("-inf")


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("look", range(6))
def test_a_lane_that_is_written_twice_amid_a_reading_is_not_read_half_old_half_new(look: int, is_known: bool) -> None:
    """After two pops the record at hand is in the same place again, with other jobs in it."""
    memory = Interrupted(HEADER + LANE)
    whole = Slate(memory, 1)
    lane = whole.lane(0)

    def pop(token: str) -> None:
        lane.asking(token)
        lane.answered(token, named(token))

    pop("a")
    lane.enter(0)
    lane.end(0, State.DONE)
    before = _facts((whole if is_known else Slate(memory, 1)).view(0))
    memory.happens = lambda: (pop("b"), pop("c"))[0]  # type: ignore[func-returns-value]
    memory.looks = look

    said = _facts(whole.view(0))

    assert memory.looks < 0
    assert said in [before, _facts(whole.view(0))]


def test_when_a_worker_has_renewed_itself_is_read_whole_or_not_at_all() -> None:
    memory, whole, lane = slate()
    lane.answered("a", named("a"))
    before = whole.view(0).renewed
    lane.renewed_here(12.5)
    after = whole.view(0)
    memory.left = 8

    with contextlib.suppress(Died):
        lane.renewed_here(13.5)

    assert (before, after.renewed, whole.view(0).renewed) == (0.0, 12.5, 0.0)
    assert after == whole.view(0)  # and it is no sign of life


def test_more_jobs_than_a_lane_holds_are_refused_before_anything_is_written() -> None:
    _, whole, lane = slate()
    lane.asking("a")
    with pytest.raises(ValueError, match="at most 64 jobs"):
        lane.answered("a", named("a", MOST + 1))

    assert whole.view(0).asking == "a"


def test_both_sides_see_the_same_memory() -> None:
    ours, memory = Slate.make(2)
    program = (
        "import sys; from flask_jobs.slate import Order, Slate\n"
        "slate = Slate.open(int(sys.argv[1]), 2); slate.ready(); slate.lane(1).asking('from-there')\n"
        "print(slate.is_ordered(Order.PAUSE)); slate.count_errand(); slate.leaving(3)\n"
    )
    ours.order(Order.PAUSE)

    said = subprocess.run(
        [sys.executable, "-c", program, str(memory)], pass_fds=(memory,), capture_output=True, text=True, check=True
    )
    os.close(memory)

    assert said.stdout == "True\n"
    assert (ours.status, ours.reason, ours.errands) == (Status.LEAVING, 3, 1)
    assert [view.asking for view in ours.views()] == [None, "from-there"]
    ours.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory to share is a file in a folder")
def test_a_slate_needs_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")

    made, memory = Slate.make(1)

    os.close(memory)
    assert made.status is Status.STARTING
    made.close()
