"""The names of a connection's keys: all share one hash tag, so that a Cluster keeps them on one node.

Under the head ``{prefix:connection}:`` there are

====================  ===========  ==================================================================================
``jobs``              hash         id: the stored job (fields and body, see `values`)
``head:QUEUE``        list         ids pushed to the front or recovered
``ready:QUEUE``       list         ids that wait for nothing but a worker
``delayed:QUEUE``     sorted set   ids by the instant they are due; due ones stay here until they are popped
``reserved:QUEUE``    sorted set   receipt and id by the instant the lease ends
``notify:QUEUE``      list         what idle workers block on
``queues``            set          names of queues that have held a job
``paused``            hash         queue: until when
``turns``             hash         queue: whose turn it is, the ready ones' or the due ones'
``progress``          hash         id: what a running job says of itself
``failed``            hash         id: the failed record; ``failed:*`` are its indexes
``keys``              hash         digest of a unique key: the id of the job that holds it, and its bound
``chain:ID``          hash         a chain that has not ended: which link is under way, and the jobs planned after it
``batch:ID``          hash         a batch: its counts, and the callbacks that have not been pushed
``batches``           sorted set   ids of batches, all at 0, so that they are paged by id
``batches:over``      sorted set   ids of batches that may be pruned, by the instant they finished
``ended:*``           hashes       ids and settlements that are remembered
``lock:KEY``          hash         who holds places of a lock; ``locks`` says when to look whether they still do
``limit:KEY``         hash         where a limit is to be searched for room
``slices:KEY``        sorted set   what is taken of each of its slices of time
``bookings``          hash         id: the turns that a job has booked; ``bookings:until`` says until when
``tally:KEY``         hash         a count and its end
====================  ===========  ==================================================================================

What is remembered, and what no job hangs on (limits, bookings, counts, locks that have an end of their own), expires;
nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ConfigurationError

SEPARATOR = "\x1f"
"""Stands between the fields of what is stored. In no name, and in JSON only escaped."""

LANES = ("head", "ready")
"""The kinds of lists that hold waiting ids."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Makes the names under one head."""

    head: str

    @classmethod
    def of(cls, prefix: str, connection: str) -> Keys:
        """The names of a connection; the prefix keeps applications that share a server apart."""
        for what, name in (("prefix", prefix), ("connection's name", connection)):
            if not name or not name.isprintable() or set("{}") & set(name):
                raise ConfigurationError(
                    f"A Redis {what} must be readable text without braces, such as 'myapp', not {name!r}."
                )
        return cls(f"{{{prefix}:{connection}}}:")

    def named(self, name: str) -> str:
        """The key with this name."""
        return self.head + name

    def of_queue(self, kind: str, queue: str) -> str:
        """The key of this kind (ready, delayed, reserved, notify, ...) that belongs to the queue."""
        return f"{self.head}{kind}:{queue}"


def member(receipt: str, job_id: str) -> str:
    """How a delivery is named in its queue's reserved set."""
    return f"{receipt}{SEPARATOR}{job_id}"
