"""One cycle for a pod group that may have to stay together on some of the nodes.

Behind TopologyAwareWorkloadScheduling a plugin names placements, sets of nodes. The group is tried
on each of them, and taken back; of those on which it fits, the one that plugins score highest is
taken. Upstream draws among equals and tries them in the order of a Go map; here the first in the
order of the plugin wins, which is that of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine, UnknownNodeError
from bayplan.engine.loop.gangs import Gang
from bayplan.engine.loop.group_cycle import UNSCHEDULABLE, Cycle
from bayplan.framework import (
    Code,
    CycleState,
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    Profile,
    Status,
)
from bayplan.framework.runtime.placing import run_placement_generate, run_placement_score

Run = Callable[[Cycle], None]
"""Tries the pods of a group on the nodes that are searched."""
Preempt = Callable[[Decision], None]
"""Takes over who has to go for one pod; 1.37 never asks for that."""


def run_cycle(engine: Engine, gang: Gang, now: float, preempt: Preempt | None = None) -> Cycle:
    """One cycle of a group, as version and gates have it; if it is placed, its pods still are."""
    gates = engine.handles[0].gates
    modern = gates.since("1.37")

    def run(cycle: Cycle) -> None:
        if modern:
            cycle.run()
        else:
            cycle.run_each(preempt)

    if gates["TopologyAwareWorkloadScheduling"]:
        profile = engine.profiles[gang.items[0].pod.spec.scheduler_name]
        cycle = PlacementCycle(engine, profile, gang, now, modern=modern).run(run)
    else:
        cycle = Cycle(engine, gang, now)
        run(cycle)
    if modern:
        cycle.conclude()
    if cycle.placed and cycle.by_placement:
        cycle.redo()
    return cycle


class PlacementCycle:
    """Tries one group on several sets of nodes."""

    def __init__(
        self, engine: Engine, profile: Profile, gang: Gang, now: float, *, modern: bool
    ) -> None:
        self._engine = engine
        self._profile = profile
        self._gang = gang
        self._now = now
        self._modern = modern
        self._state = CycleState()
        pods = tuple(item.pod for item in gang.items)
        scheduled = tuple(with_nodes(engine, gang.scheduled))
        self._info = PodGroupInfo(gang.group, pods, scheduled)

    def run(self, run: Run) -> Cycle:
        """What came of the best placement, or of the first if the group fits on none."""
        parent = Placement("", tuple(self._engine.searched()))
        placements, status = run_placement_generate(self._profile, self._state, self._info, parent)
        if status is not None:
            return self._ended(status)
        cycles = []
        for placement in placements:
            cycle = self._cycle()
            try:
                with self._engine.within(placement.node_names):
                    run(cycle)
            except UnknownNodeError as problem:
                text = f"failed to assume pod group placement: node {problem} in placement "
                return self._ended(Status(Code.ERROR, f"{text}is not present in snapshot"))
            if cycle.error is not None:
                return cycle
            cycle.undo()
            cycles.append(cycle)
        fitting = [
            (placement, cycle)
            for placement, cycle in zip(placements, cycles, strict=True)
            if cycle.placed or cycle.waits_for_victims
        ]
        return self._best(fitting) if fitting else self._none_of(cycles)

    def _cycle(self) -> Cycle:
        cycle = Cycle(self._engine, self._gang, self._now)
        cycle.by_placement = True
        return cycle

    def _ended(self, status: Status) -> Cycle:
        """A cycle in which no pod was tried."""
        cycle = self._cycle()
        cycle.message, cycle.elsewhere = status.message, {status.plugin}
        cycle.error = None if status.rejected else status
        return cycle

    def _none_of(self, cycles: Sequence[Cycle]) -> Cycle:
        first = cycles[0]
        first.elsewhere = set[str]().union(*(cycle.rejectors for cycle in cycles))
        text = f"0/{len(cycles)} placements are available, first placement status: {first.cause}"
        first.message = f"{UNSCHEDULABLE}, {text}" if self._modern else text
        return first

    def _best(self, fitting: Sequence[tuple[Placement, Cycle]]) -> Cycle:
        if len(fitting) == 1:
            return fitting[0][1]
        proposed = [PodGroupAssignments(place, _assignments(cycle)) for place, cycle in fitting]
        states = [CycleState() for _ in fitting]
        scores = run_placement_score(self._profile, self._state, self._info, proposed, states)
        if isinstance(scores, Status):
            return self._ended(scores)
        return fitting[scores.index(max(scores))][1]


def with_nodes(engine: Engine, pods: Sequence[Pod]) -> list[tuple[Pod, str]]:
    """Pods that have a node, assumed or bound, each with its node."""
    infos = ((pod, engine.cache.pod(pod.uid)) for pod in pods)
    return [(pod, pod.node_name if info is None else info.node_name) for pod, info in infos]


def _assignments(cycle: Cycle) -> tuple[tuple[Pod, str], ...]:
    pairs = zip(cycle.decisions, cycle.nodes, strict=True)
    return tuple((decision.info.pod, node) for decision, node in pairs if node)
