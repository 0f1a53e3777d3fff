"""What a worker does for others between its jobs."""

from __future__ import annotations

import logging
from collections import deque

from .. import log
from ..errors import ConnectionLost, StoreRefused
from ..slate import NoLane
from .hooks import Hooks
from .post import Post

logger = logging.getLogger(__name__)


class Errands:
    """Calls `failed()` of the jobs that its supervisor names, one after the other."""

    def __init__(self, post: Post, hooks: Hooks) -> None:
        self._lane: NoLane = post.lane
        self._waiting: deque[str] = post.errands
        self._is_run = post.errand_is_run
        self._hooks = hooks

    def run(self) -> None:
        """Run all there are. Raises `ConnectionLost` or `StoreRefused` if the store is away; the rest waits then."""
        while self._waiting:
            job_id = self._waiting[0]
            self._lane.use()
            try:
                self._hooks.run_errand(job_id)
            except (ConnectionLost, StoreRefused):
                raise
            except Exception:  # a record that cannot be read must not keep this worker from its jobs, nor the next one
                log.complain(logger, "failed() of job %s could not be called.", job_id)
            finally:
                self._lane.leave()
            self._waiting.popleft()
            self._is_run()

    def run_the_last(self) -> None:
        """Run all there are, at the end; what the store is away for is left."""
        try:
            self.run()
        except (ConnectionLost, StoreRefused) as error:
            logger.warning("An errand is left to another worker: %s", error)
