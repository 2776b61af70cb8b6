"""What was found out about nodes for claims of one shape, kept while it holds.

Pods of one template ask for the same devices under other names. Whether a node can serve such
claims changes only with its devices: those on offer, and those given away. Bookings are journaled,
so a pod placed on one node makes that node be searched again, and no other. Answers that depend on
labels of nodes, on allocated claims or on time are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.api import DeviceClass, ResourceClaim
from bayplan.framework import Lister, Status
from bayplan.plugins.dynamic_resources.claims import ClaimBooks
from bayplan.plugins.dynamic_resources.pools import Pools

Verdict = tuple[Status | None, int]
"""Why a node cannot serve the claims (None if it can), and its score."""

_SHAPES = 256
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class Verdicts:
    """Answers by shape and node; one per cluster."""

    def __init__(self, books: ClaimBooks, pools: Pools, classes: Lister[DeviceClass]) -> None:
        self._books, self._pools, self._classes = books, pools, classes
        self._known: dict[bytes, dict[str, Verdict]] = {}
        self._seen = (-1, -1)
        self._generation = 0

    def refresh(self) -> None:
        """Drop what no longer holds; call after books and pools are refreshed."""
        seen = (self._pools.revision, self._classes.revision)
        changes = self._books.changes_since(self._generation)
        self._generation = self._books.generation
        if seen != self._seen or changes is None:
            self._seen = seen
            self._known.clear()
            return
        for device in set(changes):
            node = self._pools.node_of(device)
            if not node:
                self._known.clear()
                return
            for answers in self._known.values():
                answers.pop(node, None)

    def of(self, claims: Sequence[ResourceClaim]) -> dict[str, Verdict]:
        """The answers for claims of this shape, by node; add to it what is found out."""
        shape = _ENCODER.encode([claim.spec for claim in claims])
        answers = self._known.get(shape)
        if answers is None:
            if len(self._known) >= _SHAPES:
                del self._known[next(iter(self._known))]
            answers = self._known[shape] = {}
        return answers
