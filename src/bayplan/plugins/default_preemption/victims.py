"""Which pods would have to go on one node: a dry run on a copy of the node.

All less important pods are taken off; if the pod then fits, they are put back one by one, the most
important first and those protected by a disruption budget before the others. Who no longer fits is
a victim.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from bayplan.api import Pod, PodDisruptionBudget, parse_time
from bayplan.api.labels import Selector, SelectorError, compile_selector
from bayplan.framework import (
    Code,
    CycleState,
    Depends,
    NodeInfo,
    PodInfo,
    Profile,
    Status,
    Victims,
    failed,
    unresolvable,
)
from bayplan.framework.runtime.filtering import (
    run_add_pod,
    run_filters_with_nominated,
    run_remove_pod,
)

NO_VICTIMS = "No preemption victims found for incoming pod"


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget, compiled."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: dict[str, str]

    def protects(self, pod: Pod) -> bool:
        meta = pod.metadata
        return (
            bool(meta.labels)
            and meta.namespace == self.namespace
            and self.selector.matches(meta.labels)
            and meta.name not in self.disrupted
        )


def compile_budgets(items: Sequence[PodDisruptionBudget]) -> list[Budget]:
    """Budgets that can protect anything; those with a bad or empty selector cannot."""
    found: list[Budget] = []
    for item in items:
        try:
            selector = compile_selector(item.spec.selector)
        except SelectorError:
            continue
        if not selector.empty and not selector.nothing:
            status = item.status
            found.append(
                Budget(
                    item.metadata.namespace,
                    selector,
                    status.disruptions_allowed,
                    status.disrupted_pods,
                )
            )
    return found


def start_time(pod: Pod, now: float) -> float:
    """When the pod started; now if it has not."""
    return _parsed(pod.status.start_time) if pod.status.start_time else now


@lru_cache(maxsize=1 << 16)
def _parsed(text: str) -> float:
    return parse_time(text)


def moving_filters(profile: Profile, state: CycleState, pod: Any) -> list[Any]:
    """The filters that run for a pod and look at more than the node's own object."""
    return [
        plugin
        for plugin in profile.filter
        if plugin.name not in state.skip_filter
        and not (hasattr(plugin, "depends_on") and plugin.depends_on(pod) is Depends.NODE)
    ]


def by_importance(pods: Sequence[PodInfo], now: float) -> list[PodInfo]:
    """Most important first: priority, then who started earlier."""
    return sorted(pods, key=lambda info: (-info.priority, start_time(info.pod, now)))


def split_by_budgets(
    pods: Sequence[PodInfo], budgets: Sequence[Budget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose removal would break a budget, and the others, both in the order given."""
    if not budgets:
        return [], list(pods)
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    harmless: list[PodInfo] = []
    for info in pods:
        breaks = False
        for place, budget in enumerate(budgets):
            if budget.protects(info.pod):
                left[place] -= 1
                breaks = breaks or left[place] < 0
        (violating if breaks else harmless).append(info)
    return violating, harmless


class DryRun:
    """One node with pods taken off and put back."""

    def __init__(
        self,
        profile: Profile,
        state: CycleState,
        pod: Any,
        node: NodeInfo,
        nominated: Sequence[PodInfo],
        moving: Sequence[Any],
    ) -> None:
        self._moving = moving
        """The filters that pods coming and going can change."""
        self._profile = profile
        self._state = state.clone()
        self._pod = pod
        self._node = node.clone()
        self._nominated = nominated

    def _remove(self, info: PodInfo) -> Status | None:
        self._node.remove_pod(info)
        return run_remove_pod(self._profile, self._state, self._pod, info, self._node)

    def _add(self, info: PodInfo) -> Status | None:
        self._node.add_pod(info)
        return run_add_pod(self._profile, self._state, self._pod, info, self._node)

    def _fits(self, filters: Sequence[Any] | None = None) -> Status | None:
        return run_filters_with_nominated(
            self._profile, self._state, self._pod, self._node, self._nominated, filters
        )

    def victims(self, budgets: Sequence[Budget], now: float) -> Victims | Status:
        """The pods that must go, or why taking pods off does not help."""
        priority = self._pod.priority
        potential = [info for info in self._node.pods if info.priority < priority]
        if not potential:
            return unresolvable(NO_VICTIMS)
        for info in potential:
            problem = self._remove(info)
            if problem is not None:
                return problem
        status = self._fits()
        if status is not None:
            return status
        violating, harmless = split_by_budgets(by_importance(potential, now), budgets)
        gone: list[PodInfo] = []
        violations = 0
        for group in (violating, harmless):
            for info in group:
                kept = self._reprieve(info)
                if isinstance(kept, Status):
                    return kept
                if not kept:
                    gone.append(info)
                    violations += group is violating
        if not gone:
            return failed(f'expected at least one victim pod on node "{self._node.name}"')
        if violating and harmless:
            gone = by_importance(gone, now)
        return Victims(tuple(info.pod for info in gone), violations)

    def _reprieve(self, info: PodInfo) -> bool | Status:
        """Put a pod back; False if the preemptor no longer fits then."""
        problem = self._add(info)
        if problem is not None:
            return problem
        status = self._fits(self._moving)
        if status is None:
            return True
        if status.code is Code.ERROR:
            return status
        return self._remove(info) or False


def pick_node(candidates: dict[str, Victims], now: float) -> str:
    """The node that loses least: kube-scheduler's criteria, in its order."""

    def cost(name: str) -> tuple[int, int, int, int, float]:
        victims = candidates[name]
        pods = victims.pods
        top = pods[0].priority
        earliest = min(start_time(pod, now) for pod in pods if pod.priority == top)
        total = sum(pod.priority + 2**31 for pod in pods)
        return victims.pdb_violations, top, total, len(pods), -earliest

    return min(candidates, key=cost)
