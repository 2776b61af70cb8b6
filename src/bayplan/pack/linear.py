"""The bound that always comes: a linear programme over classes of pods and classes of nodes.

Nodes that are the same to every class and rule are one class with a count. Fractions of nodes and
pods are allowed, so that no placement can do better; rounding up gives the bound. Where nodes are
of too many classes, those that differ only in how much is left on them are taken together with the
most that any has, which can only lower the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.pack.model import AtMostOne, Problem, Spread, is_local, members
from bayplan.pack.solver import solver

MANY = 400
"""How many classes of nodes are told apart by what is left on them."""
SLACK = 1e-6


class NodeClass(msgspec.Struct, eq=False):
    """Nodes that are the same to the linear programme."""

    rows: list[int]
    capacity: IntArray
    """(R,)"""
    allowed: BoolArray
    """(C,)"""
    cost: int
    forced: bool


def node_classes(problem: Problem) -> list[NodeClass]:
    """Nodes that no rule and no pod tells apart."""
    domains = [rule.domain for rule in problem.rules if not is_local(rule.domain)]
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in range(len(problem.names)):
        key = _shape(problem, domains, row)
        groups.setdefault((*key, problem.capacity[:, row].tobytes()), []).append(row)
    if len(groups) > MANY:
        groups = {}
        for row in range(len(problem.names)):
            groups.setdefault(_shape(problem, domains, row), []).append(row)
    return [
        NodeClass(
            rows,
            problem.capacity[:, rows].max(axis=1),
            np.asarray(problem.allowed[:, rows].any(axis=1)),
            int(problem.cost[rows[0]]),
            bool(problem.forced[rows[0]]),
        )
        for rows in groups.values()
    ]


def _shape(problem: Problem, domains: Sequence[IntArray], row: int) -> tuple[object, ...]:
    return (
        np.packbits(problem.allowed[:, row]).tobytes(),
        tuple(int(domain[row]) for domain in domains),
        int(problem.cost[row]),
        bool(problem.forced[row]),
    )


class Linear:
    """The programme; solve it for a bound, or ask whether anything fits at all."""

    def __init__(self, problem: Problem, *, optional: BoolArray | None = None) -> None:
        self.problem = problem
        self.nodes = node_classes(problem)
        self._lp = solver("linear_solver.pywraplp")
        self.solver: Any = self._lp.Solver.CreateSolver("GLOP")
        self._optional = optional
        self.x: dict[tuple[int, int], Any] = {}
        self.u: list[Any] = []
        self._most = [problem.most(c) for c in range(len(problem.classes))]
        self._variables()
        self._capacity()
        for rule in problem.rules:
            if isinstance(rule, AtMostOne):
                self._at_most_one(rule)
            elif isinstance(rule, Spread):
                self._spread(rule)

    def _variables(self) -> None:
        run, problem = self.solver, self.problem
        for item in self.nodes:
            size = len(item.rows)
            self.u.append(run.NumVar(size if item.forced else 0, size, ""))
        for c, wanted in enumerate(problem.count.tolist()):
            optional = self._optional is not None and bool(self._optional[c])
            row = run.RowConstraint(0 if optional else wanted, wanted, "")
            for g, item in enumerate(self.nodes):
                most = int(self._most[c][item.rows].sum())
                if most > 0:
                    self.x[c, g] = run.NumVar(0, min(most, wanted), "")
                    row.SetCoefficient(self.x[c, g], 1)
                    per_node = int(self._most[c][item.rows].max())
                    link = run.RowConstraint(-run.infinity(), 0, "")
                    link.SetCoefficient(self.x[c, g], 1)
                    link.SetCoefficient(self.u[g], -min(per_node, wanted))

    def _capacity(self) -> None:
        run, problem = self.solver, self.problem
        scale = np.maximum(problem.capacity.max(axis=1, initial=1), 1)
        rows: dict[tuple[int, int], Any] = {}
        for (c, g), variable in self.x.items():
            for place in np.flatnonzero(problem.need[c]).tolist():
                row = rows.get((g, place))
                if row is None:
                    row = rows[g, place] = run.RowConstraint(-run.infinity(), 0, "")
                    room = float(self.nodes[g].capacity[place]) / float(scale[place])
                    row.SetCoefficient(self.u[g], -room)
                row.SetCoefficient(variable, float(problem.need[c, place]) / float(scale[place]))

    def _at_most_one(self, rule: AtMostOne) -> None:
        run = self.solver
        if is_local(rule.domain):
            if len(rule.classes) < 2:
                return  # said by how many of the class a node can hold
            for g, item in enumerate(self.nodes):
                if (rule.domain[item.rows] >= 0).all():
                    terms = [self.x[c, g] for c in rule.classes if (c, g) in self.x]
                    if terms:
                        run.Add(run.Sum(terms) <= self.u[g])
            return
        for rows in members(rule.domain).values():
            terms = self._inside(rule.classes, rows)
            if terms:
                run.Add(run.Sum(terms) <= 1)

    def _spread(self, rule: Spread) -> None:
        """Only where it holds without asking who is where."""
        if not rule.plain or is_local(rule.domain) or not rule.included.all():
            return
        run, domains = self.solver, members(rule.domain)
        counts = {code: self._inside(rule.matching, domains[code]) for code in rule.present}
        if rule.from_zero:
            for terms in counts.values():
                if terms:
                    run.Add(run.Sum(terms) <= rule.skew)
            return
        least = run.NumVar(0, run.infinity(), "")
        for terms in counts.values():
            run.Add(run.Sum(terms) >= least)
            run.Add(run.Sum(terms) <= least + rule.skew)

    def _inside(self, classes: Sequence[int], rows: Any) -> list[Any]:
        """Variables of classes on the node classes of a domain."""
        wanted = set(rows.tolist())
        groups = [g for g, item in enumerate(self.nodes) if item.rows[0] in wanted]
        return [self.x[c, g] for c in classes for g in groups if (c, g) in self.x]

    def solve(self, seconds: float = 60.0) -> int:
        """No placement costs less; -1 if there is none at all."""
        run = self.solver
        run.SetTimeLimit(int(max(seconds, 0.1) * 1000))
        run.Minimize(run.Sum([item.cost * u for item, u in zip(self.nodes, self.u, strict=True)]))
        status = run.Solve()
        if status == run.INFEASIBLE:
            return -1
        floor = int(self.problem.cost[self.problem.forced].sum())
        if status != run.OPTIMAL:
            return floor
        value: float = run.Objective().Value()
        return max(floor, math.ceil(value - SLACK * max(1.0, abs(value))))
