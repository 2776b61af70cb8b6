"""The scheduling queue: active, backoff, unschedulable, and the events that move pods."""

from bayplan.engine.queue.gates import Gate
from bayplan.engine.queue.heap import sort_key_of
from bayplan.engine.queue.hints import HintIndex
from bayplan.engine.queue.pods import Place, QueuedPod
from bayplan.engine.queue.queue import AlreadyQueuedError, SchedulingQueue

__all__ = [
    "AlreadyQueuedError",
    "Gate",
    "HintIndex",
    "Place",
    "QueuedPod",
    "SchedulingQueue",
    "sort_key_of",
]
