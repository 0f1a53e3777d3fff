"""An app made by a factory, whose blueprint is imported before any app exists."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from flask import Flask, g

from .billing import blueprint
from .billing.work import note
from .extensions import db, jobs


def create_app(folder: str, **config: Any) -> Flask:
    """The app, with all of its data in one folder."""
    app = Flask(__name__, instance_path=folder)
    app.config.update(
        {
            "SECRET_KEY": "of the factory",
            "SQLALCHEMY_DATABASE_URI": f"sqlite:///{folder}/app.db",
            "LEDGER": f"{folder}/ledger",
            "CURRENCY": "CHF",
            **config,
        }
    )
    db.init_app(app)
    jobs.init_app(app)
    app.register_blueprint(blueprint)
    app.teardown_appcontext(_note_teardown)
    return app


def create_app_from_env() -> Flask:
    """The app of the folder that the environment names, for `flask --app`."""
    return create_app(os.environ["SHOP_FOLDER"], SERVER_NAME=os.environ.get("SHOP_SERVER_NAME"))


def ledger(app: Flask) -> list[Any]:
    """All that jobs and teardowns of this app wrote, in order."""
    path = Path(app.config["LEDGER"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _note_teardown(error: BaseException | None) -> None:
    if "noted_as" in g:
        note("teardown", g.noted_as, type(error).__name__ if error else None)
