"""What a worker process holds, in memory that its supervisor reads, also after the worker's death.

The slate is a mapped file without a name. A worker writes to it with plain stores, a few for each job and no system
call; the supervisor only ever reads what a worker writes, but for its orders and the renewals that it confirms. Each
thread of a worker that runs jobs has a lane of its own.

A process can die amid any store. What is longer than a byte is therefore either written where nobody looks yet and then
made current by one byte, or bears a checksum: what is half written reads as not written. What that means is safe each
time: a token goes onto the slate before the store is asked with it, and a job counts as finished only when its byte
says so.
"""

from .lane import Lane, NoLane
from .layout import LEFT, MOST
from .slate import Slate
from .values import Held, Order, Running, State, Status, View

__all__ = ["LEFT", "MOST", "Held", "Lane", "NoLane", "Order", "Running", "Slate", "State", "Status", "View"]
