"""What many plugins answer when they are asked whether an event may help a pod."""

from __future__ import annotations

from bayplan.api import Object, Pod
from bayplan.framework import QueueingHint


def hint(worth_it: bool) -> QueueingHint:
    return QueueingHint.QUEUE if worth_it else QueueingHint.SKIP


def is_this_pod(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    """Worth a try if the event is about the pod itself."""
    return hint(new is not None and new.uid == pod.uid)
