"""Which nodes are too full for a pod once the pods nominated to them are counted.

Filters run on a copy of the node with the nominated pods added. While every filter that runs for
the pod looks at one node and its pods alone, the answer for a node stays until its row or the
nominations change, so it is remembered for pods of the same plan and priority. Otherwise every
such node is looked at in every attempt.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayplan.cluster.arrays import BoolArray
from bayplan.cluster.column import Column
from bayplan.cluster.limits import Limits
from bayplan.engine.answers import AttemptFailed, Judgement
from bayplan.engine.cache import Cache
from bayplan.framework import Profile, Status
from bayplan.framework.runtime.filtering import run_filters_with_nominated


class Promised:
    """What is remembered for one plan and priority."""

    name = "nominated pods"

    _told: bool
    """Whether somebody else holds the statuses, since `follow` began them."""

    def __init__(self, limits: Limits) -> None:
        self.fails = Column(limits.changes)
        """1 where a row does not fit, as filters have it."""
        self._nominations: tuple[int, int] | None = None
        """Revision of nominations and nodes: either may give a promise to another row."""
        self._generation: int | None = None
        self._promised: set[int] = set()
        self._pending: set[int] = set()
        """Rows that have not been looked at since they changed."""
        self._statuses: dict[int, Status] = {}

    def follow(self, cache: Cache) -> None:
        """Forget what may have changed."""
        table = cache.table
        nominations = (cache.nominator.revision, table.nodes_revision)
        rows = None if self._generation is None else table.changes.since(self._generation)
        if rows is None or self._nominations != nominations:
            found = (table.row_of(name) for name in cache.nominator.nodes())
            self._promised = {row for row in found if row is not None}
            self._pending = set(self._promised)
            self._statuses, self._told = {}, False
            self.fails.put(np.zeros(table.count, dtype=np.uint32))
        else:
            for row in self._promised.intersection(rows):
                self._pending.add(row)
                self.keep(row, None)
        self._nominations, self._generation = nominations, table.changes.generation

    def pending(self) -> Iterator[int]:
        """Rows to look at; each is told once."""
        while self._pending:
            yield self._pending.pop()

    def keep(self, row: int, status: Status | None) -> None:
        """Remember what was found; None: it fits."""
        if self._told:
            self._statuses, self._told = self._statuses.copy(), False
        if status is not None:
            self._statuses[row] = status
        else:
            self._statuses.pop(row, None)
        self.fails.set_row(row, status is not None)

    def rejected(self) -> dict[int, Status]:
        """Rows that do not fit, and why; not to be changed, nor will it."""
        self._told = True
        return self._statuses


def too_full(
    cache: Cache, profile: Profile, judgement: Judgement, within: BoolArray, *, keep: bool
) -> tuple[dict[int, Status], Promised | None]:
    """Rows (among some) that nominated pods leave no room on, with their statuses.

    Only with `keep`, for the rows that fit, is anything remembered, and told what: a row fits or
    not until it changes.
    """
    pod, promised = judgement.info.pod, judgement.plan.promised
    itself = cache.nominator.node_of(pod.metadata.uid)
    kept = keep and judgement.plan.hangs_on_rows and not itself
    memory = promised.pop(pod.priority, None) if kept else None
    if memory is None:
        memory = Promised(cache.limits)
    if kept:
        while len(promised) >= cache.limits.priorities:
            del promised[next(iter(promised))]
        promised[pod.priority] = memory  # last used last
    memory.follow(cache)
    for row in memory.pending():
        if not within[row]:
            continue
        memory.keep(row, with_nominated(cache, profile, judgement, row))
    return memory.rejected(), memory if kept else None


def with_nominated(cache: Cache, profile: Profile, judgement: Judgement, row: int) -> Status | None:
    """How a node rejects a pod with the pods nominated to it; raises AttemptFailed."""
    pod = judgement.info.pod
    nominated = cache.nominator.pods_for(cache.table.name_of(row))
    if not any(n.priority >= pod.priority and n.uid != pod.metadata.uid for n in nominated):
        return None
    info = cache.table.info(row)
    status = run_filters_with_nominated(profile, judgement.state, pod, info, nominated)
    if status is not None and not status.rejected:
        raise AttemptFailed(status)
    return status
