"""What the scheduler wants done, as data.

The driver carries actions out, concurrently if it likes, and reports back those that say so.
Actions of one pod may depend on each other only through such reports, so no order has to be kept.

| action | do | report |
| --- | --- | --- |
| Bind | create the pod's `binding` | BindDone |
| ExtenderBind | let the extender bind | BindDone |
| CallApi | make the calls in order, stop at the first error | CallsDone |
| Evict | mark and delete a victim | Evicted |
| PatchPod | patch the pod's `status`; log an error, do not report it | - |
| RecordEvent | write an event; may be dropped under load | - |
| Observe | count in metrics | - |
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.api import Condition, Pod
from bayplan.framework.contract.extender import Extender
from bayplan.framework.contract.results import ApiCall

NOTE_LIMIT = 1024
"""Bytes that an event's note may have."""
POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
UNSCHEDULABLE = "Unschedulable"
ROOM_FOR = "preempting to accommodate a higher priority"
SCHEDULER_ERROR = "SchedulerError"


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Create the `binding` subresource of a pod: the whole of DefaultBinder."""

    pod: Pod
    node_name: str

    def body(self) -> dict[str, Any]:
        """The Binding object."""
        meta = self.pod.metadata
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "target": {"kind": "Node", "name": self.node_name},
        }


class ExtenderBind(msgspec.Struct, frozen=True):
    """Let an extender bind the pod; it creates the binding itself."""

    pod: Pod
    node_name: str
    extender: Extender


class CallApi(msgspec.Struct, frozen=True):
    """Make the calls that a plugin asked for, one after the other.

    `work` is to be given back in CallsDone; 0 means that nobody waits for the result.
    """

    work: int
    pod: Pod
    plugin: str
    calls: tuple[ApiCall, ...]


class Evict(msgspec.Struct, frozen=True):
    """Take a victim of preemption away.

    Patch `condition_body()` into its status, then delete it with default options. Not found at
    either step counts as done. Report `Evicted(preemptor uid, victim uid, error)`.
    """

    victim: Pod
    preemptor: Pod
    node_name: str
    scheduler_name: str
    now: float
    kind: str = "pod"
    """What preempts: `pod` or `podgroup`."""

    def condition_body(self) -> dict[str, Any]:
        """The strategic merge patch that says why the victim goes."""
        condition = Condition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTION_BY_SCHEDULER,
            message=f"{self.scheduler_name}: {ROOM_FOR} {self.kind}",
        )
        return status_patch(self.victim, condition, None, self.now)


class PatchPod(msgspec.Struct, frozen=True):
    """Patch a pod's status: a condition, the nominated node (`""` clears it), or both."""

    pod: Pod
    condition: Condition | None
    nominated_node_name: str | None
    """None leaves it alone."""
    now: float

    def body(self) -> dict[str, Any]:
        """The strategic merge patch for the `status` subresource."""
        return status_patch(self.pod, self.condition, self.nominated_node_name, self.now)


class RecordEvent(msgspec.Struct, frozen=True, gc=False):
    """Write an event about a pod; equal ones are to be folded into a series."""

    pod: Pod
    type: str
    reason: str
    action: str
    note: str
    scheduler_name: str
    """The reporting controller."""
    related: Pod | None = None


class Observe(msgspec.Struct, frozen=True, gc=False):
    """An attempt is over, or a preemption began: numbers for metrics.

    `result` is scheduled, unschedulable or error, as in `schedule_attempts_total`, or preempted
    for a preemption that chose `victims`. `seconds` is what the attempt took, binding included;
    `preemption_tried` tells that PostFilter plugins were asked. `attempts` and `sli_seconds` (since
    the first attempt) are those of a scheduled pod; `flushed` tells that it was tried only because
    it had waited for five minutes.
    """

    pod: Pod
    scheduler_name: str
    result: str
    attempts: int = 0
    sli_seconds: float = 0.0
    flushed: bool = False
    victims: int = 0
    preemption_tried: bool = False
    seconds: float = 0.0


Action = Bind | ExtenderBind | CallApi | Evict | PatchPod | RecordEvent | Observe


def status_patch(
    pod: Pod, condition: Condition | None, nominated_node_name: str | None, now: float
) -> dict[str, Any]:
    """The patch that brings a condition and a nomination into a pod's status.

    Only what differs is sent. `lastTransitionTime` moves only when the condition's status changes.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        before = find_condition(pod, condition.type)
        entry: dict[str, Any] = {"type": condition.type}
        for name in ("status", "reason", "message"):
            value = getattr(condition, name)
            if before is None or value != getattr(before, name):
                entry[name] = value
        if before is None or before.status != condition.status:
            entry["lastTransitionTime"] = rfc3339(now)
        if before is None:
            entry["lastProbeTime"] = None
        if pod.metadata.generation:
            entry["observedGeneration"] = pod.metadata.generation
        order = [item.type for item in pod.status.conditions]
        if condition.type not in order:
            order.append(condition.type)
        status["$setElementOrder/conditions"] = [{"type": name} for name in order]
        status["conditions"] = [entry]
    if nominated_node_name is not None and nominated_node_name != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated_node_name or None
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def find_condition(pod: Pod, kind: str) -> Condition | None:
    """A pod's condition of that type."""
    return next((item for item in pod.status.conditions if item.type == kind), None)


def rfc3339(now: float) -> str:
    """Seconds since the epoch as the API server writes times."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def truncated(note: str) -> str:
    """An event's note, cut to what the API server accepts, as upstream does."""
    data = note.encode()
    if len(data) <= NOTE_LIMIT:
        return note
    return data[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."
