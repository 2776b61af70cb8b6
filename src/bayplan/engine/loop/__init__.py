"""The live scheduler without I/O: `Scheduler.handle(event, now)`, `Scheduler.step(now)`.

The contract with a driver:

* Feed every change of every watched object to `put(new, now)` or `delete(old, now)` (or, as data,
  to `handle(Added | Updated | Deleted, now)`), in the order in which one informer shows them: pods
  of all namespaces, phases and schedulers, nodes, and the other kinds that plugins read. Deliver
  the first lists of all kinds before the first `step`, or pods are tried against half a cluster.
* Call `step(now, limit)` after something was handled, at `next_wake()`, and again while `ready`.
  It tries up to `limit` pods (a tenth of a millisecond each) and returns a list of actions.
* Carry the actions out (`actions` says how) and report what needs a report with
  `handle(BindDone | CallsDone | Evicted, now)`. Reports may come in any order and late; one for
  something that is over is ignored.
* `now` is in seconds since the epoch. A clock that is set back delays nobody; one that is set
  forward only ends waits early. Sleep half a minute at most, so that a change is noticed.

Losing the lease or the process loses nothing: all state comes from the API server. A pod is bound
at most once by this object: it is assumed from the decision until the API server shows it or the
bind fails. A plugin that raises fails the pod that was tried, an object that cannot be taken is
left out; both are counted in `problems` and logged.

What is not here: talking to anything, clocks, metrics formats, rate limits, event series.
"""

from bayplan.engine.loop.actions import Bind, CallApi, Evict, ExtenderBind, PatchPod, RecordEvent
from bayplan.engine.loop.core import Scheduler
from bayplan.engine.loop.inputs import (
    Added,
    BindDone,
    CallsDone,
    Deleted,
    Evicted,
    PermitDecision,
    Updated,
)

__all__ = [
    "Added",
    "Bind",
    "BindDone",
    "CallApi",
    "CallsDone",
    "Deleted",
    "Evict",
    "Evicted",
    "ExtenderBind",
    "PatchPod",
    "PermitDecision",
    "RecordEvent",
    "Scheduler",
    "Updated",
]
