"""What an attempt leaves behind: why each node failed, what each plugin scored, who won.

A record holds numbers, not texts: arrays that were computed anyway. An array that the engine
replaces is shared; one in which it goes on changing rows is kept as an early copy and the changes
since, and put together when somebody asks. So a record costs what changed, records are always on,
and explaining a decision later computes no score twice. The ring keeps the newest, within limits.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.engine.answers.share import Layout, WithDomains
from bayplan.framework import IntArray, Outcomes, Status
from bayplan.framework.contract.results import Victims

RECORD_BYTES = 512
"""What a record takes without any array, roughly."""


class Column(NamedTuple):
    """What one plugin scored."""

    plugin: str
    weight: int
    normalized: npt.NDArray[Any]
    """0..100 by row, before weighting."""
    raw: npt.NDArray[Any] | None
    """What the plugin said before normalising; None if it does not normalise."""


class AttemptRecord(msgspec.Struct, gc=False):
    """One attempt to place one pod."""

    pod: Pod
    now: float
    names: Sequence[str]
    """Node names by row; all arrays have this length."""
    layout: Layout | WithDomains
    """Where the columns and rejections are found."""
    kinds: int
    """The version of the rows' kinds."""
    feasible_count: int = 0
    node_name: str = ""
    own: Mapping[int, Status] | None = None
    """Statuses of nodes that were looked at on their own."""
    bytes: int = RECORD_BYTES
    """What this record alone holds on to, roughly."""
    message: str = ""
    nominated_node_name: str = ""
    victims: Victims | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """What each plugin scored; empty if there was nothing to choose."""
        found = self.layout.scores(self.kinds)
        return tuple(
            [Column(name, w, values, raw) for name, w, values, raw in found if values is not None]
        )

    @property
    def fails(self) -> list[npt.NDArray[np.uint32]]:
        """One array per plugin that rejected a node, in the order in which they ran."""
        return self.layout.fails(self.kinds)

    @property
    def profile(self) -> str:
        return self.layout.profile

    @property
    def outcomes(self) -> Outcomes:
        """What the numbers in `fails` stand for."""
        return self.layout.outcomes

    @property
    def pod_key(self) -> str:
        return self.pod.key

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def normalized(self) -> dict[str, npt.NDArray[Any]]:
        """Scores 0..100 by plugin, before weighting."""
        return {column.plugin: column.normalized for column in self.columns}

    @property
    def weights(self) -> dict[str, int]:
        return {column.plugin: column.weight for column in self.columns}

    def status_of(self, node_name: str) -> Status | None:
        """Why a node was rejected, None if it was not."""
        row = self.names.index(node_name)
        if self.own and row in self.own:
            return self.own[row]
        for numbers in self.fails:
            if numbers[row]:
                return self.outcomes.statuses[int(numbers[row])]
        return None

    def scores_of(self, node_name: str) -> dict[str, int]:
        """The weighted score of a node by plugin."""
        row = self.names.index(node_name)
        return {c.plugin: int(c.normalized[row]) * c.weight for c in self.columns}

    def total_of(self, node_name: str) -> int:
        return sum(self.scores_of(node_name).values())

    def reasons(self) -> dict[str, int]:
        """How many nodes each reason kept out."""
        tally: dict[str, int] = {}
        seen: npt.NDArray[np.bool_] | None = None
        for numbers in self.fails:
            mine = numbers if seen is None else np.where(seen, 0, numbers)
            for number, size in zip(*np.unique(mine, return_counts=True), strict=True):
                if number:
                    for reason in self.outcomes.statuses[int(number)].reasons:
                        tally[reason] = tally.get(reason, 0) + int(size)
            seen = (mine != 0) if seen is None else seen | (mine != 0)
        return tally

    def groups(self) -> list[tuple[Status, IntArray]]:
        """The rows that were rejected, by the status that rejected them; each row once."""
        first = np.zeros(len(self.names), dtype=np.int64)
        for numbers in self.fails:
            first = np.where(first == 0, numbers, first)
        own = self.own or {}
        for row in own:
            first[row] = 0
        found = [
            (self.outcomes.statuses[number], np.flatnonzero(first == number))
            for number in np.unique(first).tolist()
            if number
        ]
        return found + [(status, np.array([row])) for row, status in own.items()]


class RecordRing:
    """The newest records."""

    def __init__(self, limit: int = 1024, limit_bytes: int = 32 << 20) -> None:
        self._records: deque[AttemptRecord] = deque(maxlen=limit)
        self._limit_bytes = limit_bytes
        self._bytes = 0
        """What the records hold on to at most; those that left are not taken off."""
        self.keep = self._records.append
        """Take a record that holds on to nothing besides itself."""

    def add(self, record: AttemptRecord) -> None:
        self._records.append(record)
        self._bytes += record.bytes
        if self._bytes > self._limit_bytes:
            self._count_anew()

    def _count_anew(self) -> None:
        """Let the oldest go, some more than must, so that this is not done for every record."""
        records = self._records
        size = sum([record.bytes for record in records])
        if size > self._limit_bytes:
            while size > self._limit_bytes * 7 // 8 and len(records) > 1:
                size -= records.popleft().bytes
        self._bytes = size

    def __iter__(self) -> Iterator[AttemptRecord]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def of(self, uid: str) -> list[AttemptRecord]:
        """The records of one pod, oldest first."""
        return [record for record in self._records if record.uid == uid]
