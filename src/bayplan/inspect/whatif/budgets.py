"""Disruption budgets, as the eviction call of the API server and their controller treat them.

A pod may be evicted if no budget selects it, or if the one that does has a disruption left. An
eviction uses one up; when the pod made in its place has a node (and so, it is taken, becomes ready)
it is given back. A budget without a status, as in a manifest, is counted from the pods that exist.
Pods that are not ready may go if the budget is satisfied without them (`IfHealthyBudget`), or in
any case with `AlwaysAllow`.
"""

from __future__ import annotations

import math
from functools import partial

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.api.labels import Selector, SelectorError, compile_selector
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.objects import Budget
from bayplan.inspect.whatif.rehearsal import Rehearsal

TWO = "is selected by more than one budget ({}), which the eviction call refuses"


class Allowance:
    """How many pods of one budget may still go; below zero when more are missing than may."""

    def __init__(self, budget: Budget, healthy: int, desired: int, expected: int = 0) -> None:
        self.budget = budget
        self.expected = expected
        self.key = budget.key
        self.selector = _selector(budget)
        self.always = budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
        self.healthy = healthy
        self.desired = desired

    @property
    def left(self) -> int:
        return self.healthy - self.desired

    def resize(self, by: int) -> int:
        """An owner has another size; returns what must stay healthy from now on."""
        self.expected += by
        return desired_of(self.budget, self.expected)

    @property
    def text(self) -> str:
        return (
            f'budget "{self.key}" allows no disruption: {self.healthy} healthy, '
            f"{self.desired} must stay"
        )


class Budgets:
    """The budgets of one rehearsal."""

    def __init__(self, cluster: Cluster) -> None:
        self._by_namespace: dict[str, list[Allowance]] = {}
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Allowance, ...]] = {}
        counted = PodCounter(cluster)
        for budget in cluster.budgets.values():
            allowance = Allowance(budget, *counted.numbers(budget))
            self._by_namespace.setdefault(budget.namespace, []).append(allowance)

    def add(self, budget: Budget, healthy: int, desired: int, expected: int) -> None:
        """One more budget, or another form of one."""
        here = self._by_namespace.setdefault(budget.namespace, [])
        here[:] = [a for a in here if a.key != budget.key]
        here.append(Allowance(budget, healthy, desired, expected))
        self._known.clear()

    def of(self, pod: Pod) -> tuple[Allowance, ...]:
        """The budgets that select a pod."""
        here = self._by_namespace.get(pod.namespace)
        if not here:
            return ()
        key = (pod.namespace, tuple(sorted(pod.labels.items())))
        found = self._known.get(key)
        if found is None:
            found = tuple(a for a in here if a.selector.matches(pod.labels))
            self._known[key] = found
        return found

    def refusal(self, pod: Pod) -> str:
        """Why the eviction call would refuse a pod now; empty if it would not."""
        found = self.of(pod)
        if not found or pod.status.phase == "Pending":  # it has not started: nothing is disrupted
            return ""
        if len(found) > 1:
            return TWO.format(", ".join(sorted(a.key for a in found)))
        (one,) = found
        if not is_healthy(pod) and (one.always or one.left >= 0):
            return ""
        return "" if one.left > 0 else one.text

    def resize(self, pod: Pod, by: int, trial: Rehearsal) -> None:
        """The owner of such pods was scaled."""
        for allowance in self.of(pod):
            before = allowance.desired
            allowance.desired = allowance.resize(by)
            trial.afterwards(partial(_restore, allowance, before, by))
            _change(allowance, 0, trial)

    def gone(self, pod: Pod, trial: Rehearsal) -> bool:
        """A pod was told to go; True if a budget is violated by it."""
        violated = False
        if is_healthy(pod):
            for allowance in self.of(pod):
                violated = violated or allowance.left <= 0
                _change(allowance, -1, trial)
        return violated

    def back(self, pod: Pod, trial: Rehearsal) -> None:
        """A pod that was made again has a node."""
        for allowance in self.of(pod):
            _change(allowance, 1, trial)


def _change(allowance: Allowance, by: int, trial: Rehearsal) -> None:
    """Count, and tell the engine's objects: preemption reads budgets there."""
    allowance.healthy += by
    trial.afterwards(lambda: setattr(allowance, "healthy", allowance.healthy - by))
    lister = trial.engine.cache.objects.pod_disruption_budgets
    budget = lister.get(allowance.key)
    if budget is not None:
        left = max(allowance.left, 0)
        trial.put(replace(budget, status=replace(budget.status, disruptions_allowed=left)))


def _restore(allowance: Allowance, desired: int, by: int) -> None:
    allowance.desired = desired
    allowance.expected -= by


def is_healthy(pod: Pod) -> bool:
    """Ready; a picture without kubelets has no such condition, and every bound pod counts."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return pod.status.phase != "Pending"


def _selector(budget: Budget) -> Selector:
    try:
        return compile_selector(budget.spec.selector)
    except SelectorError:
        return compile_selector(None)


class PodCounter:
    """Counts for budgets that nobody has written a status for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, list[Pod]] = {}

    def numbers(self, budget: Budget) -> tuple[int, int, int]:
        """How many pods are healthy, how many must be, and how many there should be."""
        status = budget.status
        if status.expected_pods:
            return status.current_healthy, status.desired_healthy, status.expected_pods
        selector = _selector(budget)
        pods = [p for p in self._in(budget.namespace) if selector.matches(p.labels)]
        healthy = sum(bool(p.spec.node_name) and is_healthy(p) for p in pods)
        expected = self._expected(pods)
        return healthy, desired_of(budget, expected), expected

    def _in(self, namespace: str) -> list[Pod]:
        if not self._pods:
            for pod in self._cluster.pods.values():
                if not pod.finished and not pod.terminating:
                    self._pods.setdefault(pod.namespace, []).append(pod)
        return self._pods.get(namespace, [])

    def _expected(self, pods: list[Pod]) -> int:
        """Add up the sizes of the owners; a pod without one counts as itself."""
        sizes: dict[str, int] = {}
        alone = 0
        for pod in pods:
            owner = self._cluster.owner_of(pod)
            if owner is None:
                alone += 1
            else:
                sizes[f"{owner.KIND}/{owner.key}"] = owner.wanted
        return alone + sum(sizes.values())


def desired_of(budget: Budget, expected: int) -> int:
    """How many pods must stay healthy when there should be so many."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(expected - scaled(spec.max_unavailable, expected), 0)
    return scaled(spec.min_available or 0, expected)


def scaled(amount: int | str, whole: int) -> int:
    """A number or a share such as `25%`, rounded up."""
    if isinstance(amount, int):
        return amount
    if amount.endswith("%") and amount[:-1].isdigit():
        return math.ceil(int(amount[:-1]) * whole / 100)
    return int(amount) if amount.isdigit() else 0
