"""Keeps pods out of the active queue while they have scheduling gates."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import Pod
from bayplan.framework import (
    ActionType,
    ClusterEventWithHint,
    Handle,
    Resource,
    Status,
    on,
    unresolvable,
)
from bayplan.plugins.hints import is_this_pod

NAME = "SchedulingGates"


class SchedulingGates:
    """PreEnqueue: `spec.schedulingGates` must be empty."""

    name = NAME

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not pod.spec.scheduling_gates:
            return None
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return unresolvable(f"waiting for scheduling gates: [{gates}]")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        gone = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (on(Resource.POD, gone, is_this_pod),)


def new(args: None, handle: Handle) -> SchedulingGates:
    return SchedulingGates()
