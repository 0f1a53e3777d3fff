"""Runs what can be awaited to its end from plain code, in this thread and within a time limit."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from .control import JobTimeout


def finish(result: object, limit: float) -> None:
    """Await what a method has returned, if it can be awaited; another result has no meaning."""
    if inspect.isawaitable(result):
        complete(result, limit=0 if math.isinf(limit) else limit)
    elif inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError("The method is a generator function, so that nothing of it ran: take the yield out of it.")


def drop(answer: object) -> None:
    """Let go of what nobody awaits, without the warning that nobody did."""
    if inspect.iscoroutine(answer):
        answer.close()


def complete(awaitable: Awaitable[object], *, limit: float) -> None:
    """Await it on an event loop of its own, cancel it after `limit` seconds (0: no limit), and close what it left.

    It sees the context variables of here; what it sets in them ends with it. A cancelled one ends in `JobTimeout`,
    whatever it makes of its cancellation. Where a loop is already running, a thread of its own stands in for this
    one, for a thread runs one loop at a time.
    """
    if _is_within_a_loop():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(copy_context().run, _complete, awaitable, limit).result()
    else:
        _complete(awaitable, limit)


def _complete(awaitable: Awaitable[object], limit: float) -> None:
    with asyncio.Runner() as runner:
        runner.run(_within(awaitable, limit) if limit else _plainly(awaitable))


async def _plainly(awaitable: Awaitable[object]) -> None:
    await awaitable


async def _within(awaitable: Awaitable[object], limit: float) -> None:
    scope = asyncio.timeout(limit)
    try:
        async with scope:
            await awaitable
    except BaseException as error:  # whatever the coroutine raises when it is cancelled may not hide why it was
        if scope.expired():
            raise _late() from error
        raise
    if scope.expired():
        raise _late()


def _late() -> JobTimeout:
    return JobTimeout("The coroutine was cancelled at its time limit.")


def _is_within_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
