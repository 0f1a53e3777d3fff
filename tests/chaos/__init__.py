"""Faults at random instants under a load of short jobs, and an independent look at what became of each job.

`python -m tests.chaos --help` says how to run it, `make chaos` runs it for minutes on each store that answers.
"""
