"""`python -m tests.chaos`: runs on each store that is asked for, and exits with 1 if anything was wrong."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.faults import ALL, WORKERS_ONLY
from tests.chaos.rounds import Rounds
from tests.chaos.run import Plan, run
from tests.processes import running_tests

STORES = ("sqlite", "postgresql", "mariadb", "redis")


def main() -> int:
    """Run as the command line says."""
    given = _parser().parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 31)
    wrong = 0
    with ExitStack() as stack:
        stack.enter_context(running_tests())
        for store in given.store or STORES:
            folder = Path(given.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="flask_jobs-")))
            (folder / store).mkdir(parents=True, exist_ok=True)
            if given.rounds:
                rounds = Rounds(store, seed, given.rounds, given.commands, given.processes, given.limit)
                rounds.run(folder / store)
                wrong += len(rounds.wrong)
                print("\n".join(rounds.lines()), flush=True)
                continue
            plan = Plan(
                store,
                seed,
                seconds=given.seconds,
                limit=given.limit,
                jobs=given.jobs,
                strikes=given.strikes,
                every=given.every,
                commands=given.commands,
                processes=given.processes,
                threads=given.threads,
                lease=given.lease,
                faults={"kill worker": 1} if given.kills_only else WORKERS_ONLY if given.workers_only else ALL,
            )
            report = run(plan, folder / store)
            wrong += len(report.findings.wrong)
            print("\n".join(report.lines()), flush=True)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tests.chaos", description="Faults at random instants under a load of jobs.")
    parser.add_argument("store", nargs="*", help=f"Where: {', '.join(STORES)}; all of them if none is named.")
    parser.add_argument("--seed", type=int, default=_number("CHAOS_SEED", None))
    parser.add_argument("--seconds", type=float, default=_number("CHAOS_SECONDS", 0), help="No end before so long.")
    parser.add_argument("--limit", type=float, default=float("inf"), help="An end in any case after so many seconds.")
    parser.add_argument("--jobs", type=int, default=0, help="No end before so many jobs.")
    parser.add_argument("--strikes", type=int, default=0, help="No end before so many faults.")
    parser.add_argument("--rounds", type=int, default=0, help="Instead: so many polite stops.")
    parser.add_argument("--every", type=float, default=0.5, help="Mean seconds between two faults.")
    parser.add_argument("--commands", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lease", type=float, default=4.0, help="Seconds that a lease lasts.")
    parser.add_argument("--workers-only", action="store_true", help="Kill and stop workers, and nothing else.")
    parser.add_argument("--kills-only", action="store_true", help="Kill workers, and nothing else.")
    parser.add_argument("--keep", help="A folder for ledgers and logs, which stay there.")
    return parser


def _number(variable: str, otherwise: int | None) -> int | None:
    return int(os.environ[variable]) if variable in os.environ else otherwise


if __name__ == "__main__":
    sys.exit(main())
