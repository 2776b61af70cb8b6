"""Pods that wait: is there a placement with all that runs, by which moves, or why is there none?

The classes of a problem that are pending are what is asked for; at least `needed` of their pods
must be placed. In a large cluster a few promising nodes are tried first; that nothing fits at all
is then proven by the linear programme.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.pack.exact import WORKERS, Exact, Found
from bayplan.pack.linear import Linear
from bayplan.pack.model import Problem
from bayplan.pack.search import SMALL

NEIGHBOURS = 36
VICTIM = 1000
"""How many moves one pod is worth that would have to go."""


class Arrangement(msgspec.Struct, eq=False):
    """What was found out."""

    placed: IntArray | None = None
    """(C, N)"""
    impossible: bool = False
    """Proven."""


class Asked:
    """The question about the pending classes of a problem."""

    def __init__(self, problem: Problem, needed: int, *, workers: int = WORKERS) -> None:
        """`workers`: with one, the same question has the same answer if it is found in time."""
        self.problem, self.needed, self._workers = problem, needed, workers
        self.pending: BoolArray = np.array([c.pending for c in problem.classes], dtype=bool)
        self.small = int(problem.allowed.sum()) <= SMALL

    # -- a placement ----------------------------------------------------------------------------

    def by_moves(self, seconds: float, most: int = -1, *, from_one: bool = False) -> Arrangement:
        """With everything that runs, by few moves; `from_one`: only off the nodes that they get."""
        near = self._neighbours()
        found = self._solve(near, seconds, self.pending, most, from_one)
        if from_one:
            return Arrangement(found.placed)
        if found.placed is not None or len(near) == len(self.problem.names):
            return Arrangement(found.placed, found.impossible and most < 0)
        if self.small:
            found = self._solve(None, seconds, self.pending, most)
            return Arrangement(found.placed, found.impossible and most < 0)
        return Arrangement(None, most < 0 and self.never(self.pending))

    def by_preemption(self, seconds: float, priority: int) -> Arrangement:
        """Less important pods may have to go, as few as possible."""
        less = np.array([c.priority < priority for c in self.problem.classes], dtype=bool)
        optional = self.pending | (less & ~self.pending)
        if not (less & ~self.pending).any():
            return Arrangement(None, True)
        near = self._neighbours()
        found = self._solve(near, seconds, optional, -1)
        if found.placed is None and self.small and len(near) < len(self.problem.names):
            found = self._solve(None, seconds, optional, -1)
            return Arrangement(found.placed, found.impossible)
        whole = len(near) == len(self.problem.names)
        proven = found.impossible if whole else found.placed is None and self.never(optional)
        return Arrangement(found.placed, proven)

    def _solve(
        self,
        rows: Sequence[int] | None,
        seconds: float,
        optional: BoolArray,
        most: int,
        from_one: bool = False,
    ) -> Found:
        problem = self.problem
        demand, outside = problem.count, None
        if rows is not None and len(rows) < len(problem.names):
            outside = problem.now.copy()
            outside[:, list(rows)] = 0
            demand = np.where(self.pending, problem.count, problem.now[:, list(rows)].sum(axis=1))
        model = Exact(problem, rows, demand=demand, outside=outside, optional=optional)
        self._enough(model)
        moves = model.moves()
        if most >= 0:
            model.model.add(moves <= most)
        if from_one:
            self._only_there(model)
        kept = sum(v for (c, _), v in model.x.items() if optional[c] and not self.pending[c])
        got = sum(v for (c, _), v in model.x.items() if self.pending[c])
        model.model.minimize(moves - VICTIM * kept - got)
        model.hint(problem.now)
        return model.solve(seconds, workers=self._workers)

    def _only_there(self, model: Exact) -> None:
        """Pods leave a node only if a pending one comes to it."""
        for (c, n), variable in model.x.items():
            here = int(self.problem.now[c, n])
            if here and not self.pending[c]:
                come = [v for (p, m), v in model.x.items() if m == n and self.pending[p]]
                model.model.add(variable + here * sum(come) >= here)

    def _enough(self, model: Exact) -> None:
        terms = [v for (c, _), v in model.x.items() if self.pending[c]]
        model.model.add(sum(terms) >= self.needed)

    def _neighbours(self) -> list[int]:
        """Nodes where the pods might go, and nodes with room for what they displace."""
        problem = self.problem
        size = len(problem.names)
        if size <= NEIGHBOURS:
            return list(range(size))
        free = problem.capacity - problem.need.T @ problem.now  # (R, N)
        scale = np.maximum(problem.capacity.max(axis=1, initial=1), 1)[:, None]
        room = (free / scale).sum(axis=0)
        lack = np.zeros(size)
        able = np.zeros(size, dtype=bool)
        for c in np.flatnonzero(self.pending).tolist():
            need = problem.need[c][:, None]
            lack += (np.maximum(need - free, 0) / scale).sum(axis=0)
            able |= problem.allowed[c]
        hosts = np.argsort(lack + 10.0 * ~able - 1e-6 * room, kind="stable")[: NEIGHBOURS // 2]
        others = [row for row in np.argsort(-room, kind="stable") if row not in set(hosts.tolist())]
        return [int(row) for row in [*hosts, *others[: NEIGHBOURS - len(hosts)]]]

    # -- no placement ---------------------------------------------------------------------------

    def never(self, optional: BoolArray, seconds: float = 10.0) -> bool:
        """Whether it is proven that not enough of the pods can be placed."""
        if self.small:
            model = Exact(self.problem, optional=optional)
            self._enough(model)
            return model.solve(seconds).impossible
        linear = Linear(self.problem, optional=optional)
        run = linear.solver
        terms = [v for (c, _), v in linear.x.items() if self.pending[c]]
        run.Add(run.Sum(terms) >= self.needed)
        return linear.solve(seconds) < 0


def victims_of(problem: Problem, placed: IntArray) -> list[str]:
    """Uids of running pods that a placement has no room for."""
    found: list[str] = []
    for c, item in enumerate(problem.classes):
        over = int(problem.count[c] - placed[c].sum())
        if item.pending or over <= 0:
            continue
        keep = np.minimum(problem.now[c], placed[c]).tolist()
        row_of = {name: row for row, name in enumerate(problem.names)}
        for info in item.pods:
            row = row_of[info.node_name]
            if keep[row] > 0:
                keep[row] -= 1
            elif over > 0:
                found.append(info.uid)
                over -= 1
    return found
