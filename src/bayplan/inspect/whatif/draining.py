"""Empties nodes: by the rules of `kubectl drain`, or by losing them.

A drain cordons all of its nodes, then takes them one after the other. Static pods and those of
daemon sets stay. Pods without an owner are deleted only with `--force`, and pods with an emptyDir
only with `--delete-emptydir-data`; the answer says which flags the drain needs. All pods whose
budget allows it are evicted at once; the rest is tried again when what was made in their place has
a node, until nothing more can go. A lost node asks no budget, and nothing on it has a grace period.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from bayplan.api import Node, Pod, Taint
from bayplan.framework import PodInfo
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.owners import Remake, is_daemon, remake
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.settling import Settling

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class Draining:
    """The nodes that are emptied in one rehearsal."""

    def __init__(self, trial: Rehearsal, settling: Settling, budgets: Budgets) -> None:
        self._trial, self._settling, self._budgets = trial, settling, budgets
        self.blocked: list[tuple[Pod, str, str]] = []
        """Pod, node and why it could not be evicted."""
        self.lost_data: list[Pod] = []
        """Pods whose emptyDir is deleted."""
        self.unmanaged: list[Pod] = []
        self.with_node: list[Pod] = []
        """Pods of daemon sets, and static ones, that go with their lost node."""

    def drain(self, names: Sequence[str]) -> str:
        """Cordon all, then evict node by node; returns the command that does it for real."""
        self._cordon(names)
        flags: set[str] = set()
        for name in names:
            flags |= self._drain_one(name)
        order = ("--ignore-daemonsets", "--delete-emptydir-data", "--force")
        used = [flag for flag in order if flag in flags]
        return " ".join(("kubectl drain", *names, *used))

    def _drain_one(self, name: str) -> set[str]:
        flags: set[str] = set()
        waiting: list[PodInfo] = []
        for info in self._trial.pods_on(name):
            how = remake(info.pod)
            if how is Remake.STAYS:
                if is_daemon(info.pod):
                    flags.add("--ignore-daemonsets")
                continue
            if info.terminating:
                continue
            if how is Remake.NEVER:
                flags.add("--force")
                self.unmanaged.append(info.pod)
            if any(volume.empty_dir is not None for volume in info.pod.spec.volumes):
                flags.add("--delete-emptydir-data")
                self.lost_data.append(info.pod)
            waiting.append(info)
        self._evict(name, waiting)
        return flags

    def _evict(self, name: str, waiting: list[PodInfo]) -> None:
        while waiting:
            left: list[PodInfo] = []
            for info in waiting:
                if self._budgets.refusal(info.pod):
                    left.append(info)
                else:
                    self._settling.evict(info)
            if len(left) == len(waiting):
                break
            self._settling.run()
            waiting = [i for i in left if self._trial.engine.cache.pod(i.uid) is not None]
        for info in waiting:
            self.blocked.append((info.pod, name, self._budgets.refusal(info.pod)))

    def _cordon(self, names: Sequence[str]) -> None:
        for name in names:
            self._trial.put(cordoned(self._node(name), unschedulable=True))

    def _node(self, name: str) -> Node:
        table = self._trial.engine.cache.table
        row = table.row_of(name)
        assert row is not None
        return table.nodes[row]

    def lose(self, names: Sequence[str], *, remove: bool = True) -> None:
        """Nodes are gone at once; without `remove` they only cannot be used, which is quicker."""
        self._cordon(names)
        for name in names:
            for info in self._trial.pods_on(name):
                if remake(info.pod) is Remake.STAYS:
                    self._settling.drop(info)
                    self.with_node.append(info.pod)
                else:
                    self._settling.lose(info)
        if remove:
            for name in names:
                self._trial.delete(self._node(name))


def cordoned(node: Node, unschedulable: bool) -> Node:
    """A node marked (un)schedulable, with the taint that the node controller keeps in step."""
    taints = tuple(t for t in node.spec.taints if t.key != UNSCHEDULABLE.key)
    if unschedulable:
        taints += (UNSCHEDULABLE,)
    return replace(node, spec=replace(node.spec, unschedulable=unschedulable, taints=taints))
