"""A small shop: orders come in over HTTP, and workers charge, invoice and ship them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Flask

from .extensions import db, jobs
from .models import create_tables
from .shop import shop


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """The shop, configured by the environment (FLASK_...) and by `config`, which is the last word."""
    app = Flask(__name__)
    app.config.from_mapping(
        SECRET_KEY="dev",  # set FLASK_SECRET_KEY where others can reach the shop or its database
        SHOP_NAME="Lindgren & Sons",
        SHOP_FOLDER=app.instance_path,
        SHOP_MAIL="mbox",  # or smtp://host:port
        SHOP_PRINT_SECONDS=0,  # how long the printer takes for an invoice
    )
    app.config.from_prefixed_env()
    app.config.from_mapping(config)

    folder = Path(app.config["SHOP_FOLDER"]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    app.config.setdefault("SQLALCHEMY_DATABASE_URI", f"sqlite:///{folder / 'shop.sqlite'}")

    db.init_app(app)
    jobs.init_app(app)
    app.register_blueprint(shop)
    with app.app_context():
        create_tables()
    return app
