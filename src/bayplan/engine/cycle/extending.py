"""Asks extenders, if there are any, after the plugins had their say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.api import Pod
from bayplan.framework import (
    Code,
    Extender,
    ExtenderError,
    IntArray,
    NodeTable,
    Status,
)

EXTENDER_SCALE = 100 // 10
"""Extenders score 0..10."""


def filter_with_extenders(
    extenders: Sequence[Extender], pod: Pod, table: NodeTable, rows: list[int]
) -> tuple[list[int], dict[int, Status], Status | None]:
    """Let each interested extender take nodes out, one after the other.

    Returns the rows left, the statuses of those taken out, and an error that ends the attempt.
    """
    failed: dict[int, Status] = {}
    left = rows
    for extender in extenders:
        if not left:
            break
        if not extender.is_filter or not extender.interested(pod):
            continue
        nodes = [table.nodes[row] for row in left]
        names = {node.metadata.name: row for node, row in zip(nodes, left, strict=True)}
        try:
            result = extender.filter(pod, nodes)
            unknown = [name for name in result.node_names if name not in names]
            if unknown:
                raise ExtenderError(
                    f'extender "{extender.name}" claims a filtered node "{unknown[0]}" '
                    "which is not found in the input node list"
                )
        except ExtenderError as problem:
            if extender.ignorable:
                continue
            return left, failed, Status.from_error(problem)
        for name, reason in result.failed_unresolvable.items():
            if name in names:
                status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
                failed[names[name]] = status
        for name, reason in result.failed.items():
            if name in names and name not in result.failed_unresolvable:
                failed[names[name]] = Status(Code.UNSCHEDULABLE, reason)
        left = [names[name] for name in result.node_names]
    return left, failed, None


def extender_scores(
    extenders: Sequence[Extender], pod: Pod, table: NodeTable, rows: IntArray
) -> IntArray:
    """What extenders add to the totals of some rows; one that fails is ignored.

    As upstream, scores are not checked: an extender may give less than 0 or more than 10.
    """
    nodes = [table.nodes[row] for row in rows.tolist()]
    names = [node.metadata.name for node in nodes]
    totals = np.zeros(len(nodes), dtype=np.int64)
    asked = [
        (extender, extender.prioritize_later(pod, nodes))
        for extender in extenders
        if extender.is_prioritizer and extender.interested(pod)
    ]
    for extender, wait in asked:
        try:
            scores = wait()
        except ExtenderError:
            continue
        found = [_int64(scores.get(name, 0)) for name in names]
        # arrays overflow as Go does
        totals += np.array(found, dtype=np.int64) * np.int64(
            _int64(extender.weight * EXTENDER_SCALE)
        )
    return totals


def _int64(number: int) -> int:
    """Overflow as Go does."""
    if -(1 << 31) < number < 1 << 31:
        return number
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
