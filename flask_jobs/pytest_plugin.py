"""The pytest plugin: the fixture `jobs_fake`.

pytest imports it in every project where the library is installed, so it imports nothing but pytest until it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing.fake import FakeQueue


@pytest.fixture
def jobs_fake(request: pytest.FixtureRequest) -> Iterator[FakeQueue]:
    """The app's jobs, recorded instead of stored. Takes the app from the test's own fixture `app`."""
    from .state import EXTENSION
    from .testing.fake import FakeQueue

    app = request.getfixturevalue("app")
    state = app.extensions.get(EXTENSION)
    if state is None:
        pytest.fail(f"The app {app.name!r} has no Jobs: call jobs.init_app(app) in its factory.", pytrace=False)
    with FakeQueue.installed(state) as queue:
        yield queue
