"""How a Deployment that is scaled in the middle of a rollout shares the difference among its sets.

Each set grows or shrinks by its part of the whole, as upstream: the sizes for which the sets were
last scaled stand in their annotations, and what rounding leaves over goes to the largest.
"""

from __future__ import annotations

import math

from bayplan.api.labels import parse_int64
from bayplan.controllers.objects import Object

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def shares(
    deployment: Object, sets: list[Object], wanted: int, surge: int
) -> list[tuple[Object, int]]:
    """Return the new size of each of the sets, which come oldest first."""
    limit = wanted + surge if wanted > 0 else 0
    difference = limit - sum(_size(s) for s in sets)
    # Of equal ones the newest grows first and the oldest shrinks first.
    order = sets[::-1] if difference > 0 else sets
    order = sorted(order, key=_size, reverse=True)
    sizes, added = {}, 0
    for s in order:
        part = _part(deployment, s, wanted, limit)
        left = difference - added
        part = min(part, left) if difference > 0 else max(part, left)
        part = part if difference and left else 0
        sizes[s.key] = _size(s) + part
        added += part
    if difference:
        sizes[order[0].key] = max(sizes[order[0].key] + difference - added, 0)
    return [(s, sizes[s.key]) for s in order]


def _part(deployment: Object, replica_set: Object, wanted: int, limit: int) -> int:
    size = _size(replica_set)
    if wanted == 0:
        return -size
    text = replica_set.metadata.annotations.get(MAXIMUM, "")
    before = parse_int64(text) or deployment.status.get("replicas", 0)
    return math.floor(size * limit / before + 0.5) - size if before else 0


def _size(replica_set: Object) -> int:
    return int(replica_set.spec.get("replicas", 0))
