"""Pods that are preempted together, as 1.37 has it where pod groups are on.

The pods of a group that leaves as one (`disruptionMode: all`) are one unit, wherever they run; all
others are units of their own. Pods of a group have the group's priority here. A dry run for a
single pod changes one node; that pods of a unit leave other nodes is told to the plugins that count
over nodes, and to nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from bayplan.api import Pod, PodGroup
from bayplan.framework import (
    ClusterObjects,
    NodeTable,
    PodInfo,
    Status,
    Victims,
    failed,
    unresolvable,
)
from bayplan.framework.runtime.filtering import run_add_pod, run_remove_pod
from bayplan.plugins.default_preemption.victims import NO_VICTIMS, Budgets, DryRun, start_time
from bayplan.plugins.gang_scheduling import group_key


class Unit(NamedTuple):
    """Pods that go together."""

    priority: int
    infos: list[PodInfo]
    of_group: bool


class Units:
    """The units of a cluster as it is now."""

    def __init__(self, table: NodeTable, objects: ClusterObjects) -> None:
        self._table = table
        self._groups = objects.pod_groups
        self._together: dict[str, list[PodInfo]] | None = None

    def priority(self, pod: Pod) -> int:
        """What a pod counts as: its group's priority, if it has a group."""
        group = self._group(pod)
        return pod.priority if group is None else group.spec.priority or 0

    def of(self, infos: Iterable[PodInfo]) -> list[Unit]:
        """The units that pods belong to, in the order in which they are met."""
        seen: set[str] = set()
        found: list[Unit] = []
        for info in infos:
            group = self._group(info.pod)
            if group is None or not group.spec.leaves_as_one:
                found.append(Unit(self.priority(info.pod), [info], bool(group_key(info.pod))))
            elif group.key not in seen:
                seen.add(group.key)
                found.append(Unit(group.spec.priority or 0, self._members()[group.key], True))
        return found

    def _group(self, pod: Pod) -> PodGroup | None:
        key = group_key(pod)
        return self._groups.get(key) if key else None

    def _members(self) -> dict[str, list[PodInfo]]:
        if self._together is None:
            self._together = {}
            for info in self._table.all_pods():
                if key := group_key(info.pod):
                    self._together.setdefault(key, []).append(info)
        return self._together


def by_importance(units: Sequence[Unit], now: float) -> list[Unit]:
    """Most important first: priority, groups, more pods, who started earlier."""

    def rank(unit: Unit) -> tuple[int, bool, int, float]:
        earliest = min(start_time(info.pod, now) for info in unit.infos)
        return -unit.priority, not unit.of_group, -len(unit.infos), earliest

    return sorted(units, key=rank)


def split(units: Sequence[Unit], budgets: Budgets) -> list[tuple[Unit, int]]:
    """The units, those with pods that break a budget first, and how many of each do."""
    broken = {info.uid for info in budgets.split([i for unit in units for i in unit.infos])[0]}
    counted = [(unit, sum(info.uid in broken for info in unit.infos)) for unit in units]
    return sorted(counted, key=lambda item: not item[1])


class UnitRun(DryRun):
    """A dry run in which units leave and come back."""

    def __init__(self, table: NodeTable, *given: Any) -> None:
        super().__init__(*given)
        self._table = table

    def choose(
        self, units: Sequence[Unit], budgets: Budgets, priority: int, now: float
    ) -> Victims | Status:
        """The pods that must go for a pod of some priority, or why that does not help."""
        units = [unit for unit in units if unit.priority < priority]
        if not units:
            return unresolvable(NO_VICTIMS)
        problem = self._each(units, away=True) or self._fits()
        if problem is not None:
            return problem
        counted = split(by_importance(units, now), budgets)
        gone: list[Unit] = []
        violations = 0
        for unit, broken in counted:
            problem = self._each([unit], away=False)
            if problem is None and self._fits(self._moving) is not None:
                problem = self._each([unit], away=True)
                gone.append(unit)
                violations += broken
            if problem is not None:
                return problem
        if not gone:
            return failed(f'expected at least one victim pod on node "{self._node.name}"')
        if len({bool(broken) for _, broken in counted}) > 1:
            gone = by_importance(gone, now)
        return Victims(tuple([info.pod for unit in gone for info in unit.infos]), violations)

    def _each(self, units: Sequence[Unit], *, away: bool) -> Status | None:
        for info in (info for unit in units for info in unit.infos):
            node, here = self._node, info.pod.node_name == self._node.name
            if here:
                (node.remove_pod if away else node.add_pod)(info)
            else:
                node = self._table.info_of(info.pod.node_name) or node
            tell = run_remove_pod if away else run_add_pod
            problem = tell(self._profile, self._state, self._pod, info, node)
            if problem is not None:
                return problem
        return None
