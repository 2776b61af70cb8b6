"""Looks for a placement that costs less, until the bound is met or the time is over.

First quick fillings, then the whole problem for CP-SAT if it is small, else parts of it: some nodes
that are nearly empty and some others are packed anew together. The bound is there from the
beginning and only rises. Whoever wants to stop calls `stop`; what is best by then is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.pack.exact import Exact, Found
from bayplan.pack.fill import Fill
from bayplan.pack.holding import holds
from bayplan.pack.linear import Linear
from bayplan.pack.model import Problem

SMALL = 40_000
"""Up to how many (class, node) pairs CP-SAT gets the whole problem."""
FILLS = 24
PART = 10
"""How many nodes are packed anew together."""
PART_SECONDS = 3.0

Told = Callable[["Progress"], None]


class Progress(msgspec.Struct, frozen=True):
    """How far the search is."""

    seconds: float
    bound: int
    best: int
    """Cost of the best placement, -1 while there is none."""
    doing: str


class Result(msgspec.Struct, eq=False):
    """What the search came to."""

    bound: int
    """No placement costs less; -1 if it is proven that there is none."""
    placed: list[IntArray]
    """Placements, the best first."""
    cost: int
    """Of the best; -1 if there is none."""


class Search:
    """One search; `run` once."""

    def __init__(
        self,
        problem: Problem,
        seconds: float,
        *,
        start: IntArray | None = None,
        told: Told | None = None,
    ) -> None:
        self.problem = problem
        self._begin = time.monotonic()
        self._seconds = seconds
        self._told = told
        self._stopped = False
        self._running: Exact | None = None
        self._noise = np.random.default_rng(1)
        self.bound = 0
        self.best = -1
        self.placed: list[IntArray] = []
        if start is not None:
            self._take(start, "as it is")

    def offer(self, placed: IntArray, doing: str) -> None:
        """A placement from elsewhere."""
        self._take(placed, doing)

    def stop(self) -> None:
        """End soon; may be called from another thread."""
        self._stopped = True
        running = self._running
        if running is not None:
            running.stop()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return 0.0 if self._stopped else self._begin + self._seconds - time.monotonic()

    @property
    def done(self) -> bool:
        return self.bound < 0 or self.bound == self.best or self.left <= 0

    def run(self) -> Result:
        """Search until it is done."""
        self._raise(Linear(self.problem).solve(self.left), "bound")
        if not self.done:
            self._fill()
        if not self.done:
            small = int(self.problem.allowed.sum()) <= SMALL
            self._whole() if small else self._parts()
        return Result(self.bound, self.placed[::-1], self.best)

    # -- steps --------------------------------------------------------------------------------

    def _fill(self) -> None:
        until = 0.85 * self.left
        for turn in range(FILLS):
            if self.done or (turn > 1 and self.left < until):
                return
            fill = Fill(self.problem)
            rows = fill.order()
            if turn % 2:
                rows = [row for row in rows if self.problem.used_now[row]] + [
                    row for row in rows if not self.problem.used_now[row]
                ]
            if fill.run(rows, self._noise if turn > 1 else None):
                self._take(fill.placed, "filling")

    def _whole(self) -> None:
        model = Exact(self.problem)
        if self.placed:
            model.hint(self.placed[-1])
            model.model.add(model.cost <= self.best)
        model.model.add(model.cost >= max(self.bound, 0))
        model.model.minimize(model.cost)
        found = self._solve(model, self.left)
        if found.impossible:
            self.bound = -1 if not self.placed else self.best
            return
        if found.placed is not None:
            self._take(found.placed, "solving")
        self._raise(found.bound, "solving")

    def _parts(self) -> None:
        problem = self.problem
        if not self.placed:
            return
        while not self.done:
            placed = self.placed[-1]
            used = np.flatnonzero(problem.used(placed) & ~problem.forced)
            if len(used) < 2:
                return
            fullness = (problem.need.T @ placed / np.maximum(problem.capacity, 1)).max(axis=0)[used]
            light = used[np.argsort(fullness + self._noise.uniform(0, 0.05, len(used)))][:2]
            others = self._noise.permutation(np.setdiff1d(used, light))[: PART - len(light)]
            rows = [*light.tolist(), *others.tolist()]
            outside = placed.copy()
            outside[:, rows] = 0
            model = Exact(problem, rows, demand=placed[:, rows].sum(axis=1), outside=outside)
            model.hint(placed)
            model.model.minimize(model.cost)
            found = self._solve(model, min(PART_SECONDS, self.left))
            if found.placed is not None:
                self._take(found.placed, "repacking")

    def _solve(self, model: Exact, seconds: float) -> Found:
        self._running = model
        try:
            return model.solve(seconds, best=self._bounded if len(model.rows) > PART else None)
        finally:
            self._running = None

    def _bounded(self, bound: float) -> None:
        self._raise(int(np.ceil(bound - 1e-6)), "solving")

    # -- what is known ------------------------------------------------------------------------

    def _take(self, placed: IntArray, doing: str) -> None:
        cost = self.problem.cost_of(self.problem.used(placed))
        if (self.best < 0 or cost < self.best) and holds(self.problem, placed):
            self.best = cost
            self.placed.append(placed)
            self._tell(doing)

    def _raise(self, bound: int, doing: str) -> None:
        if bound < 0 and not self.placed:
            self.bound = -1
        elif bound > self.bound:
            self.bound = min(bound, self.best) if self.best >= 0 else bound
            self._tell(doing)

    def _tell(self, doing: str) -> None:
        if self._told is not None:
            spent = time.monotonic() - self._begin
            self._told(Progress(spent, self.bound, self.best, doing))
