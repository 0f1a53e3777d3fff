"""Errands on their way to a worker process that does not read them yet, or does not live to run them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from flask_jobs.supervisor.child import Child
from flask_jobs.supervisor.errands import Errands
from flask_jobs.supervisor.verdicts import Kill
from flask_jobs.worker.pause import pause

# More than a pipe takes.
IDS = [f"{number:036}" for number in range(3_000)]

WORKER = """
import os, sys, threading, time
from flask_jobs.slate import Slate
from flask_jobs.worker.assignment import Assignment, Lifeline

folder = sys.argv[1]
assignment = Assignment.take()
slate = Slate.open(assignment.slate, assignment.lanes)
slate.ready()
while not os.path.exists(f"{folder}/read"):
    time.sleep(0.01)
lifeline, is_cut = Lifeline(assignment.lifeline), threading.Event()
lifeline.watch(is_cut.set)
ran = open(f"{folder}/ran", "a", buffering=1)
while not is_cut.is_set() or lifeline.errands:
    if lifeline.errands:
        ran.write(f"{lifeline.errands.popleft()}\\n")
        slate.count_errand()
    if slate.errands == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
    time.sleep(0 if lifeline.errands else 0.01)
"""


def worker(folder: Path, *, dies_after: int = -1) -> Child:
    return Child.start(1, [sys.executable, "-c", WORKER, str(folder), str(dies_after)], lanes=1)


def returns(call: Callable[[], object]) -> bool:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def give_all(errands: Errands, child: Child) -> None:
    pause(30, until=lambda: errands.give(child) or not errands)


def has_ended(child: Child) -> bool:
    return child.ended() is not None


def end_politely(child: Child) -> None:
    child.close()
    pause(30, until=lambda: has_ended(child))


def test_more_errands_than_a_worker_has_room_for_hold_up_nobody_and_all_arrive_once(tmp_path: Path) -> None:
    errands, child = Errands(), worker(tmp_path)
    errands.add(*IDS)

    did_return = returns(lambda: errands.give(child))
    waiting, given = len(errands), len(child.errands)
    (tmp_path / "read").touch()
    give_all(errands, child)
    end_politely(child)

    assert did_return
    assert waiting > 0
    assert waiting + given == len(IDS)
    assert (tmp_path / "ran").read_text().splitlines() == IDS


def test_what_a_worker_does_not_live_to_run_is_run_once_by_the_next(tmp_path: Path) -> None:
    errands, first, second = Errands(), worker(tmp_path, dies_after=700), worker(tmp_path)
    errands.add(*IDS)

    (tmp_path / "read").touch()
    pause(30, until=lambda: errands.give(first) or has_ended(first))
    errands.add(*first.errands)
    give_all(errands, second)
    end_politely(second)
    first.close()

    ran = (tmp_path / "ran").read_text().splitlines()
    assert sorted(ran) == IDS


def test_a_worker_that_is_gone_takes_no_errand(tmp_path: Path) -> None:
    errands, child = Errands(), worker(tmp_path)
    errands.add(*IDS)

    child.kill(Kill.STOP)
    pause(30, until=lambda: has_ended(child))
    errands.give(child)
    child.close()

    assert len(errands) == len(IDS)
