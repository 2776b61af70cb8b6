"""Fills nodes one after the other: the quick placement that everything else improves.

Nodes that must be in use come first, then those that hold most for their price. On a node the class
is taken next whose needs lie most along what is still free there, weighed by how scarce each
resource is. Rules are kept as pods are put: what they forbid is never tried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.pack.model import AtMostOne, Disjoint, Near, Problem, Spread

Floats = npt.NDArray[np.float64]


class Fill:
    """One run; `left` tells what found no place."""

    def __init__(
        self, problem: Problem, *, demand: IntArray | None = None, placed: IntArray | None = None
    ) -> None:
        self.problem = problem
        shape = (len(problem.classes), len(problem.names))
        self.placed: IntArray = np.zeros(shape, dtype=np.int64) if placed is None else placed.copy()
        self.left: IntArray = (problem.count if demand is None else demand).copy()
        self.free: IntArray = problem.capacity - problem.need.T @ self.placed  # (R, N)
        top = np.maximum(problem.capacity.max(axis=1, initial=1), 1).astype(np.float64)
        wanted = (problem.need * problem.count[:, None]).sum(axis=0) / top
        self._weight: Floats = wanted / max(float(wanted.sum()), 1e-9) / top**2  # (R,)
        self._need: Floats = problem.need.astype(np.float64)
        self._size: Floats = (problem.need / top * wanted).sum(axis=1)  # (C,)
        self._guards = [Guard.of(rule, problem, self.placed) for rule in problem.rules]
        self._ruled = np.zeros(shape[0], dtype=bool)
        self._of: dict[int, list[Guard]] = {}
        self._with: dict[int, list[int]] = {}
        """For each class with a rule, the classes that a rule joins with it."""
        self._first: Floats = np.ones(shape[0])
        """Classes of which a node takes few come first wherever they can."""
        for guard in self._guards:
            self._ruled[list(guard.classes)] = True
            for c in guard.classes:
                self._of.setdefault(c, []).append(guard)
                self._with[c] = sorted({*self._with.get(c, ()), *guard.classes})
                if not isinstance(guard, _Even):
                    self._first[c] = 1e6

    def order(self) -> list[int]:
        """Nodes in the order in which they are opened."""
        problem = self.problem
        room = (problem.capacity * (self._weight * np.maximum(
            problem.capacity.max(axis=1, initial=1), 1))[:, None]).sum(axis=0)  # fmt: skip
        worth = room / np.maximum(problem.cost, 1)
        liked = problem.now.sum(axis=0)
        keys = np.lexsort((-liked, -np.round(worth, 9), ~problem.forced))
        return [int(row) for row in keys]

    def run(self, rows: Sequence[int], noise: np.random.Generator | None = None) -> bool:
        """Fill nodes in order; True if nothing is left."""
        last: tuple[bytes, npt.NDArray[np.int64]] | None = None
        for row in rows:
            if not self.left.any():
                break
            key = self.problem.capacity[:, row].tobytes() + self.problem.allowed[:, row].tobytes()
            if last is not None and last[0] == key and self._again(row, last[1]):
                continue
            before = self.placed[:, row].copy()
            self._fill(row, noise)
            last = (key, self.placed[:, row] - before) if noise is None else None
        return not self.left.any()

    def _again(self, row: int, pattern: npt.NDArray[np.int64]) -> bool:
        """Do as on the node before, which is the same, where no rule has a say."""
        used = pattern > 0
        if not used.any() or (self._ruled & used).any() or (pattern > self.left).any():
            return False
        if self.placed[:, row].any():
            return False
        self.placed[:, row] += pattern
        self.left -= pattern
        self.free[:, row] -= self.problem.need.T @ pattern
        return True

    def _fill(self, row: int, noise: np.random.Generator | None) -> None:
        choice = np.flatnonzero(self.problem.allowed[:, row] & (self.left > 0))
        if not len(choice):
            return
        need, left = self._need[choice], self.left[choice]  # (K, R), (K,)
        free = self.free[:, row].astype(np.float64)
        open_: BoolArray = np.ones(len(choice), dtype=bool)
        place_of = {c: place for place, c in enumerate(choice.tolist())}
        self._look(choice[self._ruled[choice]].tolist(), row, place_of, open_)
        shake = self._first[choice]
        if noise is not None:
            shake = shake * noise.uniform(0.7, 1.3, len(choice))
        idle = need == 0
        while True:
            fits = ((need <= free) | idle).all(axis=1) & (left > 0) & open_
            score = np.where(fits, ((need @ (free * self._weight)) + 1e-12) * shake, -1.0)
            best = int(score.argmax())
            if score[best] < 0:
                return
            c = int(choice[best])
            self.put(c, row)
            left[best] -= 1
            free -= need[best]
            if self._ruled[c]:
                self._look(self._with[c], row, place_of, open_)

    def _look(
        self, classes: Sequence[int], row: int, place_of: dict[int, int], open_: BoolArray
    ) -> None:
        """Ask the guards of some classes again whether they let one more onto a node."""
        for c in classes:
            place = place_of.get(c)
            if place is not None:
                open_[place] = all(guard.lets(c, row) for guard in self._of[c])

    def lets(self, c: int, row: int) -> bool:
        """Whether one more pod of a class may go to a node."""
        need = self.problem.need[c]
        return bool(
            self.problem.allowed[c, row]
            and ((need <= self.free[:, row]) | (need == 0)).all()
            and all(guard.lets(c, row) for guard in self._of.get(c, ()))
        )

    def put(self, c: int, row: int, count: int = 1) -> None:
        """Put pods on a node, or take them off."""
        self.placed[c, row] += count
        self.left[c] -= count
        self.free[:, row] -= self.problem.need[c] * count
        if self._ruled[c]:
            for guard in self._of[c]:
                guard.add(c, row, count)


class Guard:
    """Keeps one rule while pods are put."""

    classes: frozenset[int]

    def __init__(self, classes: frozenset[int], domain: IntArray) -> None:
        self.classes = classes
        self.members = np.array(sorted(classes), dtype=np.int64)
        self._domain = domain

    @staticmethod
    def of(rule: object, problem: Problem, placed: IntArray) -> Guard:
        """The guard of a rule, told of what is placed already."""
        if isinstance(rule, AtMostOne):
            guard: Guard = _One(rule)
        elif isinstance(rule, Disjoint):
            guard = _Apart(rule)
        elif isinstance(rule, Spread):
            guard = _Even(rule, problem)
        else:
            assert isinstance(rule, Near)
            guard = _Beside(rule)
        for c in guard.members.tolist():
            for row in np.flatnonzero(placed[c]).tolist():
                guard.add(c, row, int(placed[c, row]))
        return guard

    def lets(self, c: int, row: int) -> bool:
        raise NotImplementedError

    def add(self, c: int, row: int, count: int) -> None:
        raise NotImplementedError


class _One(Guard):
    def __init__(self, rule: AtMostOne) -> None:
        super().__init__(frozenset(rule.classes), rule.domain)
        self._taken: IntArray = np.zeros(int(rule.domain.max(initial=-1)) + 1, dtype=np.int64)

    def lets(self, c: int, row: int) -> bool:
        code = self._domain[row]
        return bool(code < 0 or self._taken[code] == 0)

    def add(self, c: int, row: int, count: int) -> None:
        if self._domain[row] >= 0:
            self._taken[self._domain[row]] += count


class _Apart(Guard):
    def __init__(self, rule: Disjoint) -> None:
        super().__init__(frozenset(rule.left) | frozenset(rule.right), rule.domain)
        size = int(rule.domain.max(initial=-1)) + 1
        self._sides = (frozenset(rule.left), frozenset(rule.right))
        self._taken: IntArray = np.zeros((2, size), dtype=np.int64)

    def lets(self, c: int, row: int) -> bool:
        code = self._domain[row]
        return code < 0 or not any(
            c in self._sides[side] and self._taken[1 - side, code] for side in (0, 1)
        )

    def add(self, c: int, row: int, count: int) -> None:
        code = self._domain[row]
        for side in (0, 1):
            if code >= 0 and c in self._sides[side]:
                self._taken[side, code] += count


class _Even(Guard):
    """Every domain gets the same share, some get one more: any skew of one or more allows it."""

    def __init__(self, rule: Spread, problem: Problem) -> None:
        super().__init__(frozenset(rule.matching) | frozenset(rule.owners), rule.domain)
        self._rule, self._counted = rule, frozenset(rule.matching)
        self._count: IntArray = np.zeros(int(rule.domain.max(initial=-1)) + 1, dtype=np.int64)
        for code, number in rule.fixed.items():
            self._count[code] += number
        wanted = int(problem.count[list(rule.matching)].sum()) + sum(rule.fixed.values())
        spots = max(len(rule.present), 1)
        self._share, self._extra = (0, 0) if rule.from_zero else divmod(wanted, spots)

    def lets(self, c: int, row: int) -> bool:
        code = self._domain[row]
        if c not in self._counted or code < 0 or not self._rule.included[row]:
            return True
        count = int(self._count[code])
        if not self._share:
            return count < self._rule.skew
        if count < self._share:
            return True
        return count == self._share and int((self._count > self._share).sum()) < self._extra

    def add(self, c: int, row: int, count: int) -> None:
        code = self._domain[row]
        if c in self._counted and code >= 0 and self._rule.included[row]:
            self._count[code] += count


class _Beside(Guard):
    """The class goes where matching pods are, or starts where there are none anywhere."""

    def __init__(self, rule: Near) -> None:
        super().__init__(frozenset((rule.owner, *rule.matching)), rule.domain)
        self._rule, self._counted = rule, frozenset(rule.matching)
        self._count: IntArray = np.zeros(int(rule.domain.max(initial=-1)) + 1, dtype=np.int64)
        for code, number in rule.fixed.items():
            self._count[code] += number

    def lets(self, c: int, row: int) -> bool:
        if c != self._rule.owner:
            return True
        code = self._domain[row]
        if code < 0:
            return False
        return bool(self._count[code] > 0 or (c in self._counted and not self._count.any()))

    def add(self, c: int, row: int, count: int) -> None:
        if c in self._counted and self._domain[row] >= 0:
            self._count[self._domain[row]] += count
