"""What the cluster's own scheduler said about a pod, and whether we say the same.

The pod's PodScheduled condition is compared first, then the newest FailedScheduling event. Where
they differ the likely reason is given: other numbers of nodes, an older condition, something that
was not read.
"""

from __future__ import annotations

import re
from weakref import WeakKeyDictionary

import msgspec

from bayplan.api import Condition, Pod
from bayplan.inspect.cluster import Cluster, seconds

FAILED = "FailedScheduling"
NOTE_LIMIT = 1024
"""kube-scheduler cuts the text of events to this."""
_Index = dict[tuple[str, str, str], list[str]]
_INDEXES: WeakKeyDictionary[Cluster, _Index] = WeakKeyDictionary()
_NODES = re.compile(r"^0/(\d+) nodes are available")


class Observed(msgspec.Struct, frozen=True):
    """The words of the cluster's scheduler."""

    message: str | None = None
    reason: str = ""
    event: str | None = None
    identical: bool | None = None
    difference: str = ""


def condition_of(pod: Pod) -> Condition | None:
    """The PodScheduled condition, if it says that the pod is not scheduled."""
    for item in pod.status.conditions:
        if item.type == "PodScheduled" and item.status == "False":
            return item
    return None


def event_of(cluster: Cluster, pod: Pod) -> str | None:
    """The text of the newest FailedScheduling event of a pod."""
    events = events_about(cluster, "Pod", pod.key, FAILED)
    return events[-1] if events else None


def events_about(cluster: Cluster, kind: str, key: str, reason: str) -> list[str]:
    """The texts of events about an object, oldest first."""
    known = _INDEXES.get(cluster)
    if known is None:
        known = _INDEXES[cluster] = _index(cluster)
    return known.get((reason, kind, key), [])


def _index(cluster: Cluster) -> _Index:
    """Made once for a cluster: each of 5,000 pending pods has an event or two."""
    found: _Index = {}
    for event in sorted(cluster.events, key=lambda event: seconds(event.time)):
        about = event.about
        key = (event.reason, about.kind, f"{about.namespace}/{about.name}")
        found.setdefault(key, []).append(event.text)
    return found


def observe(cluster: Cluster, pod: Pod, message: str) -> Observed:
    """Compare our sentence with theirs."""
    condition, event = condition_of(pod), event_of(cluster, pod)
    said = (condition.message or None) if condition is not None else None  # scrubbed: no words
    reason = "" if condition is None else condition.reason
    if said is None and event is None:
        return Observed()
    identical = message == said if said is not None else message[:NOTE_LIMIT] == event
    difference = "" if identical else _difference(cluster, message, said or "", event)
    return Observed(said, reason, event, identical, difference)


def _difference(cluster: Cluster, message: str, said: str, event: str | None) -> str:
    if event is not None and event == message[:NOTE_LIMIT]:
        return "the condition is older: the newest event says the same as we do"
    if not message:
        return (
            "something changed since: the pod would be placed now; the scheduler tries again when "
            "an event wakes the pod, or after five minutes (or it has an extender or a plugin that "
            "was not asked here)"
        )
    before, now = _NODES.match(said or event or ""), _NODES.match(message)
    if before and now and before[1] != now[1]:
        return f"the number of nodes was {before[1]} then, now it is {now[1]}"
    if cluster.origin.unread:
        names = ", ".join(item.what for item in cluster.origin.unread[:3])
        return f"not everything could be read ({names}), so the answer may be off"
    version = cluster.settings.gates.version
    other = f", or is not of version {version} (--emulated-version)" if cluster.version_note else ""
    return (
        "the cluster changed since that attempt, or its scheduler is configured differently "
        f"(give its configuration with --config){other}"
    )
