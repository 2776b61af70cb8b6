"""Volumes that could still be bound, by storage class and size, with the nodes they can be used on.

Follows the lister by its journal of changes. Volumes with a claim are not candidates for others;
those bound beforehand to a claim are found under that claim. The rows from which a volume can be
reached are worked out once per change of the nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

import numpy as np

from bayplan.api import PersistentVolume, quantity
from bayplan.api.node_selectors import CompiledNodeSelector, compile_node_selector
from bayplan.cluster.selection import requirement_mask
from bayplan.framework import BoolArray, IntArray, NodeTable
from bayplan.plugins.volume_binding.assume import AssumeCache
from bayplan.plugins.volume_claims import class_of_volume


class Candidate:
    """A volume with what matching needs to know about it, worked out once."""

    __slots__ = ("_rows", "_seen", "modes", "selector", "size", "volume")

    def __init__(self, volume: PersistentVolume) -> None:
        self.volume = volume
        self.size = _size(volume)
        self.modes = frozenset(volume.spec.access_modes)
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        self.selector: CompiledNodeSelector | None = (
            None if required is None else compile_node_selector(required)
        )
        self._rows: IntArray | None = None
        self._seen: tuple[int, int] = (0, -1)

    def reachable(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels can use the volume."""
        return self.selector is None or self.selector.matches(labels, "")

    def rows(self, table: NodeTable) -> IntArray | None:
        """The rows that can use the volume; None for all."""
        if self.selector is None:
            return None
        seen = (id(table), table.nodes_revision)
        if self._rows is None or self._seen != seen:
            self._rows = np.flatnonzero(reachable_mask(table, self.selector))
            self._seen = seen
        return self._rows


def _size(volume: PersistentVolume) -> int:
    """What a volume holds, in nanos; -1, which is never enough, if that cannot be read."""
    try:
        return quantity.nanos(volume.spec.capacity.get("storage", 0))
    except quantity.QuantityError:
        return -1


def reachable_mask(table: NodeTable, selector: CompiledNodeSelector) -> BoolArray:
    """Rows that match a volume's node affinity; requirements on fields count as met."""
    mask = np.zeros(table.count, dtype=bool)  # (N,)
    for term in selector.terms:
        matching = np.ones(table.count, dtype=bool)
        for requirement in term.labels:
            matching &= requirement_mask(table, requirement)
        mask |= matching
    return mask


_Sized = tuple[int, str]


class VolumeIndex:
    """Candidates by class (smallest first) and by claim."""

    def __init__(self, cache: AssumeCache[PersistentVolume]) -> None:
        self._cache = cache
        self._revision = -1
        self._known: dict[str, Candidate] = {}
        self._free: dict[str, list[_Sized]] = {}
        self._claimed: dict[str, set[str]] = {}

    def refresh(self) -> None:
        """Catch up with the lister."""
        lister = self._cache.lister
        changes = None if self._revision < 0 else lister.changes_since(self._revision)
        self._revision = lister.revision
        if changes is None:
            self._known.clear()
            self._free.clear()
            self._claimed.clear()
            changes = [volume.key for volume in lister]
        for name in dict.fromkeys(changes):
            self._forget(name)
            volume = lister.get(name)
            if volume is not None:
                self._add(volume)

    def get(self, name: str) -> Candidate | None:
        """A volume by name, as the lister knows it."""
        return self._known.get(name)

    def free(self, storage_class: str, at_least: int) -> Sequence[Candidate]:
        """Volumes of a class without a claim, large enough, smallest first."""
        names = self._free.get(storage_class, [])
        start = bisect_left(names, (at_least, ""))
        found = (self._known[name] for _, name in names[start:])
        return [c for c in found if self._cache.get(c.volume.name) is c.volume]

    def bound_beforehand(self, claim_key: str) -> Sequence[Candidate]:
        """Volumes that name a claim, in order of their names."""
        return [self._known[name] for name in sorted(self._claimed.get(claim_key, ()))]

    def _add(self, volume: PersistentVolume) -> None:
        candidate = self._known[volume.name] = Candidate(volume)
        ref = volume.spec.claim_ref
        if ref is not None:
            self._claimed.setdefault(f"{ref.namespace}/{ref.name}", set()).add(volume.name)
        else:
            names = self._free.setdefault(class_of_volume(volume), [])
            insort(names, (candidate.size, volume.name))

    def _forget(self, name: str) -> None:
        candidate = self._known.pop(name, None)
        if candidate is None:
            return
        volume = candidate.volume
        ref = volume.spec.claim_ref
        if ref is not None:
            self._claimed[f"{ref.namespace}/{ref.name}"].discard(name)
            return
        names = self._free[class_of_volume(volume)]
        del names[bisect_left(names, (candidate.size, name))]
