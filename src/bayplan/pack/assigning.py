"""From counts back to pods: who stays, and who moves where, with few moves."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.cluster.info import PodInfo
from bayplan.pack.model import Near, Problem, Spread, is_local

BLOCK = 128
"""How many equal nodes are matched at once."""


def swap_equal(problem: Problem, placed: IntArray) -> IntArray:
    """Exchange the loads of equal nodes so that more pods can stay."""
    domains = [rule.domain for rule in problem.rules if not is_local(rule.domain)]
    labelled = [rule.domain >= 0 for rule in problem.rules]
    labelled += [rule.included for rule in problem.rules if isinstance(rule, Spread)]
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in range(len(problem.names)):
        key = (
            problem.capacity[:, row].tobytes(),
            np.packbits(problem.allowed[:, row]).tobytes(),
            tuple(int(domain[row]) for domain in domains),
            tuple(bool(mask[row]) for mask in labelled),
            int(problem.cost[row]),
            bool(problem.forced[row]),
            _fixed_here(problem, row),
        )
        groups.setdefault(key, []).append(row)
    found = placed.copy()
    for rows in groups.values():
        order = sorted(rows, key=lambda row: int(placed[:, row].sum()))
        for start in range(0, len(order), BLOCK):
            _match(problem, placed, order[start : start + BLOCK], found)
    return found


def _fixed_here(problem: Problem, row: int) -> tuple[int, ...]:
    """What pods that stay mean to rules whose domains are single nodes."""
    return tuple(
        rule.fixed.get(int(rule.domain[row]), 0)
        for rule in problem.rules
        if isinstance(rule, (Spread, Near))
    )


def _match(problem: Problem, placed: IntArray, rows: list[int], found: IntArray) -> None:
    now, then = problem.now[:, rows], placed[:, rows]
    same = np.minimum(now[:, :, None], then[:, None, :]).sum(axis=0)  # (here, load)
    pairs = np.dstack(np.unravel_index(np.argsort(-same, axis=None, kind="stable"), same.shape))[0]
    seats: set[int] = set()
    loads: set[int] = set()
    for seat, load in pairs.tolist():
        if seat not in seats and load not in loads:
            seats.add(seat)
            loads.add(load)
            found[:, rows[seat]] = then[:, load]


def moves_of(problem: Problem, placed: IntArray) -> dict[str, tuple[PodInfo, int]]:
    """Pods that change their node (or get one), by uid, with the row they go to."""
    found: dict[str, tuple[PodInfo, int]] = {}
    row_of = {name: row for row, name in enumerate(problem.names)}
    for c, item in enumerate(problem.classes):
        keep = np.minimum(problem.now[c], placed[c])
        gaps = placed[c] - keep
        targets = iter(np.repeat(np.arange(len(gaps)), gaps).tolist())
        stay = keep.copy()
        for info in item.pods:
            row = row_of.get(info.node_name, -1) if info.node_name else -1
            if row >= 0 and stay[row] > 0:
                stay[row] -= 1
                continue
            target = next(targets, None)
            if target is not None:
                found[info.uid] = (info, target)
    return found


def count_moves(problem: Problem, placed: IntArray) -> int:
    """How many running pods a placement puts elsewhere."""
    running = np.array([not item.pending for item in problem.classes], dtype=bool)
    return int(np.maximum(placed - problem.now, 0)[running].sum())
