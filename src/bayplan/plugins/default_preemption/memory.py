"""Dry runs that need not be repeated: what taking pods off a node came to for pods of one class.

When every filter that the pod did not skip looks only at the node and the pods on it, a dry run
hangs on nothing else: not on other nodes, not on who asked. Its outcome is then good as long as the
same pod objects run there and no node, disruption budget or device class changes. The table's
journal is not enough to tell, since it does not name changes that only preemption reads, such as a
start time. Nodes to which pods are nominated are always tried anew, and so are those where a pod's
start lies in the future: its importance would change with the clock.
"""

from __future__ import annotations

from collections.abc import Hashable

from bayplan.api import Pod
from bayplan.framework import (
    ClusterObjects,
    CycleState,
    Depends,
    NodeTable,
    Profile,
    Status,
    Victims,
)

Outcome = Victims | Status


class Memory:
    """Outcomes by row for one class of pods, each with the pods that ran there."""

    def __init__(self) -> None:
        self._stamp: Hashable = None
        self._outcomes: dict[int, tuple[list[Pod], Outcome]] = {}

    def follow(self, table: NodeTable, objects: ClusterObjects) -> None:
        """Forget everything if a node or a budget changed; call before each use."""
        budgets, devices = objects.pod_disruption_budgets, objects.device_classes
        stamp = (table.nodes_revision, budgets.revision, devices.revision)
        if stamp != self._stamp:
            self._stamp, self._outcomes = stamp, {}

    def get(self, row: int, pods: list[Pod]) -> Outcome | None:
        known = self._outcomes.get(row)
        return known[1] if known is not None and known[0] == pods else None

    def keep(self, row: int, pods: list[Pod], outcome: Outcome) -> None:
        self._outcomes[row] = (pods, outcome)


class Memories:
    """The memories of the classes that preempted last."""

    def __init__(self, limit: int) -> None:
        self._limit = max(1, limit)
        self._known: dict[bytes, Memory] = {}

    def of(self, signature: bytes) -> Memory:
        memory = self._known.pop(signature, None)
        if memory is None:
            while len(self._known) >= self._limit:
                del self._known[next(iter(self._known))]
            memory = Memory()
        self._known[signature] = memory  # last used last
        return memory


def hangs_on_rows_only(profile: Profile, state: CycleState, pod: Pod) -> bool:
    """Whether every filter that runs for the pod looks at one node and its pods alone."""
    asked = {plugin.name: plugin for plugin in (*profile.filter, *profile.extensions)}
    return all(
        name in state.skip_filter
        or (hasattr(plugin, "depends_on") and plugin.depends_on(pod) is not Depends.CLUSTER)
        for name, plugin in asked.items()
    )
