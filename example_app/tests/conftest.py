"""The shop of one test, with data of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from example_app import create_app
from example_app.extensions import db


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    """An app whose files and database are gone after the test. The fixture `jobs_fake` asks for it by this name."""
    app = create_app({"TESTING": True, "SHOP_FOLDER": str(tmp_path)})
    yield app
    with app.app_context():
        db.engine.dispose()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A browser."""
    return app.test_client()
