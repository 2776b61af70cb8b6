"""Which pods would have to go on one node: a dry run on a copy of the node.

All less important pods are taken off; if the pod then fits, they are put back one by one, the most
important first and those protected by a disruption budget before the others. Who no longer fits is
a victim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

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
from bayplan.plugins.go_sort import go_sorted

NO_VICTIMS = "No preemption victims found for incoming pod"


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget, compiled."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: dict[str, str]

    def means(self, pod: Pod) -> bool:
        """Whether pods with these labels are protected, unless they are being disrupted."""
        meta = pod.metadata
        return (
            bool(meta.labels)
            and meta.namespace == self.namespace
            and self.selector.matches(meta.labels)
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
    text = pod.status.start_time
    return _parsed(text) if text else now


_parsed = lru_cache(maxsize=1 << 16)(parse_time)


def moving_filters(profile: Profile, state: CycleState, pod: Any) -> list[Any]:
    """The filters that run for a pod and look at more than the node's own object."""
    return [
        plugin
        for plugin in profile.filter
        if plugin.name not in state.skip_filter
        and not (hasattr(plugin, "depends_on") and plugin.depends_on(pod) is Depends.NODE)
    ]


class Importance:
    """Sorts pods of a list, the most important first: priority, then who started earlier.

    Who has not started is as old as the moment in which it is asked. 1.37 asks each once, in the
    order of the list. 1.36 asks at every comparison: of two such pods, the one that is asked first
    is the more important.
    """

    def __init__(self, pods: Sequence[PodInfo], now: float, *, asks_again: bool) -> None:
        self._keys: dict[int, tuple[int, float, int]] = {}
        self._restless: set[int] = set()
        for place, info in enumerate(pods):
            started = bool(info.pod.status.start_time)
            self._keys[id(info)] = (
                -info.traits.priority,
                start_time(info.pod, now),
                0 if started or asks_again else place,
            )
            if asks_again and not started:
                self._restless.add(id(info))

    def sort(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Pods of the list, sorted as kube-scheduler does, also where they are equal."""
        keys = [self._keys[id(info)] for info in pods]
        restless = self._restless
        return go_sorted(pods, keys, [id(info) in restless for info in pods] if restless else ())


class Budgets:
    """All disruption budgets; which of them mean a pod is worked out once per group of pods."""

    def __init__(self, items: Sequence[Budget], *, all_count: bool = True) -> None:
        """`all_count`: as 1.36, where a pod uses up every budget that means it, also broken ones.

        1.37 stops at the first budget that a pod breaks. Which is the first, upstream draws.
        """
        self._items, self._all_count = items, all_count
        self.know_names = any(budget.disrupted for budget in items)
        """Whether some pod is treated in another way than others of its group."""
        self._by_group: dict[object, list[tuple[int, dict[str, str]]]] = {}

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Pods whose removal would break a budget, and the others, both in the order given."""
        if not self._items:
            return [], list(pods)
        left = self.allowed()
        violating: list[PodInfo] = []
        harmless: list[PodInfo] = []
        for info in pods:
            (violating if self.breaks(info, left) else harmless).append(info)
        return violating, harmless

    def allowed(self) -> list[int]:
        """How many pods may go, by budget, for `breaks` to count down."""
        return [budget.allowed for budget in self._items]

    def breaks(self, info: PodInfo, left: list[int]) -> bool:
        """Whether a pod that goes breaks a budget of which so much is left, which it uses up."""
        about = self._by_group.get(info.group)
        if about is None:
            about = self._about(info)
        broken = False
        for place, disrupted in about:
            if info.pod.metadata.name not in disrupted:
                left[place] -= 1
                if left[place] < 0:
                    broken = True
                    if not self._all_count:
                        break
        return broken

    def _about(self, info: PodInfo) -> list[tuple[int, dict[str, str]]]:
        items = enumerate(self._items)
        found = [(n, item.disrupted) for n, item in items if item.means(info.pod)]
        if info.group is not None:
            self._by_group[info.group] = found
        return found


class Run(Protocol):
    """A node in the mind, from which all less important pods were taken."""

    def problem(self) -> Status | None:
        """Why the preemptor does not fit even so."""

    def put_back(self, info: PodInfo) -> bool | Status:
        """Put a pod back; False, and nothing changed, if the preemptor no longer fits then."""


def choose_victims(
    run: Run,
    name: str,
    potential: Sequence[PodInfo],
    budgets: Budgets,
    now: float,
    *,
    asks_again: bool,
) -> Victims | Status:
    """The pods that must go, or why taking pods off does not help."""
    if not potential:
        return unresolvable(NO_VICTIMS)
    status = run.problem()
    if status is not None:
        return status
    importance = Importance(potential, now, asks_again=asks_again)
    violating, harmless = budgets.split(importance.sort(potential))
    gone: list[PodInfo] = []
    violations = 0
    for group in (violating, harmless):
        for info in group:
            kept = run.put_back(info)
            if kept is True:
                continue
            if kept:
                return kept
            gone.append(info)
            violations += group is violating
    if not gone:
        return failed(f'expected at least one victim pod on node "{name}"')
    if violating and harmless:
        gone = importance.sort(gone)
    return Victims(tuple([info.pod for info in gone]), violations)


class DryRun:
    """A copy of a node with pods taken off and put back, asking the filters each time."""

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
        self._potential = [info for info in node.pods if info.priority < pod.priority]

    def problem(self) -> Status | None:
        for info in self._potential:
            problem = self._remove(info)
            if problem is not None:
                return problem
        return self._fits()

    def put_back(self, info: PodInfo) -> bool | Status:
        self._node.add_pod(info)
        problem = run_add_pod(self._profile, self._state, self._pod, info, self._node)
        if problem is not None:
            return problem
        status = self._fits(self._moving)
        if status is None:
            return True
        if status.code is Code.ERROR:
            return status
        return self._remove(info) or False

    def _remove(self, info: PodInfo) -> Status | None:
        self._node.remove_pod(info)
        return run_remove_pod(self._profile, self._state, self._pod, info, self._node)

    def _fits(self, filters: Sequence[Any] | None = None) -> Status | None:
        return run_filters_with_nominated(
            self._profile, self._state, self._pod, self._node, self._nominated, filters
        )


Cost = tuple[int, int, int, int, float]


def cost_of(victims: Victims, now: float) -> Cost:
    """What a node loses: kube-scheduler's criteria, in its order."""
    pods = victims.pods
    top = pods[0].priority
    earliest = min(start_time(pod, now) for pod in pods if pod.priority == top)
    total = sum(pod.priority + 2**31 for pod in pods)
    return victims.pdb_violations, top, total, len(pods), -earliest


def pick_node(
    candidates: Mapping[str, Victims], now: float, known: Mapping[str, tuple[Victims, Cost]]
) -> str:
    """The node that loses least; what victims cost may be known already."""

    def cost(name: str) -> Cost:
        victims, told = candidates[name], known.get(name)
        return told[1] if told is not None and told[0] is victims else cost_of(victims, now)

    return min(candidates, key=cost)


def is_leaving_for_us(pod: Pod) -> bool:
    """Whether a scheduler preempted the pod and it is on its way out."""
    return pod.terminating and any(
        item.type == "DisruptionTarget"
        and item.status == "True"
        and item.reason == "PreemptionByScheduler"
        for item in pod.status.conditions
    )
