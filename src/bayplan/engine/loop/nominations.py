"""Which node a pod is nominated to, by the rules of kube-scheduler's nominator.

The nominator itself is the framework's, because filters read it; here are the rules for pods that
come, change and go. A nomination made in memory survives an update of the pod that does not
mention one: the update was on its way before the patch.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api import Pod
from bayplan.cluster.info import PodInfo
from bayplan.cluster.nominator import Nominator
from bayplan.framework.contract.results import NominatingInfo, NominatingMode


class NominationRules:
    """Keeps a nominator up to date; what the queue calls `Nominations`."""

    def __init__(self, nominator: Nominator, info: Callable[[Pod], PodInfo]) -> None:
        self.nominator = nominator
        self._info = info

    def from_status(self, pod: Pod) -> None:
        node = pod.status.nominated_node_name
        if node:
            self.nominator.add(self._info(pod), node)
        elif len(self.nominator):
            self.nominator.delete(pod.metadata.uid)

    def updated(self, old: Pod, new: Pod) -> None:
        if not len(self.nominator) and not new.status.nominated_node_name:
            return
        node = new.status.nominated_node_name
        if not node and not old.status.nominated_node_name:
            node = self.nominator.node_of(old.metadata.uid)
        self.nominator.delete(old.metadata.uid)
        if node:
            self.nominator.add(self._info(new), node)

    def deleted(self, pod: Pod) -> None:
        if len(self.nominator):
            self.nominator.delete(pod.metadata.uid)

    def after_failure(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Apply what a failed attempt decided; None leaves the pod's own wish in place."""
        if nominating is not None and nominating.mode is NominatingMode.OVERRIDE:
            node = nominating.nominated_node_name
        else:
            node = pod.status.nominated_node_name
        self.deleted(pod)
        if node:
            self.nominator.add(self._info(pod), node)
