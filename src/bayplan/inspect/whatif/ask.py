"""Asks what follows from changes: settles the cluster, changes it, compares, takes all back.

First the scheduler is given the time to place what is pending anyway; only what differs from that
is the effect of the change. With other settings (`--config`, `--emulated-version`) the same is done
in a second engine: what runs stays, what is pending is decided anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.engine.engine import Engine
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.settings import Settings
from bayplan.inspect.whatif.answer import Eviction, Move, NodeCount, Side, Start, Stuck, WhatIf
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.carrying import Carrying
from bayplan.inspect.whatif.changes import AnyChange, Apply, Remove
from bayplan.inspect.whatif.commands import scheduler_commands
from bayplan.inspect.whatif.headroom import headroom
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.settling import Settling, Waiting


def what_if(
    cluster: Cluster,
    changes: Sequence[AnyChange],
    *,
    settings: Settings | None = None,
    look: Callable[[Engine, Sequence[Waiting]], None] = lambda engine, waiting: None,
) -> WhatIf:
    """Carry changes out in the engine, tell what follows, and leave everything as it was.

    `look` is called with the engine while it holds the outcome, and the pods that then wait.
    """
    moving = any(isinstance(change, Remove | Apply) for change in changes)
    engine = cluster.fresh_engine() if moving else cluster.engine
    with Rehearsal(engine, cluster.now) as trial:
        budgets = Budgets(cluster)
        start = settle(cluster, trial, budgets)
        before = _side(engine, len(list(start.failed())))
        if settings is None:
            return _carry_out(cluster, trial, budgets, start, before, changes, look)
    other = cluster.fresh_engine(settings)
    with Rehearsal(other, cluster.now) as trial:
        budgets = Budgets(cluster)
        again = settle(cluster, trial, budgets)
        found = _carry_out(cluster, trial, budgets, again, before, changes, look)
    return _against(cluster, found, start, again, settings)


def settle(cluster: Cluster, trial: Rehearsal, budgets: Budgets) -> Settling:
    """Let the scheduler catch up with what is pending now."""
    settling = Settling(cluster, trial, budgets)
    for pod in cluster.pending():
        settling.add(pod)
    settling.run()
    return settling


def _carry_out(
    cluster: Cluster,
    trial: Rehearsal,
    budgets: Budgets,
    start: Settling,
    before: Side,
    changes: Sequence[AnyChange],
    look: Callable[[Engine, Sequence[Waiting]], None],
) -> WhatIf:
    carrying = Carrying(cluster, trial, budgets)
    was_pending = {waiting.pod.uid for waiting in start.failed()}
    for waiting in start.failed():
        carrying.settling.add(waiting.pod)
    carrying.settling.run()
    for change in changes:
        carrying.carry_out(change)
    look(trial.engine, list(carrying.settling.failed()))
    return _Reading(cluster, trial, carrying, was_pending).answer(start, before, changes)


class _Reading:
    """Reads off what became of every pod."""

    def __init__(
        self, cluster: Cluster, trial: Rehearsal, carrying: Carrying, was_pending: set[str]
    ) -> None:
        self._cluster, self._trial, self._carrying = cluster, trial, carrying
        self._settling = carrying.settling
        self._was_pending = was_pending
        self._causes = {item.pod.uid: item.by.key for item in self._settling.preempted}

    def answer(self, start: Settling, before: Side, changes: Sequence[AnyChange]) -> WhatIf:
        stuck = [*self._stuck(), *self._lost(), *self._blocked()]
        return WhatIf(
            changes=tuple(change.text for change in changes),
            ok=not any(item.source for item in stuck),
            moves=tuple(sorted(self._moves(), key=lambda m: (m.source, m.owner, m.pod))),
            starts=tuple(sorted(self._starts(), key=lambda s: (s.owner, s.pod))),
            stuck=tuple(sorted(stuck, key=lambda s: (s.state, s.reason, s.owner, s.pod))),
            evictions=tuple(self._evictions()),
            deleted=tuple(sorted(pod.key for pod in self._carrying.dropped)),
            anyway=tuple(_anyway(self._cluster, start)),
            still_pending=len(self._remaining()),
            before=before,
            after=_side(self._trial.engine, len(list(self._settling.failed()))),
            commands=tuple(self._carrying.commands),
            notes=tuple(self._notes()),
        )

    def _ran(self, waiting: Waiting) -> bool:
        return waiting.first.uid not in self._was_pending and waiting.pod is not waiting.first

    def _source(self, pod: Pod) -> str:
        """Where a pod ran; those that the scheduler placed meanwhile have no node in their spec."""
        if pod.spec.node_name:
            return pod.spec.node_name
        known = self._settling.sources.get(pod.uid, "")
        return known

    def _gone(self) -> set[str]:
        return {pod.uid for pod in self._carrying.dropped}

    def _moves(self) -> list[Move]:
        gone = self._gone()
        return [
            Move(
                pod=item.first.key,
                owner=title(self._cluster, item.first),
                source=self._source(item.first),
                target=item.node,
                why=self._why(item),
            )
            for item in self._settling.ends.values()
            if self._ran(item) and item.node and item.pod.uid not in gone
        ]

    def _why(self, item: Waiting) -> str:
        by = self._causes.get(item.first.uid)
        return f"preempted by {by}" if by else ""

    def _starts(self) -> list[Start]:
        gone = self._gone()
        return [
            Start(
                pod=item.first.key,
                owner=title(self._cluster, item.first),
                node=item.node,
                new=item.first.uid not in self._was_pending,
            )
            for item in self._settling.ends.values()
            if not self._ran(item) and item.node and item.pod.uid not in gone
        ]

    def _remaining(self) -> list[Waiting]:
        return [w for w in self._settling.failed() if w.first.uid in self._was_pending]

    def _stuck(self) -> list[Stuck]:
        found = [
            self._as_stuck(item.first, "pending", item.message, ran=self._ran(item))
            for item in self._settling.failed()
            if item.first.uid not in self._was_pending
        ]
        for pod, first in self._settling.unborn():
            ref = pod.controller
            name = "" if ref is None else ref.name
            why = f"not made: statefulset/{name} waits for its pods with lower ordinals"
            found.append(self._as_stuck(first, "pending", why))
        return found

    def _lost(self) -> list[Stuck]:
        return [
            self._as_stuck(pod, "lost", "it has no owner, so nothing makes it again")
            for uid, pod in self._settling.unmade.items()
            if uid not in self._gone()
        ]

    def _blocked(self) -> list[Stuck]:
        return [
            self._as_stuck(pod, "blocked", why, node=node)
            for pod, node, why in self._carrying.draining.blocked
        ]

    def _as_stuck(
        self, pod: Pod, state: str, reason: str, *, ran: bool = True, node: str = ""
    ) -> Stuck:
        source = (node or self._source(pod)) if ran else ""
        owner = title(self._cluster, pod)
        return Stuck(pod=pod.key, owner=owner, source=source, state=state, reason=reason)

    def _evictions(self) -> list[Eviction]:
        return [
            Eviction(
                pod=item.pod.key, node=item.node, by=item.by.key, violates_budget=item.violates
            )
            for item in self._settling.preempted
        ]

    def _notes(self) -> list[str]:
        draining, notes = self._carrying.draining, list(self._carrying.notes)
        if draining.lost_data:
            notes.append(f"{len(draining.lost_data)} pod(s) lose what is in their emptyDir volumes")
        notes += [f"not read: {u.what}: {u.without}" for u in self._cluster.origin.unread]
        return notes + list(self._cluster.settings.warnings)


def _anyway(cluster: Cluster, start: Settling) -> list[Start]:
    return [
        Start(pod=item.first.key, owner=title(cluster, item.first), node=item.node, new=False)
        for item in start.ends.values()
        if item.node and not item.first.spec.node_name
    ]


def _side(engine: Engine, pending: int) -> Side:
    table = engine.cache.table
    usable = int((~table.unschedulable).sum())
    return Side(
        nodes=NodeCount(total=table.count, usable=usable),
        running=engine.cache.pod_count,
        pending=pending,
        headroom=headroom(engine),
    )


def _against(
    cluster: Cluster, found: WhatIf, start: Settling, again: Settling, settings: Settings
) -> WhatIf:
    """Compare what is pending under the old and the new settings."""
    old = {waiting.first.uid: waiting for waiting in start.ends.values()}
    new = {waiting.first.uid: waiting for waiting in again.ends.values()}
    starts, stuck = list(found.starts), list(found.stuck)
    for uid, waiting in new.items():
        before, pod = old.get(uid), waiting.first
        owner = title(cluster, pod)
        if pod.spec.node_name:
            continue
        if waiting.node and (before is None or not before.node):
            starts.append(Start(pod=pod.key, owner=owner, node=waiting.node, new=False))
        elif before is not None and before.node and not waiting.node:
            stuck.append(
                Stuck(pod=pod.key, owner=owner, source="", state="pending", reason=waiting.message)
            )
    changed = (*found.changes, f"schedule with {settings.title}")
    commands = (*found.commands, *scheduler_commands(settings))
    return replace(
        found, changes=changed, starts=tuple(starts), stuck=tuple(stuck), commands=commands
    )
