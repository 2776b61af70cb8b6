"""The whole problem for CP-SAT: one integer for each class on each node, every rule exactly.

Also serves parts of a problem: some rows are free, the pods on all others are where `outside` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.pack.model import AtMostOne, Disjoint, Near, Problem, Rule, Spread, members
from bayplan.pack.solver import solver

WORKERS = 2


class Found(msgspec.Struct, eq=False):
    """What CP-SAT came to."""

    placed: IntArray | None
    """(C, N), None if nothing was found."""
    bound: int
    """No placement costs less; -1 if there is none at all."""
    proven: bool = False
    """Whether the placement is the best, or it is certain that there is none."""

    @property
    def impossible(self) -> bool:
        return self.placed is None and self.proven


class Exact:
    """A model over some rows of a problem."""

    def __init__(
        self,
        problem: Problem,
        rows: Sequence[int] | None = None,
        *,
        demand: IntArray | None = None,
        outside: IntArray | None = None,
        optional: BoolArray | None = None,
    ) -> None:
        self.problem = problem
        self.rows = list(range(len(problem.names))) if rows is None else list(rows)
        self._demand = problem.count if demand is None else demand
        self._outside = outside
        self._optional = optional
        """(C,): classes of which fewer pods than there are may be placed."""
        self._cp = solver("sat.python.cp_model")
        self.model: Any = self._cp.CpModel()
        self.x: dict[tuple[int, int], Any] = {}
        self.u: dict[int, Any] = {}
        self._run: Any = None
        self._present: dict[tuple[frozenset[int], tuple[int, ...]], Any] = {}
        self._variables()
        self._capacity()
        for rule in problem.rules:
            self._rule(rule)

    # -- the model ----------------------------------------------------------------------------

    def _variables(self) -> None:
        problem, model = self.problem, self.model
        for n in self.rows:
            self.u[n] = model.new_constant(1) if problem.forced[n] else model.new_bool_var(f"u{n}")
        for c in np.flatnonzero(self._demand).tolist():
            most = problem.most(c)
            terms = []
            for n in self.rows:
                high = int(min(most[n], self._demand[c]))
                if high > 0:
                    self.x[c, n] = model.new_int_var(0, high, f"x{c},{n}")
                    terms.append(self.x[c, n])
            wanted = int(self._demand[c])
            if self._optional is not None and self._optional[c]:
                model.add(sum(terms) <= wanted)
            else:
                model.add(sum(terms) == wanted)

    def _capacity(self) -> None:
        problem = self.problem
        by_row: dict[int, list[int]] = {n: [] for n in self.rows}
        for c, n in self.x:
            by_row[n].append(c)
        for n, classes in by_row.items():
            for place in range(len(problem.resources)):
                parts = [(c, int(problem.need[c, place])) for c in classes]
                if any(amount for _, amount in parts):
                    used = sum(amount * self.x[c, n] for c, amount in parts if amount)
                    self.model.add(used <= int(problem.capacity[place, n]) * self.u[n])
            for c in classes:
                if not problem.need[c].any():
                    self.model.add(self.x[c, n] <= int(self._demand[c]) * self.u[n])

    def _rule(self, rule: Rule) -> None:
        if isinstance(rule, AtMostOne):
            for rows in members(rule.domain).values():
                terms, before = self._terms(rule.classes, rows), self._before(rule.classes, rows)
                if len(terms) + before > 1 or terms:
                    self.model.add(sum(terms) <= max(1 - before, 0))
        elif isinstance(rule, Disjoint):
            for rows in members(rule.domain).values():
                self._disjoint(rule, rows)
        elif isinstance(rule, Spread):
            self._spread(rule)
        else:
            self._near(rule)

    def _terms(self, classes: Sequence[int], rows: Any) -> list[Any]:
        return [self.x[c, n] for c in classes for n in rows.tolist() if (c, n) in self.x]

    def _before(self, classes: Sequence[int], rows: Any) -> int:
        """How many pods of some classes are on rows outside of this model."""
        if self._outside is None or not classes:
            return 0
        return int(self._outside[np.ix_(list(classes), rows)].sum())

    def _there(self, classes: Sequence[int], rows: Any) -> Any:
        """True where any pod of some classes is on some rows; None if none can be."""
        if self._before(classes, rows):
            return True
        terms = self._terms(classes, rows)
        if not terms:
            return None
        key = (frozenset(classes), tuple(rows.tolist()))
        if key not in self._present:
            literal = self.model.new_bool_var("")
            most = sum(int(self._demand[c]) for c in classes)
            self.model.add(sum(terms) <= most * literal)
            self._present[key] = literal
        return self._present[key]

    def _disjoint(self, rule: Disjoint, rows: Any) -> None:
        left, right = self._there(rule.left, rows), self._there(rule.right, rows)
        if left is None or right is None:
            return
        if left is True and right is True:
            return  # both are outside of this model
        self.model.add(left + right <= 1)

    def _spread(self, rule: Spread) -> None:
        domains = members(np.where(rule.included, rule.domain, -1))
        every = members(rule.domain)
        counts: dict[int, Any] = {}
        for code in rule.present:
            rows = domains[code]
            fixed = rule.fixed.get(code, 0) + self._before(rule.matching, rows)
            counts[code] = fixed + sum(self._terms(rule.matching, rows))
        for code, rows in every.items():
            there = self._there(rule.owners, rows)
            if there is None or code not in counts:
                continue
            if rule.from_zero:
                self._when(there, counts[code] <= rule.skew)
                continue
            for other in rule.present:
                if other != code:
                    self._when(there, counts[code] - counts[other] <= rule.skew)

    def _near(self, rule: Near) -> None:
        for code, rows in members(rule.domain).items():
            there = self._there((rule.owner,), rows)
            if there is None:
                continue
            fixed = rule.fixed.get(code, 0) + self._before(rule.matching, rows)
            matching = fixed + sum(self._terms(rule.matching, rows))
            self._when(there, matching >= rule.least)

    def _when(self, literal: Any, what: Any) -> None:
        if isinstance(what, (bool, np.bool_)):
            if not what and literal is not True:
                self.model.add(literal == 0)
            elif not what:
                self.model.add_bool_or([])
            return
        added = self.model.add(what)
        if literal is not True:
            added.only_enforce_if(literal)

    # -- goals --------------------------------------------------------------------------------

    @property
    def cost(self) -> Any:
        """What the rows in use cost."""
        return sum(int(self.problem.cost[n]) * self.u[n] for n in self.rows)

    def moves(self) -> Any:
        """How many pods go to a node where they are not now."""
        terms = []
        for (c, n), variable in self.x.items():
            here = int(self.problem.now[c, n])
            if self.problem.classes[c].pending:
                continue
            if not here:
                terms.append(variable)
                continue
            extra = self.model.new_int_var(0, int(self._demand[c]), "")
            self.model.add(extra >= variable - here)
            terms.append(extra)
        return sum(terms)

    def hint(self, placed: IntArray) -> None:
        """Start from a placement."""
        for (c, n), variable in self.x.items():
            self.model.add_hint(variable, int(placed[c, n]))
        for n, variable in self.u.items():
            if not self.problem.forced[n]:
                self.model.add_hint(variable, bool(placed[:, n].any()))

    def solve(
        self,
        seconds: float,
        *,
        best: Callable[[float], None] | None = None,
        workers: int = WORKERS,
    ) -> Found:
        """Look for the best until the time is over; `best` is told when the bound rises."""
        cp, run = self._cp, self._cp.CpSolver()
        run.parameters.max_time_in_seconds = max(seconds, 0.01)
        run.parameters.num_workers = workers
        run.parameters.random_seed = 1
        run.parameters.catch_sigint_signal = False
        if best is not None:
            run.best_bound_callback = best
        self._run = run
        status = run.solve(self.model)
        if status == cp.INFEASIBLE:
            return Found(None, -1, True)
        goal = self.model.has_objective()
        bound = max(int(np.ceil(run.best_objective_bound - 1e-6)), 0) if goal else 0
        if status not in (cp.OPTIMAL, cp.FEASIBLE):
            return Found(None, bound)
        placed = self._base()
        for (c, n), variable in self.x.items():
            placed[c, n] = run.value(variable)
        return Found(placed, bound, status == cp.OPTIMAL)

    def stop(self) -> None:
        """End a solve soon; from another thread."""
        if self._run is not None:
            self._run.stop_search()

    def _base(self) -> IntArray:
        if self._outside is not None:
            return self._outside.copy()
        return np.zeros((len(self.problem.classes), len(self.problem.names)), dtype=np.int64)
