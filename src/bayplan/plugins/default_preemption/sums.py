"""The quick dry run: when pods can change nothing but sums, a node is a few numbers.

If every filter that pods coming and going can change tells its sums (`spare` and `takes`, see
`SumFilter`), taking a pod off is an addition and putting one back a subtraction. The other filters
look at the node alone, or do not heed the pods in question (`HeedingFilter`), and are asked once
for many rows. A node with a pod that one of them heeds goes the long way; so does one that does not
help even without any less important pod, because the long way knows the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from bayplan.framework import CycleState, NodeTable, PodInfo, Profile, Status
from bayplan.framework.contract.state import StateMissing
from bayplan.framework.contract.verdict import Verdict
from bayplan.framework.runtime.filtering import call_filter


class Sums:
    """What is left on rows for one preemptor; good until any row changes."""

    def __init__(
        self, profile: Profile, state: CycleState, pod: Any, table: NodeTable, moving: Sequence[Any]
    ) -> None:
        self._profile = profile
        self._state = state
        self._pod = pod
        self._table = table
        self._moving = [plugin for plugin in moving if hasattr(plugin, "spare")]
        self._resting = [
            plugin
            for plugin in profile.filter
            if plugin.name not in state.skip_filter and plugin not in self._moving
        ]
        self._heeding = [plugin for plugin in _following(profile, state) if plugin not in moving]
        self._heeding += [plugin for plugin in moving if plugin not in self._moving]
        self._heeded: dict[tuple[object, object], bool] = {}
        """Whether a filter heeds pods, by their traits and group."""
        self._takes: dict[object, list[int]] = {}
        """What pods take, by their traits."""
        self._left: dict[int, list[int]] = {}

    def prepare(self, rows: Sequence[int]) -> None:
        """Work out the rows that `run` will be asked about next."""
        view = self._table.select(np.array(rows, dtype=np.int64))
        fits = np.ones(len(rows), dtype=bool)
        for plugin in self._resting:
            verdict = call_filter(self._profile, plugin, self._state, self._pod, view)
            fits &= verdict.mask if isinstance(verdict, Verdict) else False
        spare = [plugin.spare(self._state, self._pod, view) for plugin in self._moving]
        columns = np.concatenate(spare).T.tolist() if spare else [[]] * len(rows)
        found = zip(rows, columns, fits.tolist(), strict=True)
        self._left = {row: left for row, left, fitting in found if fitting}

    def shape(self, row: int, potential: Sequence[PodInfo]) -> Hashable | None:
        """What victims on a row hang on: rows of one shape lose pods at the same places.

        That is what is left and, of each pod, its traits, its start, and its group, which decides
        what budgets mean it. None if the preemptor does not fit for other reasons.
        """
        left = self._left.get(row)
        if left is None or self._any_heeded(potential):
            return None
        traits = tuple([info.traits for info in potential])
        starts = tuple([info.pod.status.start_time for info in potential])
        return tuple(left), traits, starts, tuple([info.group for info in potential])

    def run(self, row: int, potential: Sequence[PodInfo]) -> SumRun | None:
        """A row without these pods; None if the preemptor does not fit even so."""
        left = self._left.get(row)
        if left is None or self._any_heeded(potential):
            return None
        takes = [self.takes(info) for info in potential]
        left = [a + sum(freed) for a, freed in zip(left, zip(*takes, strict=True), strict=True)]
        return None if left and min(left) < 0 else SumRun(self.takes, left)

    def _any_heeded(self, potential: Sequence[PodInfo]) -> bool:
        return bool(self._heeding) and any(self._is_heeded(info) for info in potential)

    def _is_heeded(self, info: PodInfo) -> bool:
        key = (info.traits, info.group)
        found = self._heeded.get(key)
        if found is None:
            state, pod = self._state, self._pod
            try:
                found = any(plugin.heeds(state, pod, info) for plugin in self._heeding)
            except StateMissing:  # PreFilter did not get so far; the long way tells
                found = True
            self._heeded[key] = found
        return found

    def takes(self, info: PodInfo) -> list[int]:
        found = self._takes.get(info.traits)
        if found is None:
            state, pod = self._state, self._pod
            found = [n for plugin in self._moving for n in plugin.takes(state, pod, info)]
            self._takes[info.traits] = found
        return found


class SumRun:
    """A node as what is left of each thing once the preemptor is there."""

    __slots__ = ("_left", "_refused", "_takes")

    def __init__(self, takes: Callable[[PodInfo], list[int]], left: list[int]) -> None:
        self._takes = takes
        self._left = left
        self._refused: object = None
        """What was too much last; as nothing grows, it is too much from then on."""

    def problem(self) -> Status | None:
        return None

    def put_back(self, info: PodInfo) -> bool:
        takes = self._takes(info)
        if takes is self._refused:
            return False
        left = [a - b for a, b in zip(self._left, takes, strict=True)]
        if left and min(left) < 0:
            self._refused = takes
            return False
        self._left = left
        return True


def only_sums(profile: Profile, state: CycleState, moving: Sequence[Any]) -> bool:
    """Whether a dry run for a pod may come down to sums."""
    known = all(hasattr(plugin, "spare") or hasattr(plugin, "heeds") for plugin in moving)
    return known and all(hasattr(plugin, "heeds") for plugin in _following(profile, state))


def _following(profile: Profile, state: CycleState) -> list[Any]:
    """The plugins that want to be told when pods are taken off or put back."""
    return [plugin for plugin in profile.extensions if plugin.name not in state.skip_filter]
