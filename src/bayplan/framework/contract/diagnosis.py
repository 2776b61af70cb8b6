"""Why no node fits: one status a node, kept as numbers, and the text made from them.

Every distinct (plugin, status) has a number in `Outcomes`; a diagnosis is an array of such numbers
over the rows of the table, plus single statuses for nodes that were looked at on their own
(nominated pods, extenders). Rows that nobody looked at have the *absent* status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.framework.contract.status import Code, Status

NumberArray = npt.NDArray[np.uint32]

_CROWD = 50_000

NOT_EVALUATED = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""The status of nodes that were not looked at, unless a PreFilter gave a reason."""


class Outcomes:
    """Numbers for statuses with their plugins; 0 is success. Numbers stay valid for good."""

    def __init__(self) -> None:
        self.statuses: list[Status] = [Status(Code.SUCCESS)]
        self._numbers: dict[tuple[str, Status], int] = {}
        self._lookups: dict[tuple[str, int], tuple[tuple[Status, ...], NumberArray]] = {}

    def number(self, plugin: str, status: Status) -> int:
        found = self._numbers.get((plugin, status))
        if found is None:
            found = self._numbers[(plugin, status)] = len(self.statuses)
            self.statuses.append(status.with_plugin(plugin))
        return found

    def lookup(self, plugin: str, statuses: tuple[Status, ...]) -> NumberArray:
        """Numbers by place in a verdict's outcomes, 0 first; one object is looked up once."""
        key = (plugin, id(statuses))
        known = self._lookups.get(key)
        if known is None or known[0] is not statuses:
            numbers = [0, *(self.number(plugin, status) for status in statuses)]
            if len(self._lookups) > 64:
                self._lookups.clear()
            known = self._lookups[key] = (statuses, np.array(numbers, dtype=np.uint32))
        return known[1]

    @property
    def crowded(self) -> bool:
        """Whether reasons that quote values made so many statuses that a new start is due."""
        return len(self.statuses) > _CROWD


class Diagnosis:
    """The statuses of all nodes in one attempt; what PostFilter plugins get."""

    __slots__ = ("_numbers", "_outcomes", "_own", "_rows", "absent", "names")

    def __init__(
        self,
        names: Sequence[str],
        rows: Mapping[str, int],
        outcomes: Outcomes,
        numbers: npt.NDArray[np.uint32] | None = None,
        absent: Status = NOT_EVALUATED,
        own: Mapping[int, Status] | None = None,
    ) -> None:
        self.names = names
        """Node names by row."""
        self.absent = absent
        """The status of every node without one of its own."""
        self._rows = rows
        self._outcomes = outcomes
        self._numbers = numbers
        self._own = dict(own or {})

    @property
    def count(self) -> int:
        return len(self.names)

    def status_of_row(self, row: int) -> Status:
        own = self._own.get(row)
        if own is not None:
            return own
        number = 0 if self._numbers is None else int(self._numbers[row])
        return self._outcomes.statuses[number] if number else self.absent

    def status_of(self, node_name: str) -> Status:
        """The node's own status, or the absent one (also for unknown nodes)."""
        row = self._rows.get(node_name)
        return self.absent if row is None else self.status_of_row(row)

    def rows_with(self, code: Code) -> IntArray:
        """Rows whose status has this code, absent ones included."""
        if self._numbers is None:
            mask = np.full(len(self.names), self.absent.code is code)
        else:
            mask = self._codes_equal(code)[self._numbers]
        for row, status in self._own.items():
            mask[row] = status.code is code
        return np.flatnonzero(mask)

    def _codes_equal(self, code: Code) -> BoolArray:
        lookup = np.array([status.code is code for status in self._outcomes.statuses], dtype=bool)
        lookup[0] = self.absent.code is code
        return lookup

    def explicit(self) -> dict[str, Status]:
        """The nodes that have a status of their own; costs a pass over all of them."""
        found: dict[str, Status] = {}
        if self._numbers is not None:
            statuses = self._outcomes.statuses
            for row in np.flatnonzero(self._numbers).tolist():
                found[self.names[row]] = statuses[int(self._numbers[row])]
        for row, status in self._own.items():
            found[self.names[row]] = status
        return found

    def groups(self) -> list[tuple[Status, IntArray]]:
        """The rows by the status that they have, absent ones included; each row once."""
        numbers = np.zeros(len(self.names), dtype=np.int64)
        if self._numbers is not None:
            numbers[:] = self._numbers
        for row in self._own:
            numbers[row] = -1
        found = [
            (self._outcomes.statuses[number] if number else self.absent, np.flatnonzero(mine))
            for number in np.unique(numbers).tolist()
            if number >= 0
            for mine in (numbers == number,)
        ]
        return found + [(status, np.array([row])) for row, status in self._own.items()]

    def set_status(self, row: int, status: Status) -> None:
        """Give one node a status of its own."""
        self._own[row] = status

    def histogram(self, count: int) -> dict[str, int]:
        """How many of so many nodes gave each reason; absent ones count with the absent status's.

        They may be fewer than there are rows: a pod group is tried on some nodes only.
        """
        tally: dict[str, int] = {}
        explicit = 0
        if self._numbers is not None:
            counts = np.bincount(self._numbers)
            for row in self._own:
                counts[self._numbers[row]] -= 1
            counts[0] = 0
            for number in np.flatnonzero(counts).tolist():
                size = int(counts[number])
                explicit += size
                _add(tally, self._outcomes.statuses[number], size)
        for status in self._own.values():
            explicit += 1
            _add(tally, status, 1)
        if explicit < count:
            _add(tally, self.absent, count - explicit)
        return tally

    def plugins(self, code: Code | None = None) -> set[str]:
        """Plugins that rejected a node (with this code)."""
        numbers = () if self._numbers is None else np.flatnonzero(np.bincount(self._numbers))
        statuses = [self._outcomes.statuses[int(number)] for number in numbers if number]
        statuses.extend(self._own.values())
        found = (s for s in statuses if s.plugin and (code is None or s.code is code))
        return {status.plugin for status in found}


def _add(tally: dict[str, int], status: Status, size: int) -> None:
    for reason in dict.fromkeys(status.all_reasons):
        tally[reason] = tally.get(reason, 0) + size


class FitError:
    """No node fits; `str()` is kube-scheduler's text."""

    __slots__ = (
        "diagnosis",
        "node_count",
        "pending_plugins",
        "post_filter_message",
        "pre_filter_message",
        "unschedulable_plugins",
    )

    def __init__(
        self,
        node_count: int,
        diagnosis: Diagnosis,
        *,
        pre_filter_message: str = "",
        unschedulable_plugins: set[str] | None = None,
        pending_plugins: set[str] | None = None,
    ) -> None:
        self.node_count = node_count
        self.diagnosis = diagnosis
        self.pre_filter_message = pre_filter_message
        self.post_filter_message = ""
        self.unschedulable_plugins = unschedulable_plugins or set()
        self.pending_plugins = pending_plugins or set()

    def __str__(self) -> str:
        tally = self.diagnosis.histogram(self.node_count)
        text = fit_text(self.node_count, self.pre_filter_message, tally)
        return f"{text} {self.post_filter_message}" if self.post_filter_message else text


def fit_text(node_count: int, pre_filter_message: str, tally: Mapping[str, int]) -> str:
    """`0/N nodes are available: ...`; reasons are sorted as text, counts included."""
    text = f"0/{node_count} nodes are available:"
    if pre_filter_message:
        return f"{text} {pre_filter_message}."
    if tally:
        return f"{text} {', '.join(sorted(f'{n} {reason}' for reason, n in tally.items()))}."
    return text
