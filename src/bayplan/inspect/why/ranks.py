"""Amounts by what they are compared with: pods that no node tells apart are rejected alike.

Ten thousand pods of ten thousand templates mostly differ in how much they ask for. NodeResourcesFit
compares an amount with what each node has left and with what it offers; two amounts with the same
place among all of those get the same words from every node. That holds for the sentence and the
funnel, not for facts, which tell the amounts. Where preemption, outside plugins, extenders or
devices look at amounts too, nothing is shared.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import numpy as np
from msgspec.structs import replace

from bayplan.api import Pod, ResourceRequirements
from bayplan.api.requests import CPU, EPHEMERAL, MEMORY, pod_resources
from bayplan.cluster.arrays import IntArray
from bayplan.cluster.resources import resource_id
from bayplan.inspect.cluster import Cluster

_ENCODER = msgspec.msgpack.Encoder()
_NOTHING = ResourceRequirements()
_PLAIN = {CPU, MEMORY, EPHEMERAL}


class Ranks:
    """The places of amounts among what nodes have left and offer, at one moment."""

    def __init__(self, cluster: Cluster) -> None:
        cache = cluster.engine.cache
        self._table = cache.table
        self._usable = not (cluster.settings.own or len(cache.nominator) or not self._table.count)
        self._lowest = int(self._table.min_priority.min()) if self._usable else 0
        self._sorted: dict[str, tuple[IntArray, IntArray]] = {}

    def of(self, pod: Pod) -> Hashable:
        """Equal for pods that are rejected alike, if all else about them is; None if not known."""
        spec = pod.spec
        if not self._usable or self._lowest < pod.priority:
            return None
        if spec.init_containers or spec.resources is not None or spec.overhead:
            return None
        asks = pod_resources(pod).fit
        if not asks.keys() <= _PLAIN:
            return None
        containers = tuple(replace(item, resources=_NOTHING) for item in spec.containers)
        places = tuple(sorted((name, *self._places(name, asks[name])) for name in asks))
        return _ENCODER.encode(replace(spec, containers=containers)), places

    def _places(self, name: str, amount: int) -> tuple[int, int]:
        if not amount:  # nobody compares it
            return -1, -1
        columns = self._sorted.get(name)
        if columns is None:
            number = resource_id(name)
            offered = self._table.allocatable(number)
            left = offered - self._table.requested(number)
            columns = self._sorted[name] = (np.sort(left), np.sort(offered))
        left, offered = columns
        return int(left.searchsorted(amount)), int(offered.searchsorted(amount))
