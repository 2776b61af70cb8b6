"""Pods alike that wait in one row are refused in one go, for the reasons of the first.

When a verdict has just been passed on, the pods that come next in the queue and are alike would go
the same way, one by one: be popped, be found in `verdicts`, fail, wait. Nothing can happen between
them, so what each of them leaves behind (an attempt, an event, a condition if it changed, a note, a
record) is written here without the way there. A pod about which anything else is to be said (it
is being deleted, was nominated or assumed, belongs to a group) ends the row.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api import Pod
from bayplan.engine.loop.actions import (
    POD_SCHEDULED,
    UNSCHEDULABLE,
    Observe,
    RecordEvent,
    truncated,
)
from bayplan.engine.loop.failure import Failures
from bayplan.engine.loop.shared import Shared
from bayplan.engine.loop.verdicts import Verdict, Verdicts
from bayplan.engine.queue import QueuedPod
from bayplan.errors import BayplanError


class Refusals:
    """Refuses pods whose verdict is known beyond doubt."""

    def __init__(self, shared: Shared, failures: Failures, verdicts: Verdicts) -> None:
        self._shared = shared
        self._failures = failures
        self._verdicts = verdicts

    def go_on(self, most: int) -> int:
        """Refuse up to `most` of the next pods; returns how many there were."""
        verdict = self._verdicts.sure
        if verdict is None or len(self._shared.nominations.nominator):
            return 0
        failure = verdict.failure
        waits = failure.status.rejected and (failure.unschedulable or failure.pending)
        if not waits or failure.group_size or not self._verdicts.hold():
            return 0
        return self._refuse(verdict, most)

    def _refuse(self, verdict: Verdict, most: int) -> int:
        shared, failure, profile = self._shared, verdict.failure, verdict.decision.profile.name
        wanted = self._alike(profile, verdict.decision.info.signature)
        items = shared.queue.pop_while(wanted, most)
        if not items:
            return 0
        shared.queue.refused(items, failure.unschedulable, failure.pending, shared.now)
        act, note, wall = shared.actions.append, shared.stories.note, shared.wall
        clock, begun = shared.timing.clock, shared.timing.clock()
        events, metrics = shared.tells_events, shared.tells_metrics
        text = truncated(failure.message)
        for item in items:
            pod = item.pod
            if metrics:
                ended = clock()
                act(
                    Observe(
                        pod,
                        profile,
                        "unschedulable",
                        preemption_tried=failure.post_filtered,
                        seconds=ended - begun,
                    )
                )
                begun = ended
            note(wall, pod.metadata.uid, item.key, "failed, now unschedulable", failure.message)
            if events:
                act(RecordEvent(pod, "Warning", "FailedScheduling", "Scheduling", text, profile))
            if not _says(pod, failure.message):
                self._failures.patch(pod, UNSCHEDULABLE, failure.message, failure.nominating)
        shared.timing.passed_on(len(items))
        self._verdicts.passed_on_to(verdict, items, wall)
        return len(items)

    def _alike(self, profile: str, signature: bytes) -> Callable[[QueuedPod], bool]:
        """Tells whether a pod is alike, and nothing is to be said about this very one."""
        current, signature_of = self._shared.unassigned.get, self._verdicts.signature_of
        assumed = self._shared.cache.is_assumed

        def wanted(item: QueuedPod) -> bool:
            pod = item.pod
            spec, meta = pod.spec, pod.metadata
            if (
                spec.scheduler_name != profile
                or spec.node_name
                or spec.scheduling_group is not None
                or pod.status.nominated_node_name
                or meta.deletion_timestamp
                or current(item.key) is not pod
                or assumed(meta.uid)
            ):
                return False
            try:
                return (item.signature or signature_of(item)) == signature
            except BayplanError:
                return False  # its own attempt will tell

        return wanted


def _says(pod: Pod, message: str) -> bool:
    """Whether a pod's status tells already that it is unschedulable, and why."""
    for condition in pod.status.conditions:
        if condition.type == POD_SCHEDULED:
            return (
                condition.message == message
                and condition.reason == UNSCHEDULABLE
                and condition.status == "False"
            )
    return False
