"""A queue with two profiles' worth of made-up plugins."""

from __future__ import annotations

from bayplan.api import Pod
from bayplan.engine.queue import HintIndex, SchedulingQueue
from bayplan.framework.contract.events import ActionType, QueueingHint, Resource, on
from bayplan.framework.contract.status import unresolvable
from bayplan.plugins.priority_sort import priority_key

NODE_ADD_ONLY = "NodeWatcher"
POD_DELETE = "PodWatcher"
PICKY = "Picky"
BROKEN = "Broken"
GATES = "Gates"


class FakeNominations:
    """Remembers what the queue said."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}

    def from_status(self, pod: Pod) -> None:
        if pod.status.nominated_node_name:
            self.nodes[pod.uid] = pod.status.nominated_node_name

    def updated(self, old: Pod, new: Pod) -> None:
        kept = self.nodes.pop(old.uid, "")
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            if kept:
                self.nodes[new.uid] = kept
        else:
            self.from_status(new)

    def deleted(self, pod: Pod) -> None:
        self.nodes.pop(pod.uid, None)


def picky(pod, old, new):
    """Only a node whose label names the pod is worth a try."""
    wanted = new is not None and new.metadata.labels.get("for") == pod.name
    return QueueingHint.QUEUE if wanted else QueueingHint.SKIP


def broken(pod, old, new):
    raise ValueError("a hint that fails")


def same_pod(pod, old, new):
    return QueueingHint.QUEUE if new is not None and new.uid == pod.uid else QueueingHint.SKIP


EVENTS = {
    NODE_ADD_ONLY: (on(Resource.NODE, ActionType.ADD),),
    POD_DELETE: (on(Resource.POD, ActionType.DELETE),),
    PICKY: (on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, picky),),
    BROKEN: (on(Resource.NODE, ActionType.UPDATE_NODE_TAINT, broken),),
    GATES: (on(Resource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, same_pod),),
}


def gate(pod: Pod):
    if pod.spec.scheduling_gates:
        return unresolvable("waiting for scheduling gates")
    return None


def make_queue(**options) -> SchedulingQueue:
    return SchedulingQueue(
        HintIndex({"default-scheduler": EVENTS}),
        FakeNominations(),
        **{
            "gates": {"default-scheduler": [(GATES, gate)]},
            "sort_key": priority_key,
            "problem": lambda *told: None,
            **options,
        },
    )
