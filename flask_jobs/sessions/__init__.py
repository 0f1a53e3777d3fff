"""The app's SQLAlchemy sessions, however it makes them.

Flask-SQLAlchemy and Flask-SQLAlchemy-Lite are known by what they offer, and neither is imported.
"""

from .finding import SessionOption, named_session, sessions_of, watch_from_first_context
from .port import NoSessions, Sessions

__all__ = ["NoSessions", "SessionOption", "Sessions", "named_session", "sessions_of", "watch_from_first_context"]
