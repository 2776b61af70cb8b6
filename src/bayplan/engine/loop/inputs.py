"""What happened, as data: the events that `Scheduler.handle` takes.

Objects come from informers; `old` is what the informer held before. Duplicates and objects that
are already known do no harm. The rest are the results of actions and decisions from outside.
"""

from __future__ import annotations

import msgspec

from bayplan.api import Object


class Added(msgspec.Struct, frozen=True):
    """An object appeared."""

    new: Object


class Updated(msgspec.Struct, frozen=True):
    """An object changed."""

    old: Object
    new: Object


class Deleted(msgspec.Struct, frozen=True):
    """An object is gone; `old` is its last known state."""

    old: Object


class BindDone(msgspec.Struct, frozen=True, gc=False):
    """A Bind or ExtenderBind ended; an empty error means that the pod is bound."""

    uid: str
    error: str = ""


class CallsDone(msgspec.Struct, frozen=True, gc=False):
    """A CallApi ended."""

    work: int
    error: str = ""


class Evicted(msgspec.Struct, frozen=True, gc=False):
    """An Evict ended."""

    preemptor_uid: str
    victim_uid: str
    error: str = ""


class PermitDecision(msgspec.Struct, frozen=True, gc=False):
    """Somebody outside allows or rejects a pod that waits for a Permit plugin."""

    uid: str
    plugin: str
    allow: bool
    message: str = ""


Input = Added | Updated | Deleted | BindDone | CallsDone | Evicted | PermitDecision
