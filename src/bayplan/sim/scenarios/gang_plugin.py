"""A gang as a Permit plugin: pods of a group wait for each other before any of them is bound.

The group is a label, its size an annotation. A pod that has found a node waits until as many of
its group wait; if that takes too long all give their nodes back and try again later. In-tree gang
scheduling does the same with PodGroup objects, where the API server has them.
"""

from bayplan.api import Pod
from bayplan.framework import Code, CycleState, Handle, Status

NAME = "Gang"
GROUP, SIZE = "example.com/gang", "example.com/gang-size"
SECONDS = 10.0


class Gang:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        group = pod.metadata.labels.get(GROUP)
        if group is None:
            return None, 0.0
        others = [w for w in self._handle.waiting if w.pod.metadata.labels.get(GROUP) == group]
        if len(others) + 1 < int(pod.metadata.annotations.get(SIZE, "1")):
            return Status(Code.WAIT, "waiting for the rest of the gang"), SECONDS
        for waiting in others:
            waiting.allow(NAME)
        return None, 0.0


def new(args: object, handle: Handle) -> Gang:
    return Gang(handle)


PLUGINS = {NAME: new}
