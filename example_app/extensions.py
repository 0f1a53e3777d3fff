"""The extensions, made once and connected to each app in `create_app`."""

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase

from flask_jobs import Jobs


class Base(DeclarativeBase):
    """The root of all models."""


db = SQLAlchemy(model_class=Base)
jobs = Jobs()
