"""Room for a whole pod group, as 1.37 makes it: the domain is the cluster.

All less important pods are taken off; if the group then finds its nodes, they are put back one by
one, the most important first and those protected by a disruption budget before the others. Who
takes a place that the group was given is a victim. Pods of a group that leaves as one count as one.
PreFilter is not asked again meanwhile: its plugins are told who comes back, and may count in
another way then.
While the group's pods are judged by the node they are on alone, only those are asked again that
share a node with who came back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bayplan.api import Pod
from bayplan.cluster.pod_groups import are_composite
from bayplan.framework import (
    Code,
    CycleState,
    GroupTrial,
    Handle,
    NodeInfo,
    NominatingInfo,
    NominatingMode,
    PodGroupInfo,
    PodGroupPostFilterResult,
    PodInfo,
    Profile,
    ProposedAssignment,
    Status,
    unresolvable,
    unschedulable,
)
from bayplan.framework.runtime.filtering import run_add_pod, run_remove_pod
from bayplan.plugins.default_preemption.memory import hangs_on_rows_only
from bayplan.plugins.default_preemption.units import Unit, Units, by_importance, split
from bayplan.plugins.default_preemption.victims import Budgets, compile_budgets, is_leaving_for_us

NEVER = "not eligible due to preemptionPolicy=Never."
NOBODY = "No preemption victims found for incoming preemptor"

Told = Callable[[Profile, CycleState, Pod, PodInfo, NodeInfo], Status | None]
Answer = tuple[PodGroupPostFilterResult | None, Status]


class GroupPreemption:
    """One search for victims."""

    def __init__(self, handle: Handle, group: PodGroupInfo, trial: GroupTrial) -> None:
        self._handle = handle
        self._group = group
        self._priority = group.group.spec.priority or 0
        self._trial = trial
        composite = are_composite(handle.gates)
        self._units = Units(handle.table, handle.objects, composite=composite)
        self._problem: Status | None = None
        """What a plugin failed with that was told who comes or goes."""

    def find(self) -> Answer:
        """Who has to go for the group, or why nobody can."""
        pods = self._group.unscheduled
        if any(pod.spec.preemption_policy == "Never" for pod in pods):
            return None, unschedulable(NEVER)
        if self._under_way(pods):
            nominations = {pod.uid: to(pod.status.nominated_node_name) for pod in pods}
            text = "ongoing preemption on nominated nodes"
            return PodGroupPostFilterResult(nominations), Status(Code.SUCCESS, text)
        every = self._units.of(self._handle.table.all_pods())
        units = [unit for unit in every if unit.priority < self._priority]
        if not units:
            return None, unresolvable(NOBODY)
        take_off(self._trial, units)
        proposed, status = self._trial.schedule()
        if status is not None:
            return None, status
        placed = [each for each in proposed if each.node_name]
        gone = self._victims(placed, units)
        if self._problem is not None:
            return None, self._problem
        victims = pods_of(by_importance(gone, self._handle.now))
        text = f"found a placement for podgroup, preempting {len(victims)} victims"
        nominations = {each.info.uid: to(each.node_name) for each in placed}
        return PodGroupPostFilterResult(nominations, victims), Status(Code.SUCCESS, text)

    def _under_way(self, pods: Iterable[Pod]) -> bool:
        """Whether victims are leaving the nodes that the group was promised."""
        names = {pod.status.nominated_node_name for pod in pods} - {""}
        return any(
            self._units.priority(info.pod) < self._priority and is_leaving_for_us(info.pod)
            for name in names
            for info in self._handle.table.pods_of(name)
        )

    def _victims(self, placed: Sequence[ProposedAssignment], units: Sequence[Unit]) -> list[Unit]:
        """The units that cannot stay; the others are back on their nodes."""
        placed = self._trial.follow(placed)
        kinds = {each.info.signature: each for each in placed}.values()
        alone = self._trial.fits(placed) and all(self._stands_alone(each) for each in kinds)
        by_node: dict[str, list[ProposedAssignment]] = {}
        for each in placed:
            by_node.setdefault(each.node_name, []).append(each)
        gone: list[Unit] = []
        for unit in in_order(units, self._handle):
            put_back(self._trial, unit)
            asked = placed
            if alone:
                names = dict.fromkeys(info.node_name for info in unit.infos)
                asked = [each for name in names for each in by_node.get(name, ())]
            self._tell(run_add_pod, unit, asked)
            if self._problem is None and self._trial.fits(asked):
                continue
            take_off(self._trial, [unit])
            gone.append(unit)
            self._tell(run_remove_pod, unit, asked)
            if self._problem is not None:
                break
        return gone

    def _stands_alone(self, placed: ProposedAssignment) -> bool:
        """Whether a pod that fits on a node does so whatever happens on others."""
        assert self._handle.profile is not None
        return hangs_on_rows_only(self._handle.profile, placed.state, placed.info.pod)

    def _tell(self, call: Told, unit: Unit, placed: Sequence[ProposedAssignment]) -> None:
        """Let PreFilter plugins know that a unit came back, or that it went."""
        profile = self._handle.profile
        assert profile is not None
        for info in unit.infos:
            node = self._handle.table.info_of(info.node_name)
            assert node is not None
            for each in placed:
                if self._problem is None:
                    self._problem = call(profile, each.state, each.info.pod, info, node)


def in_order(units: Sequence[Unit], handle: Handle) -> list[Unit]:
    """In which order units come back: those that a budget protects, then the most important."""
    return [unit for unit, _ in split(by_importance(units, handle.now), budgets_of(handle))]


def budgets_of(handle: Handle) -> Budgets:
    compiled = compile_budgets(list(handle.objects.pod_disruption_budgets))
    return Budgets(compiled, all_count=False)


def pods_of(units: Iterable[Unit]) -> tuple[Pod, ...]:
    return tuple(info.pod for unit in units for info in unit.infos)


def take_off(trial: GroupTrial, units: Iterable[Unit]) -> None:
    for unit in units:
        for info in unit.infos:
            trial.remove_pod(info)


def put_back(trial: GroupTrial, unit: Unit) -> None:
    for info in unit.infos:
        trial.add_pod(info)


def to(node_name: str) -> NominatingInfo:
    return NominatingInfo(node_name, NominatingMode.OVERRIDE)
