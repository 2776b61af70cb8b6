"""The problem as numbers: classes of equal pods, nodes, and the rules that join them.

What a rule here does not say is either *left out of the bound*, which keeps the bound true, or
*checked in the placement* by the filters themselves, which keeps the placement right.
Arrays are over C classes of pods, N nodes and R resources.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.info import PodInfo

PODS = "pods"
"""The resource that counts pods."""


class AtMostOne(msgspec.Struct, frozen=True, eq=False):
    """Of these classes, one pod a domain: required anti-affinity among equals, host ports."""

    classes: tuple[int, ...]
    domain: IntArray
    """(N,): the domain of each node, -1 for none."""
    why: str


class Disjoint(msgspec.Struct, frozen=True, eq=False):
    """Pods of the left classes and pods of the right ones share no domain."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    domain: IntArray
    why: str


class Spread(msgspec.Struct, frozen=True, eq=False):
    """Where an owner is, its domain has at most `skew` more matching pods than any other."""

    owners: tuple[int, ...]
    matching: tuple[int, ...]
    domain: IntArray
    included: BoolArray
    """(N,): nodes whose pods are counted."""
    present: tuple[int, ...]
    """The domains that are compared."""
    fixed: dict[int, int]
    """Matching pods that stay, by domain."""
    skew: int
    from_zero: bool
    """Whether there are fewer domains than `minDomains`: the least is then zero."""
    why: str

    @property
    def plain(self) -> bool:
        """Whether every matching pod is an owner and none stays: the rule then always holds."""
        return not self.fixed and set(self.matching) == set(self.owners)


class Near(msgspec.Struct, frozen=True, eq=False):
    """A pod of the class needs another matching pod in its domain."""

    owner: int
    matching: tuple[int, ...]
    domain: IntArray
    fixed: dict[int, int]
    total: int
    """How many pods match in the whole cluster, the pod itself included if it does."""
    why: str

    @property
    def least(self) -> int:
        """How many matching pods a domain with a pod of the class must have."""
        if self.owner not in self.matching:
            return 1
        return 2 if self.total > 1 else 1


Rule = AtMostOne | Disjoint | Spread | Near


class PodClass(msgspec.Struct, eq=False):
    """Pods that are the same to every rule."""

    pods: list[PodInfo]
    """Those that run now come first, by node."""
    need: tuple[int, ...]
    """By resource of the problem."""
    masks: dict[str, BoolArray]
    """(N,) by plugin: the nodes that its node filter leaves."""
    profile: str
    priority: int = 0
    pending: bool = False


class Problem:
    """Pods to be placed on nodes."""

    def __init__(
        self,
        names: Sequence[str],
        classes: list[PodClass],
        resources: Sequence[str],
        capacity: IntArray,
        now: IntArray,
    ) -> None:
        self.names = list(names)
        self.classes = classes
        self.resources = list(resources)
        self.capacity = capacity
        """(R, N): what is left beside the pods that stay."""
        self.now = now
        """(C, N): how many pods of each class a node has now."""
        self.rules: list[Rule] = []
        count = len(self.names)
        self.cost: IntArray = np.ones(count, dtype=np.int64)
        self.forced: BoolArray = np.zeros(count, dtype=bool)
        """(N,): nodes that stay in use because of a pod that stays."""
        self.need: IntArray = np.array([item.need for item in classes], dtype=np.int64).reshape(
            len(classes), len(self.resources)
        )
        self.count: IntArray = np.array([len(item.pods) for item in classes], dtype=np.int64)
        self.allowed: BoolArray = np.ones((len(classes), count), dtype=bool)
        self.unmodelled: set[str] = set()
        """Filters that only the check asks."""

    @property
    def used_now(self) -> BoolArray:
        """(N,): nodes in use."""
        used: BoolArray = self.forced | (self.now.sum(axis=0) > 0)
        return used

    def settle(self) -> None:
        """Work out where each class may go, from its masks and from what a node can hold at all."""
        for number, item in enumerate(self.classes):
            mask = np.ones(len(self.names), dtype=bool)
            for other in item.masks.values():
                mask &= other
            self.allowed[number] = mask & self.holds(number)

    def holds(self, number: int) -> BoolArray:
        """(N,): nodes that could hold one pod of a class if no other moved there."""
        need = self.need[number][:, None]  # (R, 1)
        fits: BoolArray = ((self.capacity >= need) | (need == 0)).all(axis=0)
        return fits

    def most(self, number: int) -> IntArray:
        """(N,): how many pods of a class a node could hold alone."""
        found = np.full(len(self.names), self.count[number], dtype=np.int64)
        for place, amount in enumerate(self.need[number].tolist()):
            if amount:
                found = np.minimum(found, np.maximum(self.capacity[place], 0) // amount)
        for rule in self.rules:
            if isinstance(rule, AtMostOne) and number in rule.classes:
                found = np.where(rule.domain >= 0, np.minimum(found, 1), found)
        return np.where(self.allowed[number], found, 0)

    def cost_of(self, used: BoolArray) -> int:
        return int(self.cost[used | self.forced].sum())

    def used(self, placed: IntArray) -> BoolArray:
        """(N,): nodes that a placement uses."""
        mask: BoolArray = self.forced | (placed.sum(axis=0) > 0)
        return mask


def is_local(domain: IntArray) -> bool:
    """Whether every domain is one node."""
    inside = domain[domain >= 0]
    return len(np.unique(inside)) == len(inside)


def members(domain: IntArray) -> dict[int, npt.NDArray[np.int64]]:
    """Rows by domain."""
    inside = np.flatnonzero(domain >= 0)
    order = inside[np.argsort(domain[inside], kind="stable")]
    codes, starts = np.unique(domain[order], return_index=True)
    parts = np.split(order, starts[1:])
    return dict(zip(codes.tolist(), parts, strict=True))
