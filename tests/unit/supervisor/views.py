"""Lanes as a supervisor reads them."""

from __future__ import annotations

from flask_jobs.slate import Held, Running, State, View


def held(state: State, job_id: str = "one") -> Held:
    return Held(job_id, f"receipt of {job_id}", "default", "shop.greet", 1, state)


def view(*states: State, running: Running | None = None, in_use: bool = True, asking: str | None = None) -> View:
    jobs = tuple(held(state, f"job-{number}") for number, state in enumerate(states))
    return View(0, 1, asking, "token", 100.0, jobs, running, in_use)


def running(limit: float, *, position: int = 0, began: float = 100.0) -> Running:
    return Running(position, began, limit, "")
