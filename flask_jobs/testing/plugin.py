"""The pytest plugin: the fixture `jobs_fake`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .fake import FakeQueue


@pytest.fixture
def jobs_fake(request: pytest.FixtureRequest) -> Iterator[FakeQueue]:
    """The app's jobs, recorded instead of stored. Takes the app from the test's own fixture `app`."""
    # pytest loads plugins before it measures or filters anything, so the library itself is imported on use.
    from ..state import EXTENSION
    from .fake import FakeQueue

    app = request.getfixturevalue("app")
    state = app.extensions.get(EXTENSION)
    if state is None:
        pytest.fail(
            f"jobs_fake: the app {app.name!r} has no Jobs. Call jobs.init_app(app) in its factory.", pytrace=False
        )
    with FakeQueue.installed(state) as queue:
        yield queue
