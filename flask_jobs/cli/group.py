"""The group behind `flask jobs`: one place for what all commands have in common."""

from __future__ import annotations

import atexit
import gc
from typing import Any

import click
from flask.cli import AppGroup

from ..errors import JobsError
from . import exit_codes


class JobsGroup(AppGroup):
    """Runs its commands in the app's context, and shows the library's errors as messages, not as tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of the library ends it with its message on stderr, and so does Ctrl-C."""
        # At its end the interpreter would take apart all that is still there, which takes longer than most commands and
        # is most of what a worker's stop takes.
        atexit.register(gc.freeze)
        try:
            return super().invoke(ctx)
        except JobsError as error:
            complain(str(error))
            ctx.exit(exit_codes.ERROR)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(exit_codes.INTERRUPTED)


jobs_cli = JobsGroup(
    "jobs",
    help="Run and look after background jobs.",
    epilog="Exit codes: 0 done, 1 something was not done, 2 unusable command line, 3 store away, 130 interrupted.",
)


def complain(message: str) -> None:
    """Say on stderr what went wrong."""
    click.echo(f"Error: {message}", err=True)
