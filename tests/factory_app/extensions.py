from __future__ import annotations

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase

from flask_jobs import Jobs


class Base(DeclarativeBase):
    pass


db = SQLAlchemy(model_class=Base)
jobs = Jobs()
