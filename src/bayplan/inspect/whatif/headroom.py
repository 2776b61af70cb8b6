"""How much room a cluster has, by resource: in all, and on the one node with most of it."""

from __future__ import annotations

import msgspec
import numpy as np

from bayplan.cluster.resources import resource_count, resource_name
from bayplan.engine.engine import Engine

PODS = "pods"


class Room(msgspec.Struct, frozen=True, rename="camel"):
    """One resource over all nodes that may be used; cpu in millicores, others in their unit."""

    allocatable: int
    requested: int
    free: int
    largest: int
    """The most that is free on one node."""


def headroom(engine: Engine) -> dict[str, Room]:
    """The room on nodes that are not cordoned, for every resource that some node offers."""
    table = engine.cache.table
    usable = ~table.unschedulable
    found: dict[str, Room] = {}
    for number in range(resource_count()):
        offered, used = table.allocatable(number)[usable], table.requested(number)[usable]
        if offered.any() and resource_name(number) != PODS:
            found[resource_name(number)] = _room(offered, used)
    found[PODS] = _room(table.allowed_pods[usable], table.pod_count[usable])
    return found


def _room(offered: np.ndarray, used: np.ndarray) -> Room:
    free = np.maximum(offered - used, 0)
    largest = int(free.max()) if len(free) else 0
    return Room(int(offered.sum()), int(used.sum()), int(free.sum()), largest)
