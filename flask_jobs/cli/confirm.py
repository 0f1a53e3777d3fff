"""Asking before something is destroyed."""

from __future__ import annotations

import sys

import click

from . import exit_codes
from .group import complain

force_option = click.option("--force", is_flag=True, help="Do not ask; needed where there is no terminal.")


def confirm(what: str, *, force: bool) -> None:
    """Ask on the terminal whether to go on. Without one, only `force` lets the command go on."""
    if force:
        return
    if not sys.stdin.isatty():
        complain(f"This would {what}. There is no terminal to ask on: say --force if that is meant.")
        raise click.exceptions.Exit(exit_codes.ERROR)
    # The question goes to stderr, so that stdout holds the answer of the command alone.
    try:
        agreed = click.confirm(f"This will {what}. Go on?", err=True)
    except click.Abort:
        raise KeyboardInterrupt from None  # it was one
    if not agreed:
        raise click.Abort
