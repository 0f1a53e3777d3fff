"""Questions that are not asked too often."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from flask_jobs.worker import spared


def test_threads_that_ask_at_the_same_time_share_one_answer() -> None:
    asked = threading.Semaphore(0)
    all_are_here = threading.Barrier(3)

    def ask() -> str:
        asked.release()
        asked.acquire(timeout=0.2)
        asked.acquire(timeout=0.2)
        return "yes"

    question = spared(ask, every=60)

    def answer() -> str:
        all_are_here.wait(10)
        return question()

    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(answer) for _ in range(3)]

    assert [one.result() for one in answers] == ["yes"] * 3


def test_a_question_that_could_not_be_answered_is_asked_again() -> None:
    answers = iter([OSError("away"), "yes"])

    def ask() -> str:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    question = spared(ask, every=60)
    with contextlib.suppress(OSError):
        question()

    assert question() == "yes"
