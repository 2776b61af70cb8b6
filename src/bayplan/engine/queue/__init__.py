"""The scheduling queue: active, backoff, unschedulable, and the events that move pods."""

from bayplan.engine.queue.gates import Gate
from bayplan.engine.queue.heap import sort_key_of
from bayplan.engine.queue.hints import EXTENDER, HintIndex, Registrations
from bayplan.engine.queue.pods import PLACE_NAMES, Place, QueuedPod
from bayplan.engine.queue.queue import AlreadyQueuedError, Nominations, SchedulingQueue

__all__ = [
    "EXTENDER",
    "PLACE_NAMES",
    "AlreadyQueuedError",
    "Gate",
    "HintIndex",
    "Nominations",
    "Place",
    "QueuedPod",
    "Registrations",
    "SchedulingQueue",
    "sort_key_of",
]
