"""From a table of nodes and the pods that may move to a `Problem`.

Filters whose answer hangs on the node alone become masks, whoever wrote them. Resources, host
ports, pod affinity both ways and topology spread become numbers and rules. What is left (attach
limits, devices, other people's filters that look at pods) is named in `Problem.unmodelled` and left
to the check.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.info import PodInfo
from bayplan.cluster.resources import resource_name
from bayplan.cluster.table import NodeTable
from bayplan.framework import Code, CycleState, Depends, Profile
from bayplan.framework.contract.verdict import Verdict
from bayplan.framework.runtime.filtering import call_filter, call_pre_filter
from bayplan.pack.check import Make, Profiles, by_signature, unplaced
from bayplan.pack.model import PODS, PodClass, Problem
from bayplan.pack.ruling import Ruling

FIT = "NodeResourcesFit"
MODELLED = frozenset((FIT, "NodePorts", "InterPodAffinity", "PodTopologySpread"))
NODE_ONLY = frozenset(("VolumeBinding", "VolumeZone"))
"""Filters that look at volumes and the node, though not only at the node's own object."""
NO_VOLUMES = frozenset(("NodeVolumeLimits", "VolumeRestrictions", "DynamicResources"))
"""Filters that say nothing about pods without volumes and claims."""


class Kind(msgspec.Struct, eq=False):
    """Pods of one signature (and, where they may only stay, of one node)."""

    asked: PodInfo
    """One of them, without a node."""
    pods: list[PodInfo]
    profile: Profile
    stays: int = -1
    """The row on which these pods may stay although a filter would not let them in again."""


class Reading:
    """Reads one problem off a table."""

    def __init__(self, table: NodeTable, profiles: Profiles, make: Make) -> None:
        self.table, self._profiles, self._make = table, profiles, make
        self.unmodelled: set[str] = set()

    def read(
        self,
        movers: Sequence[PodInfo],
        *,
        pending: Sequence[PodInfo] = (),
        lenient: frozenset[str] = frozenset(),
        apart: bool = False,
    ) -> Problem:
        """`movers` are on nodes, `pending` are not; all other pods of the table stay.

        `lenient`: uids of movers that may stay where no node filter would let them in. `apart`
        keeps pods of different priority and pending ones in classes of their own.
        """
        kinds = self._kinds(movers, lenient) + self._kinds(pending, frozenset())
        waiting = {info.uid for info in pending}
        moving = {info.uid for info in movers}
        ruling = Ruling(
            self.table, kinds, [i for i in self.table.all_pods() if i.uid not in moving]
        )
        names = self._resources(kinds)
        groups: dict[Hashable, tuple[PodClass, list[Kind]]] = {}
        for number, kind in enumerate(kinds):
            need, masks = self._need(kind, names), self._masks(kind)
            first = kind.pods[0]
            key = (
                need,
                tuple((name, mask.tobytes()) for name, mask in masks.items()),
                ruling.features(number),
                kind.profile.name,
                (first.priority, first.uid in waiting) if apart else None,
            )
            if key not in groups:
                item = PodClass([], need, masks, kind.profile.name, first.priority)
                item.pending = first.uid in waiting
                groups[key] = (item, [])
            groups[key][0].pods.extend(kind.pods)
            groups[key][1].append(kind)
        return self._problem(list(groups.values()), names, ruling, kinds)

    def _problem(
        self,
        groups: list[tuple[PodClass, list[Kind]]],
        names: list[int],
        ruling: Ruling,
        kinds: list[Kind],
    ) -> Problem:
        table = self.table
        classes = [item for item, _ in groups]
        now: IntArray = np.zeros((len(classes), table.count), dtype=np.int64)
        moved: IntArray = np.zeros((len(names) + 1, table.count), dtype=np.int64)
        place_of = {number: place for place, number in enumerate(names)}
        for number, item in enumerate(classes):
            for info in item.pods:
                row = table.row_of(info.node_name) if info.node_name else None
                if row is None:
                    continue
                now[number, row] += 1
                moved[-1, row] += 1
                for resource, amount in info.traits.used:
                    if resource in place_of:
                        moved[place_of[resource], row] += amount
        capacity: IntArray = np.zeros((len(names) + 1, table.count), dtype=np.int64)
        for place, resource in enumerate(names):
            free = table.allocatable(resource) - table.requested(resource)
            capacity[place] = np.maximum(free + moved[place], 0)
        capacity[-1] = np.maximum(table.allowed_pods - table.pod_count + moved[-1], 0)
        titles = [*(resource_name(number) for number in names), PODS]
        problem = Problem(table.names(), classes, titles, capacity, now)
        numbers = {id(kind): place for place, (_, own) in enumerate(groups) for kind in own}
        problem.rules = ruling.rules([numbers[id(kind)] for kind in kinds], problem)
        problem.unmodelled = self.unmodelled
        problem.settle()
        return problem

    # -- classes ------------------------------------------------------------------------------

    def _kinds(self, infos: Sequence[PodInfo], lenient: frozenset[str]) -> list[Kind]:
        found: list[Kind] = []
        for group in by_signature(infos).values():
            asked = self._make(unplaced(group[0].pod))
            profile = self._profiles(asked.pod)
            assert profile is not None
            free = [info for info in group if info.uid not in lenient]
            if free:
                found.append(Kind(asked, free, profile))
            rows: dict[str, list[PodInfo]] = {}
            for info in group:
                if info.uid in lenient:
                    rows.setdefault(info.node_name, []).append(info)
            for name, here in rows.items():
                row = self.table.row_of(name)
                found.append(Kind(asked, here, profile, -1 if row is None else row))
        return found

    def _resources(self, kinds: Sequence[Kind]) -> list[int]:
        """Ids of the resources that any pod is checked for."""
        found: set[int] = set()
        for kind in kinds:
            found |= {number for number, _ in self._asked(kind)}
        return sorted(found)

    def _asked(self, kind: Kind) -> list[tuple[int, int]]:
        plugin = _plugin(kind.profile, FIT)
        if plugin is None:
            return []
        used = dict(kind.pods[0].traits.used)
        # While a pod is resized it needs one amount and takes another: the bound needs the less.
        return [
            (number, min(amount, used.get(number, amount)))
            for number, amount, served in plugin.asked(kind.asked)
            if not served
        ]

    def _need(self, kind: Kind, names: list[int]) -> tuple[int, ...]:
        asked = dict(self._asked(kind))
        counted = 0 if _plugin(kind.profile, FIT) is None else 1
        return (*(asked.get(number, 0) for number in names), counted)

    def _masks(self, kind: Kind) -> dict[str, BoolArray]:
        """The nodes that each node filter leaves, where it does not leave all."""
        found: dict[str, BoolArray] = {}
        for plugin in kind.profile.filter:
            if plugin.name in MODELLED:
                continue
            if not _hangs_on_node(plugin, kind.asked):
                if plugin.name not in NO_VOLUMES or _has_volumes(kind.asked):
                    self.unmodelled.add(plugin.name)
                continue
            mask = _mask(kind.profile, plugin, kind.asked, self.table)
            if kind.stays >= 0 and not mask[kind.stays]:
                mask = mask.copy()
                mask[kind.stays] = True
            if not mask.all():
                found[plugin.name] = mask
        return found


def _plugin(profile: Profile, name: str) -> Any:
    """A filter of a profile, None if it is off."""
    return next((plugin for plugin in profile.filter if plugin.name == name), None)


def _hangs_on_node(plugin: Any, info: PodInfo) -> bool:
    if plugin.name in NODE_ONLY:
        return True
    depends = getattr(plugin, "depends_on", None)
    return depends is not None and depends(info.pod) is Depends.NODE


def _has_volumes(info: PodInfo) -> bool:
    return bool(info.pod.spec.volumes or info.pod.spec.resource_claims)


def _mask(profile: Profile, plugin: Any, info: PodInfo, table: NodeTable) -> BoolArray:
    """The nodes that one filter leaves."""
    every: BoolArray = np.ones(table.count, dtype=bool)
    state = CycleState(info)
    if plugin in profile.pre_filter:
        result, status = call_pre_filter(profile, plugin, state, info.pod, table)
        if status is not None and status.code is Code.SKIP:
            return every
        if status is not None and not status.success:
            return ~every
        if result is not None and result.node_names is not None:
            rows = [table.row_of(name) for name in result.node_names]
            narrowed = ~every
            narrowed[[row for row in rows if row is not None]] = True
            every = narrowed
    verdict = call_filter(profile, plugin, state, info.pod, table)
    return every & verdict.mask if isinstance(verdict, Verdict) else ~every
