"""What happens when an attempt fails: the pod goes back to the queue and its status says why.

The newest version of the pod decides: one that is gone or bound meanwhile is not queued again,
and one that was made anew under the same name is somebody else's.
"""

from __future__ import annotations

from bayplan.api import Condition, Pod
from bayplan.engine.loop.actions import (
    POD_SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Observe,
    PatchPod,
    find_condition,
)
from bayplan.engine.loop.shared import Failure, Shared
from bayplan.engine.queue import AlreadyQueuedError, QueuedPod
from bayplan.framework.contract.results import NominatingInfo, NominatingMode
from bayplan.framework.contract.status import Status
from bayplan.framework.runtime.profile import Profile


class Failures:
    """Handles failed attempts."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def fail(self, item: QueuedPod, profile: Profile, failure: Failure) -> None:
        """Queue the pod again and tell why it failed."""
        shared = self._shared
        rejected = failure.status.rejected
        result = "unschedulable" if rejected else "error"
        begun = shared.timing.begun if failure.begun is None else failure.begun
        if shared.tells_metrics:
            shared.actions.append(
                Observe(
                    item.pod,
                    profile.name,
                    result,
                    seconds=shared.timing.clock() - begun,
                    preemption_tried=failure.post_filtered,
                )
            )
        item.rejected_by(failure.unschedulable, failure.pending)
        uid = item.pod.metadata.uid
        current = shared.unassigned.get(item.key)
        if current is not None and current.metadata.uid != uid:
            shared.queue.done(uid)
            shared.note(item.pod, "dropped", "it was made anew under the same name")
            return
        pod = item.pod if current is None else current
        if current is None:
            shared.queue.done(uid)
            shared.note(pod, "dropped", "it was deleted or bound meanwhile")
        else:
            item.pod = current
            self._requeue(item, failure)
            shared.nominations.after_failure(current, failure.nominating)
        shared.record(
            pod, "Warning", "FailedScheduling", "Scheduling", failure.message, profile.name
        )
        if current is not None:
            reason = UNSCHEDULABLE if rejected else SCHEDULER_ERROR
            self.patch(current, reason, failure.message, failure.nominating)

    def _requeue(self, item: QueuedPod, failure: Failure) -> None:
        shared = self._shared
        try:
            shared.queue.add_unschedulable(item, shared.now, failure.group_size)
        except AlreadyQueuedError as problem:
            shared.note(item.pod, "not queued", str(problem))
            return
        shared.note(item.pod, f"failed, now {item.where}", failure.message)

    def patch(self, pod: Pod, reason: str, message: str, nominating: NominatingInfo | None) -> None:
        """Let a pod's status say why it waits, unless it does."""
        condition = Condition(type=POD_SCHEDULED, status="False", reason=reason, message=message)
        before = find_condition(pod, POD_SCHEDULED)
        same = before is not None and (before.status, before.reason, before.message) == (
            "False",
            reason,
            message,
        )
        node = None
        if nominating is not None and nominating.mode is NominatingMode.OVERRIDE:
            wanted = nominating.nominated_node_name
            node = wanted if wanted != pod.status.nominated_node_name else None
        if same and node is None:
            return
        patch = PatchPod(pod, None if same else condition, node, self._shared.wall)
        self._shared.actions.append(patch)


def one_node_message(status: Status) -> str:
    """The text of a rejection after a node was chosen: as if there were only that node."""
    reasons = ", ".join(sorted(f"1 {reason}" for reason in dict.fromkeys(status.all_reasons)))
    return f"0/1 nodes are available: {reasons}." if reasons else "0/1 nodes are available:"
