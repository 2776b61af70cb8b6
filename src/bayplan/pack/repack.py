"""Repack, a PostFilter plugin that is off by default: moves instead of losses, gangs by the solver.

    bayplan scheduler --plugins bayplan.pack.repack --config ksc.yaml

    profiles:
      - plugins:
          postFilter:
            enabled: [{name: Repack}, {name: DefaultPreemption}]
            disabled: [{name: "*"}]
        pluginConfig:
          - {name: Repack, args: {timeoutSeconds: 0.5, maxMoves: 4, minPriority: 1}}

When an important pod fits nowhere, it looks for a node from which a few less important pods could
go elsewhere: those are its victims, as in preemption, but each of them has a place to go to, and no
budget is broken. When the pods of a gang find no place one after the other, it looks for places for
all of them at once. Filters judge what is found; if nothing is found in time, if the filters refuse
it or if the solver fails, everything is as without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from bayplan.api import Pod
from bayplan.cluster.info import PodInfo
from bayplan.errors import ConfigError
from bayplan.extras import ExtraMissing
from bayplan.framework import (
    CycleState,
    Diagnosis,
    Handle,
    NominatingInfo,
    NominatingMode,
    PostFilterResult,
    Profile,
    Status,
    Victims,
    unschedulable,
)
from bayplan.pack.asked import Asked
from bayplan.pack.assigning import moves_of
from bayplan.pack.check import Check, unplaced
from bayplan.pack.reading import Reading
from bayplan.pack.solver import solver
from bayplan.plugins.default_preemption.victims import Budgets, compile_budgets

NAME = "Repack"
CANDIDATES = 16
"""From how many nodes pods may be moved in one question."""

Answer = tuple[PostFilterResult | None, Status | None]


class RepackArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`args` of the plugin."""

    timeout_seconds: float = 0.5
    """How long the solver may look; after that nothing is proposed."""
    max_moves: int = 4
    min_priority: int = 1
    """Pods that are less important are left alone."""


class Repack:
    """PostFilter: few moves that make room. Groups: places for all pods at once."""

    name = NAME

    def __init__(self, args: RepackArgs, handle: Handle) -> None:
        self._args, self._handle = args, handle

    def post_filter(self, state: CycleState, pod: Pod, statuses: Diagnosis) -> Answer:
        if pod.priority < self._args.min_priority or pod.spec.preemption_policy == "Never":
            return None, unschedulable("repack: not for pods of this priority")
        try:
            found = self._make_room(pod)
        except Exception as problem:  # whatever the solver does, the next plugin is asked
            self._problem("post_filter", problem)
            found = None
        if found is None:
            return None, unschedulable("repack: no few moves would make room")
        node, victims = found
        nominating = NominatingInfo(node, NominatingMode.OVERRIDE)
        pods = tuple(info.pod for info in victims)
        return PostFilterResult(nominating, Victims(pods)), None

    def arrange_group(self, pods: Sequence[Pod], needed: int) -> Mapping[str, str] | None:
        """Nodes by uid for enough pods of a group that found none one by one; None if none."""
        try:
            return self._arrange(pods, needed)
        except Exception as problem:
            self._problem("arrange_group", problem)
            return None

    # -- one pod --------------------------------------------------------------------------------

    def _make_room(self, pod: Pod) -> tuple[str, list[PodInfo]] | None:
        begin = time.monotonic()
        movers = self._movers(pod)
        if not movers:
            return None
        problem = self._reading().read(movers, pending=[self._handle.infos.make(pod)])
        asked = Asked(problem, 1, workers=1)
        left = begin + self._args.timeout_seconds - time.monotonic()
        if left <= 0:
            return None
        placed = asked.by_moves(left, self._args.max_moves, from_one=True).placed
        if placed is None:
            return None
        found = moves_of(problem, placed)
        moves = {uid: (info, problem.names[row]) for uid, (info, row) in found.items()}
        node = moves.pop(pod.uid)[1]
        victims = [info for info, _ in moves.values()]
        if not victims or any(info.node_name != node for info in victims):
            return None
        if self._breaks_budget(victims) or not self._holds(pod, node, moves):
            return None
        return node, victims

    def _movers(self, pod: Pod) -> list[PodInfo]:
        """Less important pods that somebody makes again, on the nodes that lack least."""
        table, info = self._handle.table, self._handle.infos.make(pod)
        lack = np.zeros(table.count)
        for resource, amount in info.traits.fit:
            offered = table.allocatable(resource)
            short = np.maximum(amount - (offered - table.requested(resource)), 0)
            lack += short / np.maximum(offered, 1)
            lack[offered < amount] += 1e6
        rows = np.argsort(lack + 1e6 * (table.min_priority >= pod.priority), kind="stable")
        found = [
            other
            for row in rows[:CANDIDATES].tolist()
            for other in table.pods[row]
            if other.priority < pod.priority and _moves(other) and self._ours(other.pod)
        ]
        return found

    def _ours(self, pod: Pod) -> bool:
        profile = self._handle.profile
        return profile is not None and pod.spec.scheduler_name == profile.name

    def _breaks_budget(self, victims: Sequence[PodInfo]) -> bool:
        items = compile_budgets(list(self._handle.objects.pod_disruption_budgets))
        return bool(Budgets(items).split(victims)[0])

    def _holds(self, pod: Pod, node: str, moves: dict[str, tuple[PodInfo, str]]) -> bool:
        """Whether the filters agree that everybody could be where they are to go."""
        there = [(self._handle.infos.make(pod), node)]
        there += [(self._handle.infos.make(unplaced(i.pod)), name) for i, name in moves.values()]
        with self._moved([info for info, _ in moves.values()], there) as placed:
            return not self._check().refused(placed)

    @contextmanager
    def _moved(
        self, gone: Sequence[PodInfo], there: Sequence[tuple[PodInfo, str]]
    ) -> Iterator[list[PodInfo]]:
        """The table as it would be; afterwards it is as before, in order too."""
        table = self._handle.table
        names = {info.node_name for info in gone}
        placed: list[PodInfo] = []
        with table.order_kept(names):
            try:
                for info in gone:
                    table.remove_pod(info)
                for info, name in there:
                    info.node_name = name
                    table.add_pod(info)
                    placed.append(info)
                yield placed
            finally:
                for info in placed:
                    table.remove_pod(info)
                for info in gone:
                    table.add_pod(info)

    # -- a group --------------------------------------------------------------------------------

    def _arrange(self, pods: Sequence[Pod], needed: int) -> Mapping[str, str] | None:
        if not all(self._ours(pod) for pod in pods):
            return None
        infos = [self._handle.infos.make(pod) for pod in pods]
        asked = Asked(self._reading().read([], pending=infos), needed, workers=1)
        placed = asked.by_moves(self._args.timeout_seconds).placed
        if placed is None:
            return None
        names = asked.problem.names
        return {uid: names[row] for uid, (_, row) in moves_of(asked.problem, placed).items()}

    # -- parts ----------------------------------------------------------------------------------

    def _profile(self, pod: Pod) -> Profile | None:
        return self._handle.profile if self._ours(pod) else None

    def _reading(self) -> Reading:
        return Reading(self._handle.table, self._profile, self._handle.infos.make)

    def _check(self) -> Check:
        return Check(self._handle.table, self._profile, self._handle.infos.make)

    def _problem(self, method: str, problem: Exception) -> None:
        profile = self._handle.profile
        assert profile is not None
        profile.problem(NAME, method, problem)


def _moves(info: PodInfo) -> bool:
    """Whether a pod may be moved: somebody makes it again, and it is not leaving."""
    owner = info.pod.controller
    if owner is None or owner.kind in ("DaemonSet", "Node"):
        return False
    return not info.terminating and not info.pod.spec.resource_claims


def new(args: Any, handle: Handle) -> Repack:
    try:
        solver("sat.python.cp_model")
        found = msgspec.convert(args or {}, RepackArgs)
    except ExtraMissing as problem:
        raise ConfigError(f'plugin "{NAME}": {problem}') from problem
    except msgspec.ValidationError as problem:
        raise ConfigError(f'plugin "{NAME}": args: {problem}') from problem
    if found.timeout_seconds <= 0 or found.max_moves < 1:
        raise ConfigError(f'plugin "{NAME}": timeoutSeconds and maxMoves must be above 0')
    return Repack(found, handle)


PLUGINS = {NAME: new}
