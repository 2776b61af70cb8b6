"""Which volumes a pod's unbound claims would get on each node.

Claims are served smallest first, each with the smallest volume that fits and that no earlier claim
of the pod took on that node. The table form works on all rows at once; the scalar form on one node
gives the volumes themselves. What is not matched must be provisioned, which is not decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from bayplan.api import LabelSelector, PersistentVolume, PersistentVolumeClaim, quantity
from bayplan.api.labels import compile_selector
from bayplan.framework import BoolArray, IntArray, NodeTable
from bayplan.plugins.go_sort import go_sorted
from bayplan.plugins.volume_binding.index import Candidate, VolumeIndex
from bayplan.plugins.volume_claims import class_of_claim, class_of_volume

FILESYSTEM = "Filesystem"


def requested(claim: PersistentVolumeClaim) -> int:
    """The storage that a claim asks for, in nanos."""
    return quantity.nanos(claim.spec.resources.requests.get("storage", 0))


class Choices:
    """The volumes that one claim may get: those bound to it beforehand, or free ones."""

    __slots__ = ("claim", "free", "mine")

    def __init__(self, claim: PersistentVolumeClaim, index: VolumeIndex) -> None:
        self.claim = claim
        wanted = requested(claim)
        self.mine = [c for c in index.bound_beforehand(claim.key) if self._is_mine(c, wanted)]
        self.free: Sequence[Candidate] = ()
        if not self.mine:
            selector = compile_selector(claim.spec.selector or LabelSelector())
            modes = frozenset(claim.spec.access_modes)
            self.free = [
                candidate
                for candidate in index.free(class_of_claim(claim), wanted)
                if candidate.volume.status.phase == "Available"
                and _kinds_agree(claim, candidate.volume)
                and modes <= candidate.modes
                and selector.matches(candidate.volume.metadata.labels)
            ]

    def _is_mine(self, candidate: Candidate, wanted: int) -> bool:
        ref = candidate.volume.spec.claim_ref
        return (
            ref is not None
            and ref.uid in ("", self.claim.uid)
            and class_of_volume(candidate.volume) == class_of_claim(self.claim)
            and candidate.size >= wanted
            and _kinds_agree(self.claim, candidate.volume)
        )

    def on_node(self, labels: Mapping[str, str], taken: Collection[str]) -> Candidate | None:
        """The volume for this claim on one node."""
        for candidate in self.mine:
            if candidate.volume.name not in taken:
                return candidate if candidate.reachable(labels) else None
        for candidate in self.free:
            if candidate.volume.name not in taken and candidate.reachable(labels):
                return candidate
        return None


def _kinds_agree(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    mine, its = claim.spec, volume.spec
    return (
        (mine.volume_mode or FILESYSTEM) == (its.volume_mode or FILESYSTEM)
        and mine.volume_attributes_class_name == its.volume_attributes_class_name
        and not volume.terminating
    )


def in_order(claims: Sequence[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Claims in the order in which they are served."""
    return go_sorted(claims, [requested(claim) for claim in claims])


def unmatched(
    claims: Sequence[PersistentVolumeClaim], index: VolumeIndex, table: NodeTable
) -> list[tuple[PersistentVolumeClaim, BoolArray]]:
    """For each claim, in order, the rows on which no volume is left for it."""
    numbers: dict[str, int] = {}
    earlier: list[IntArray] = []
    found = []
    for claim in in_order(claims):
        chosen = _choose(Choices(claim, index), table, earlier, numbers)  # (N,)
        earlier.append(chosen)
        found.append((claim, chosen < 0))
    return found


def _choose(
    choices: Choices, table: NodeTable, earlier: Sequence[IntArray], numbers: dict[str, int]
) -> IntArray:
    """The number of the volume that each row would get, -1 for none."""
    chosen = np.full(table.count, -1, dtype=np.int64)
    left = table.count
    candidates = choices.mine[:1] or choices.free
    for candidate in candidates:
        number = numbers.setdefault(candidate.volume.name, len(numbers))
        rows = candidate.rows(table)
        open_rows = np.flatnonzero(chosen < 0) if rows is None else rows[chosen[rows] < 0]
        for other in earlier:
            open_rows = open_rows[other[open_rows] != number]
        chosen[open_rows] = number
        left -= len(open_rows)
        if left == 0:
            break
    return chosen
