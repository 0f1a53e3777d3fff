"""What a command that changes many jobs says at its end, and on the way there."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

from . import exit_codes
from .group import complain
from .output import show_json
from .target import Target


def progress(message: str) -> None:
    """Say on stderr how far long work has come."""
    click.echo(f"{message} …", err=True)


def end_with(code: int) -> None:
    """End the command with this code."""
    if code != exit_codes.OK:
        raise click.exceptions.Exit(code)


@dataclass(slots=True)
class Removal:
    """Which of the ids given are done with, which are unknown, and which cannot be touched because they run."""

    done: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)

    def show(self, target: Target, what: str, unknown: str, *, as_json: bool) -> None:
        """Print what was done, complain of the rest, and end the command."""
        if as_json:
            document = {"connection": target.name, what: self.done, "unknown": self.unknown}
            show_json(document if what == "forgotten" else {**document, "running": self.running})
        else:
            for job_id in self.done:
                click.echo(f"{job_id} {what}")
        for given in self.unknown:
            complain(f"{unknown} {given!r} on connection {target.name!r}.")
        for job_id in self.running:
            complain(f"{job_id} is running: it cannot be {what} any more.")
        end_with(exit_codes.ERROR if self.unknown or self.running else exit_codes.OK)
