"""Empties nodes one by one by moving only what is on them: few moves, a good start, and a budget.

The nodes with the fewest pods for their price are tried first; a pod goes to the fullest node in
use that takes it. A node that cannot be emptied is left as it was.
"""

from __future__ import annotations

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.pack.fill import Fill
from bayplan.pack.holding import holds
from bayplan.pack.model import Problem


def empty_nodes(problem: Problem, most: int = -1) -> IntArray:
    """A placement with fewer nodes in use, by at most so many moves (-1: any number)."""
    nothing = np.zeros_like(problem.count)
    fill = Fill(problem, demand=nothing, placed=problem.now)
    used = problem.used_now.copy()
    best, spent = problem.now, 0
    loads = problem.now.sum(axis=0)
    able = np.flatnonzero(used & ~problem.forced)
    order = able[np.argsort(loads[able] / np.maximum(problem.cost[able], 1), kind="stable")]
    touched: set[int] = set()
    for row in order.tolist():
        count = int(fill.placed[:, row].sum())
        if row in touched or (most >= 0 and spent + count > most):
            continue
        done = _empty(fill, row, used)
        if done is None:
            continue
        if holds(problem, fill.placed):
            used[row] = False
            touched |= {target for _, target in done}
            best, spent = fill.placed.copy(), spent + count
        else:
            for c, target in done:
                fill.put(c, target, -1)
                fill.put(c, row)
    return best


def _empty(fill: Fill, row: int, used: BoolArray) -> list[tuple[int, int]] | None:
    """Put all pods of a node elsewhere; None and nothing changed if one finds no place."""
    problem = fill.problem
    done: list[tuple[int, int]] = []
    pods = np.repeat(np.arange(len(problem.classes)), fill.placed[:, row]).tolist()
    scale = np.maximum(problem.capacity.max(axis=1, initial=1), 1)[:, None]
    pods.sort(key=lambda c: -float((problem.need[c] / scale[:, 0]).sum()))
    for c in pods:
        fill.put(c, row, -1)
        target = _fullest(fill, c, row, used, scale)
        if target < 0:
            fill.put(c, row)
            for one, where in reversed(done):
                fill.put(one, where, -1)
                fill.put(one, row)
            return None
        fill.put(c, target)
        done.append((c, target))
    return done


def _fullest(fill: Fill, c: int, row: int, used: BoolArray, scale: IntArray) -> int:
    problem = fill.problem
    need = problem.need[c][:, None]
    fits = ((need <= fill.free) | (need == 0)).all(axis=0) & problem.allowed[c] & used
    fits[row] = False
    rows = np.flatnonzero(fits)
    order = rows[np.argsort((fill.free[:, rows] / scale).sum(axis=0), kind="stable")]
    return next((int(target) for target in order if fill.lets(c, int(target))), -1)
