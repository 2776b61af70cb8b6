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
from bayplan.cluster.pod_groups import GroupForest, group_key
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
from bayplan.plugins.go_sort import go_sorted


class Unit(NamedTuple):
    """Pods that go together."""

    priority: int
    infos: list[PodInfo]
    of_group: bool
    place: int
    """Among the units that were found with it."""


class Units:
    """The units of a cluster as it is now."""

    def __init__(
        self, table: NodeTable, objects: ClusterObjects, *, composite: bool = False
    ) -> None:
        self._table = table
        self._forest = GroupForest(objects, composite=composite)
        self._groups = objects.pod_groups
        self._together: dict[str, list[PodInfo]] | None = None

    def priority(self, pod: Pod) -> int:
        """What a pod counts as: the priority of the group at the top, if it has a group."""
        group = self._group(pod)
        if group is None:
            return pod.priority
        *_, top = self._forest.above(group)
        return top.spec.priority or 0

    def of(self, infos: Iterable[PodInfo]) -> list[Unit]:
        """The units that pods belong to, in the order in which they are met."""
        seen: set[str] = set()
        found: list[Unit] = []
        for info in infos:
            group = self._group(info.pod)
            above = () if group is None else self._forest.above(group)
            whole = [each for each in above if each.spec.leaves_as_one]
            if not whole:
                of_group = bool(group_key(info.pod))
                found.append(Unit(self.priority(info.pod), [info], of_group, len(found)))
            elif (key := f"{whole[-1].KIND} {whole[-1].key}") not in seen:
                seen.add(key)
                keys = [leaf.key for leaf in self._forest.leaves(whole[-1])]
                infos = [one for each in keys for one in self._members().get(each, ())]
                found.append(Unit(self.priority(info.pod), infos, True, len(found)))
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
    """Most important first: priority, groups, more pods, who started earlier.

    Units of which no pod has started are as old as the moment in which they were found.
    """

    def rank(unit: Unit) -> tuple[int, bool, int, float, int]:
        earliest = min(start_time(info.pod, now) for info in unit.infos)
        started = any(info.pod.status.start_time for info in unit.infos)
        place = 0 if started else unit.place
        return -unit.priority, not unit.of_group, -len(unit.infos), earliest, place

    return go_sorted(units, [rank(unit) for unit in units])


def split(units: Sequence[Unit], budgets: Budgets) -> list[tuple[Unit, int]]:
    """The units, those with pods that break a budget first, and how many of each do."""
    left = budgets.allowed()
    counted = [(unit, sum(budgets.breaks(info, left) for info in unit.infos)) for unit in units]
    return sorted(counted, key=lambda item: not item[1])


def protected_first(units: Sequence[Unit], budgets: Budgets) -> list[Unit]:
    """The units, those with a pod that breaks a budget first; in 1.36 the others are not asked."""
    left = budgets.allowed()
    broken = [any(budgets.breaks(info, left) for info in unit.infos) for unit in units]
    return [
        unit
        for wanted in (True, False)
        for unit, breaks in zip(units, broken, strict=True)
        if breaks is wanted
    ]


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
