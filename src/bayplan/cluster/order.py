"""The order in which kube-scheduler lists nodes: zones in turn, arrivals within a zone.

Zones keep the order in which they were first seen; a node that changes its zone leaves and arrives
anew. With equal scores the order decides who wins, so it is kept exactly. A node's place follows
from its round (how many of its zone came before it) and its zone's number, so coming and going is
an insertion into a sorted array, not a new list.
"""

from __future__ import annotations

import numpy as np

from bayplan.api import Node
from bayplan.cluster.arrays import IntArray

_OLD = "failure-domain.beta.kubernetes.io/"
_NEW = "topology.kubernetes.io/"
_ROUND = 1 << 32
"""A sort key is round * _ROUND + number of the zone."""


def zone_key(node: Node) -> str:
    """Region and zone of a node as one text; empty when it has neither."""
    labels = node.metadata.labels
    if not labels:
        return ""
    zone = labels.get(_OLD + "zone") or labels.get(_NEW + "zone", "")
    region = labels.get(_OLD + "region") or labels.get(_NEW + "region", "")
    return f"{region}:\x00:{zone}" if zone or region else ""


class NodeOrder:
    """Rows in list order. `rows` is replaced, never changed, so it may be kept."""

    def __init__(self) -> None:
        self.rows: IntArray = np.zeros(0, dtype=np.int64)
        self._keys: IntArray = np.zeros(0, dtype=np.int64)
        self._zones: dict[str, tuple[int, int]] = {}
        """Zone to its number and how many nodes it has."""
        self._next_zone = 0

    def add(self, node: Node, row: int) -> None:
        zone = zone_key(node)
        known = self._zones.get(zone)
        if known is None:
            known = (self._next_zone, 0)
            self._next_zone += 1
        number, size = known
        key = size * _ROUND + number
        place = int(np.searchsorted(self._keys, key))
        self._keys = _inserted(self._keys, place, key)
        self.rows = _inserted(self.rows, place, row)
        self._zones[zone] = (number, size + 1)

    def remove(self, node: Node, row: int) -> None:
        zone = zone_key(node)
        number, size = self._zones[zone]
        place = int(np.flatnonzero(self.rows == row)[0])
        key = int(self._keys[place])
        keys, rows = np.delete(self._keys, place), np.delete(self.rows, place)
        later = (keys % _ROUND == number) & (keys > key)
        if later.any():  # they move up by one round
            keys[later] -= _ROUND
            order = np.argsort(keys, kind="stable")
            keys, rows = keys[order], rows[order]
        self._keys, self.rows = keys, rows
        if size == 1:
            del self._zones[zone]
        else:
            self._zones[zone] = (number, size - 1)

    def renumber(self, old: int, new: int) -> None:
        """A node has another row now."""
        rows = self.rows.copy()
        rows[rows == old] = new
        self.rows = rows

    def move(self, old: Node, new: Node, row: int) -> None:
        """Follow a change of labels."""
        if zone_key(old) != zone_key(new):
            self.remove(old, row)
            self.add(new, row)


def _inserted(array: IntArray, place: int, value: int) -> IntArray:
    """As np.insert, without its checks, which cost more than the copy."""
    wider: IntArray = np.empty(len(array) + 1, dtype=np.int64)
    wider[:place] = array[:place]
    wider[place] = value
    wider[place + 1 :] = array[place:]
    return wider
