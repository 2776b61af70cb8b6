"""One pod under examination: what the engine decided, and what every filter says of every node.

A scheduler stops at the first filter that rejects a node; who wants to know what is missing needs
all of them. So each filter is asked once about the whole table, on the state that PreFilter left.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from bayplan.api import Pod
from bayplan.api.taints import tolerated
from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.info import NodeInfo, PodInfo
from bayplan.cluster.table import NodeTable
from bayplan.engine.cycle.decisions import Decision
from bayplan.framework import CycleState, Profile, Status, Verdict
from bayplan.framework.runtime.filtering import (
    PreFilterOutcome,
    call_filter,
    row_error,
    run_pre_filters,
)
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.why.pods import PodIndex

CORDON = "node.kubernetes.io/unschedulable"
HARD = ("NoSchedule", "NoExecute")


class Case:
    """A pod that was not placed, and all that can be asked about it."""

    def __init__(self, cluster: Cluster, pod: Pod, decision: Decision) -> None:
        self.cluster = cluster
        self.pod = pod
        self.decision = decision
        self.table: NodeTable = cluster.engine.cache.table
        self.notes: dict[str, Any] = {}
        """What a family worked out once for all nodes."""

    @property
    def info(self) -> PodInfo:
        return self.decision.info

    @property
    def profile(self) -> Profile:
        return self.decision.profile

    @property
    def index(self) -> PodIndex:
        return PodIndex.of(self.cluster)

    @cached_property
    def groups(self) -> list[tuple[Status, IntArray]]:
        """Nodes by the status that rejected them, the largest group first; plugins are merged."""
        error = self.decision.fit_error
        if error is None:
            return []
        merged: dict[tuple[str, tuple[str, ...]], tuple[Status, list[IntArray]]] = {}
        for status, rows in error.diagnosis.groups():
            key = (status.plugin, status.all_reasons)
            merged.setdefault(key, (status, []))[1].append(rows)
        found = [(status, np.concatenate(rows)) for status, rows in merged.values()]
        return sorted(found, key=lambda item: (-len(item[1]), item[0].plugin))

    @property
    def rejection(self) -> Status | None:
        """What PreFilter said if it ended the attempt for all nodes at once."""
        return self._pre_filtered[1].status

    @property
    def state(self) -> CycleState:
        return self._pre_filtered[0]

    @cached_property
    def _pre_filtered(self) -> tuple[CycleState, PreFilterOutcome]:
        state = CycleState(self.info)
        return state, run_pre_filters(self.profile, state, self.pod, self.table)

    @property
    def narrowing(self) -> str:
        """The plugin that left nodes out of the search, if it is one; their status does not say."""
        names = sorted(self._pre_filtered[1].narrowed_by)
        return names[0] if len(names) == 1 else ""

    @cached_property
    def within(self) -> BoolArray | None:
        """Rows that PreFilter left in the search; None for all."""
        names = self._pre_filtered[1].node_names
        if names is None:
            return None
        return np.array([name in names for name in self.table.names()], dtype=bool)

    @cached_property
    def fails(self) -> dict[str, Verdict]:
        """What each filter that rejects some node says of all nodes, in filter order."""
        if self.rejection is not None:
            return {}
        found: dict[str, Verdict] = {}
        for plugin in self.profile.filter:
            if plugin.name in self.state.skip_filter:
                continue
            verdict = call_filter(self.profile, plugin, self.state, self.pod, self.table)
            if not isinstance(verdict, Verdict) or row_error(verdict) is not None:
                continue
            if not verdict.mask.all():
                found[plugin.name] = verdict
        return self._cordons_once(found)

    def _cordons_once(self, found: dict[str, Verdict]) -> dict[str, Verdict]:
        """A cordoned node has a taint too, which goes when it is uncordoned: one thing, not two."""
        cordoned, tainted = found.get("NodeUnschedulable"), found.get("TaintToleration")
        if cordoned is None or tainted is None:
            return found
        mask = tainted.mask.copy()
        for row in np.flatnonzero(~cordoned.mask & ~tainted.mask).tolist():
            node = self.table.nodes[row]
            hard = [taint for taint in node.spec.taints if taint.effect in HARD]
            mask[row] = all(
                taint.key == CORDON or tolerated(self.pod.spec.tolerations, taint) for taint in hard
            )
        outcome = tainted.outcomes[0]
        found["TaintToleration"] = Verdict(mask, outcome.code, outcome.reasons)
        return found

    @cached_property
    def failures(self) -> IntArray:
        """How many filters reject each node."""
        total = np.zeros(self.table.count, dtype=np.int64)
        for verdict in self.fails.values():
            total += ~verdict.mask
        if self.within is not None:
            total[~self.within & (total == 0)] = 1
        return total

    def failing(self, row: int) -> tuple[str, ...]:
        """Which filters reject a node."""
        return tuple(name for name, verdict in self.fails.items() if not verdict.mask[row])

    def failing_sets(self, rows: IntArray) -> IntArray:
        """A number for each row; rows that the same filters reject have the same."""
        sets = np.zeros(len(rows), dtype=np.int64)
        for place, verdict in enumerate(self.fails.values()):
            sets |= (~verdict.mask[rows]).astype(np.int64) << place
        return sets

    def status(self, plugin: str, row: int) -> Status | None:
        """What one filter says of one node."""
        verdict = self.fails.get(plugin)
        return None if verdict is None else verdict.status_of(row)

    def node(self, row: int) -> NodeInfo:
        return self.table.info(row)

    def name(self, row: int) -> str:
        return self.table.name_of(row)

    def names(self, rows: IntArray, most: int = 5) -> list[str]:
        """Some names, in order."""
        return sorted(self.table.name_of(row) for row in rows[: 4 * most].tolist())[:most]

    def free(self, resource: int, rows: IntArray) -> IntArray:
        """What is left of a resource on some rows."""
        free: IntArray = (self.table.allocatable(resource) - self.table.requested(resource))[rows]
        return free
