"""The order in which kube-scheduler lists nodes: zones in turn, arrivals within a zone.

Zones keep the order in which they were first seen; a node that changes its zone leaves and arrives
anew. With equal scores the order decides who wins, so it is kept exactly.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np

from bayplan.api import Node
from bayplan.cluster.arrays import IntArray

_OLD = "failure-domain.beta.kubernetes.io/"
_NEW = "topology.kubernetes.io/"


def zone_key(node: Node) -> str:
    """Region and zone of a node as one text; empty when it has neither."""
    labels = node.metadata.labels
    if not labels:
        return ""
    zone = labels.get(_OLD + "zone") or labels.get(_NEW + "zone", "")
    region = labels.get(_OLD + "region") or labels.get(_NEW + "region", "")
    return f"{region}:\x00:{zone}" if zone or region else ""


class NodeOrder:
    """Names by zone, and the list made from them when it is asked for."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._rows: IntArray | None = None
        self._structure = -1

    def add(self, node: Node) -> None:
        self._zones.setdefault(zone_key(node), {})[node.metadata.name] = None

    def remove(self, node: Node) -> None:
        key = zone_key(node)
        zone = self._zones.get(key, {})
        zone.pop(node.metadata.name, None)
        if not zone:
            self._zones.pop(key, None)

    def move(self, old: Node, new: Node) -> bool:
        """Follow a change of labels; False if the zone stayed."""
        if zone_key(old) == zone_key(new):
            return False
        self.remove(old)
        self.add(new)
        return True

    def names(self) -> list[str]:
        rounds = zip_longest(*self._zones.values())
        return [name for names in rounds for name in names if name is not None]

    def rows(self, row_of: dict[str, int], structure: int) -> IntArray:
        """Rows in list order; made once per structure of the table."""
        if self._rows is None or self._structure != structure:
            self._rows = np.array([row_of[name] for name in self.names()], dtype=np.int64)
            self._structure = structure
        return self._rows
