"""Lets two schedulers place the same pods on the same nodes, from empty, and compares.

Static pods and those of daemon sets stay where they are; all others come one by one, oldest first,
as they came to the real cluster. A third engine has the first configuration and follows the
second's placements: where it would have chosen otherwise in the very same cluster the
configuration is the reason (a *direct* difference) and a plugin is named. All others follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.diff.answer import Changed, Diff, Totals
from bayplan.inspect.diff.blame import blame
from bayplan.inspect.errors import InspectError
from bayplan.inspect.settings import Settings
from bayplan.inspect.trial import unbound
from bayplan.inspect.whatif.owners import Remake, remake, title


def diff(cluster: Cluster, a: Settings, b: Settings) -> Diff:
    """Which pods would go elsewhere with `b` than with `a`, and who is responsible."""
    pods = arrivals(cluster)
    known = {*a.scheduler_names, *b.scheduler_names}
    missing = {pod.spec.scheduler_name for pod in pods} - known
    left = [p for p in pods if p.spec.scheduler_name not in missing]
    if pods and not left:
        names = ", ".join(sorted(missing))
        raise InspectError(f"no pod is scheduled by these configurations; pods name {names}")
    first, second = Run(cluster, a, pods), Run(cluster, b, pods)
    shadow = Run(cluster, a, pods)
    changed: list[Changed] = []
    for pod in left:
        told, planned = shadow.would(pod), second.would(pod)
        direct, reason = _node(told) != _node(planned), ("", "")
        if direct and told is not None and planned is not None:
            reason = blame(shadow.engine, told, second.engine, planned)
        one, two = first.step(pod), second.step(pod)
        shadow.follow(pod, two, second)
        if _node(one) != _node(two):
            changed.append(
                Changed(
                    pod=pod.key,
                    owner=title(cluster, pod),
                    a=_node(one),
                    b=_node(two),
                    direct=direct,
                    plugin=reason[0],
                    detail=reason[1],
                )
            )
    return Diff(
        a=a.title,
        b=b.title,
        pods=len(left),
        changed=tuple(changed),
        plugins=dict(Counter(c.plugin for c in changed if c.direct and c.plugin).most_common()),
        totals_a=first.totals(),
        totals_b=second.totals(),
        notes=_notes(cluster, a, b, missing),
    )


def arrivals(cluster: Cluster) -> list[Pod]:
    """The pods that a scheduler places, without their nodes, oldest first."""
    free = [
        pod
        for pod in cluster.pods.values()
        if not pod.finished and not pod.terminating and remake(pod) is not Remake.STAYS
    ]
    free.sort(key=lambda pod: (pod.metadata.creation_timestamp, -pod.priority, pod.key))
    return [unbound(pod) for pod in free if not pod.spec.scheduling_gates]


class Run:
    """One scheduler placing all pods."""

    def __init__(self, cluster: Cluster, settings: Settings, pods: Sequence[Pod]) -> None:
        self.engine: Engine = cluster.fresh_engine(settings)
        self._now = cluster.now
        self._pending: dict[str, Pod] = {}
        self._evictions = 0
        self.last_evicted: list[Pod] = []
        for pod in pods:
            info = self.engine.cache.pod(pod.uid)
            if info is not None:
                self.engine.cache.remove_pod(info.pod)

    def step(self, pod: Pod) -> Decision | None:
        """Place one pod; None if this scheduler does not decide for it."""
        if pod.spec.scheduler_name not in self.engine.profiles:
            self._pending[pod.uid] = pod
            return None
        self.last_evicted = []
        decision = self.engine.place(pod, self._now)
        if not decision.placed:
            victims = decision.victims
            for victim in () if victims is None else victims.pods:
                self._evict(victim)
            if victims is not None and victims.pods:
                decision = self.engine.place(pod, self._now)
        if not decision.placed:
            self._pending[pod.uid] = pod
        return decision

    def _evict(self, victim: Pod) -> None:
        info = self.engine.cache.pod(victim.uid)
        if info is not None:
            self.engine.cache.remove_pod(info.pod)
            self._evictions += 1
            self.last_evicted.append(victim)
            self._pending[victim.uid] = victim

    def would(self, pod: Pod) -> Decision | None:
        """What this scheduler would decide now, without doing it."""
        if pod.spec.scheduler_name not in self.engine.profiles:
            return None
        return self.engine.schedule(pod, self._now, post_filter=False)

    def follow(self, pod: Pod, decision: Decision | None, other: Run) -> None:
        """Put a pod where the other scheduler did, and take away whom it evicted."""
        for victim in other.last_evicted:
            self._evict(victim)
        if decision is None or not decision.placed:
            return
        placed = replace(pod, spec=replace(pod.spec, node_name=decision.node_name))
        self.engine.cache.add_pod(placed)

    def totals(self) -> Totals:
        table = self.engine.cache.table
        usable = ~table.unschedulable
        shares = []
        for number in (0, 1):
            offered = np.maximum(table.allocatable(number)[usable], 1)
            shares.append(table.requested(number)[usable] / offered)
        busiest = np.maximum(*shares) if usable.any() else np.zeros(1)
        used = table.pod_count[usable] > 0
        return Totals(
            placed=self.engine.cache.pod_count,
            pending=len(self._pending),
            evictions=self._evictions,
            nodes_used=int(used.sum()),
            packing=round(float(busiest[used].mean()), 4) if used.any() else 0.0,
            spread=round(float(busiest.std()), 4),
        )


def _node(decision: Decision | None) -> str:
    return "" if decision is None else decision.node_name


def _notes(cluster: Cluster, a: Settings, b: Settings, missing: set[str]) -> tuple[str, ...]:
    notes = [f"not read: {u.what}: {u.without}" for u in cluster.origin.unread]
    notes += [f"pods of scheduler {name} are left out" for name in sorted(missing)]
    return (*notes, *dict.fromkeys((*a.warnings, *b.warnings)))
