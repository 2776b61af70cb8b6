"""Reads off what became of every pod, against what would have come of it in any case.

A chain of pods begins with one that is there now, or that a change brings, and ends with what its
owner made of it last. Where the first ran and where the last is decides what is told: a move, a
start, a pod that is stuck.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.api import Pod
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.whatif.answer import Eviction, Move, Side, Start, Stuck, WhatIf
from bayplan.inspect.whatif.carrying import Carrying
from bayplan.inspect.whatif.changes import AnyChange
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.whatif.settling import Settling, Waiting

LOST = "it has no owner, so nothing makes it again"
ORDERED = "not made: statefulset/{} waits for its pods with lower ordinals"


class Anyway:
    """What the scheduler does without any change."""

    def __init__(self, settled: Settling) -> None:
        self.nodes = {uid: waiting.node for uid, waiting in settled.ends.items()}
        """Where chains end, by uid of their first; empty for those without a node."""
        self.nodes |= dict.fromkeys(settled.unmade, "")
        self.nodes |= {first.uid: "" for _, first in settled.unborn()}
        self.evicted = {item.pod.uid for item in settled.preempted}

    def ends(self, first: Pod, node: str) -> bool:
        """Whether a chain would end on that node (or on none, if that is empty) as well."""
        return self.nodes.get(first.uid) == node


class Reading:
    """What became of every pod that was touched."""

    def __init__(self, cluster: Cluster, carrying: Carrying, anyway: Anyway | None = None) -> None:
        self._cluster, self._carrying = cluster, carrying
        self._settling, self._anyway = carrying.settling, anyway or Anyway(carrying.settling)
        self._causes = {item.pod.uid: item.by.key for item in self._settling.preempted}
        gone = {pod.uid for pod in carrying.dropped}
        self._ends = [e for e in self._settling.ends.values() if e.pod.uid not in gone]
        self._gone = gone

    def answer(self, changes: Sequence[AnyChange], before: Side, after: Side) -> WhatIf:
        stuck = list(self._all_stuck())
        return WhatIf(
            changes=tuple(change.text for change in changes),
            ok=not any(item.source for item in stuck),
            moves=tuple(sorted(self._moves(), key=lambda m: (m.source, m.owner, m.pod))),
            starts=tuple(sorted(self._starts(anyway=False), key=lambda s: (s.owner, s.pod))),
            stuck=tuple(sorted(stuck, key=lambda s: (s.state, s.reason, s.owner, s.pod))),
            evictions=tuple(self._evictions()),
            deleted=tuple(sorted(self._deleted())),
            anyway=tuple(self._starts(anyway=True)),
            still_pending=sum(1 for item in self._settling.failed() if self._waits_anyway(item)),
            before=before,
            after=after,
            commands=tuple(self._carrying.commands),
            notes=tuple(self._notes()),
            version=self._cluster.settings.gates.version,
            version_note=self._cluster.version_note,
        )

    def losses(self) -> list[Stuck]:
        """Pods that run now and would not."""
        return [item for item in self._all_stuck() if item.source]

    def _all_stuck(self) -> Iterator[Stuck]:
        yield from self._pending()
        yield from self._unborn()
        yield from self._refused()
        yield from self._lost()
        yield from self._blocked()

    def _now(self, pod: Pod) -> Pod | None:
        """The pod as it is in the cluster now, if it is there."""
        found = self._cluster.pods.get(pod.key)
        return found if found is not None and found.uid == pod.uid else None

    def _ran(self, pod: Pod) -> str:
        """Where a pod runs now; empty if it waits, or is new."""
        now = self._now(pod)
        return "" if now is None else now.spec.node_name

    def _waits_anyway(self, item: Waiting) -> bool:
        waits = self._now(item.first) is not None and not self._ran(item.first)
        return waits and self._anyway.ends(item.first, "")

    def _deleted(self) -> Iterator[str]:
        """Pods that are there now; one that a change made and another deleted was never there."""
        for pod in self._carrying.dropped:
            known = self._settling.known.get(pod.uid)
            if self._now(pod if known is None else known.first) is not None:
                yield pod.key

    def _moves(self) -> Iterator[Move]:
        for item in self._ends:
            source = self._ran(item.first)
            if source and item.node and item.pod is not item.first:
                by = self._causes.get(item.first.uid)
                yield Move(
                    pod=item.first.key,
                    owner=title(self._cluster, item.first),
                    source=source,
                    target=item.node,
                    why=f"preempted by {by}" if by else "",
                    anyway=self._anyway.ends(item.first, item.node),
                )

    def _starts(self, *, anyway: bool) -> Iterator[Start]:
        for item in self._ends:
            if not item.node or self._ran(item.first):
                continue
            if bool(self._anyway.nodes.get(item.first.uid)) is anyway:
                yield Start(
                    pod=item.first.key,
                    owner=title(self._cluster, item.first),
                    node=item.node,
                    new=self._now(item.first) is None,
                )

    def _pending(self) -> Iterator[Stuck]:
        for item in self._settling.failed():
            if not self._waits_anyway(item):
                yield self._stuck(item.first, "pending", item.message)

    def _unborn(self) -> Iterator[Stuck]:
        for pod, first in self._settling.unborn():
            name = "" if pod.controller is None else pod.controller.name
            yield self._stuck(first, "pending", ORDERED.format(name))

    def _refused(self) -> Iterator[Stuck]:
        for item in self._settling.refused():
            yield self._stuck(item.first, "refused", item.message)

    def _lost(self) -> Iterator[Stuck]:
        for uid, pod in self._settling.unmade.items():
            if uid not in self._gone:
                yield self._stuck(pod, "lost", LOST)

    def _blocked(self) -> Iterator[Stuck]:
        for pod, node, why in self._carrying.draining.blocked:
            yield self._stuck(pod, "blocked", why, node)

    def _stuck(self, first: Pod, state: str, reason: str, node: str = "") -> Stuck:
        return Stuck(
            pod=first.key,
            owner=title(self._cluster, first),
            source=node or self._ran(first),
            state=state,
            reason=reason,
            new=self._now(first) is None,
            anyway=self._anyway.ends(first, ""),
        )

    def _evictions(self) -> Iterator[Eviction]:
        """Of pods that run now; what is new may be placed and make way before anybody sees it."""
        for item in self._settling.preempted:
            if not self._ran(item.first):
                continue
            yield Eviction(
                pod=item.pod.key,
                node=item.node,
                by=item.by.key,
                violates_budget=item.violates,
                anyway=item.pod.uid in self._anyway.evicted,
            )

    def _notes(self) -> Iterator[str]:
        yield from self._carrying.notes
        lost = len(self._carrying.draining.lost_data)
        if lost:
            yield f"{lost} pod(s) lose what is in their emptyDir volumes"
        daemons = len(self._carrying.draining.with_node)
        if daemons:
            yield f"{daemons} pod(s) of daemon sets, or static ones, go with their nodes"
        for item in self._cluster.origin.unread:
            yield f"not read: {item.what}: {item.without}"
        yield from self._cluster.settings.warnings
