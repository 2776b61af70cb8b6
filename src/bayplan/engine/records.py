"""What an attempt leaves behind: why each node failed, what each plugin scored, who won.

A record holds numbers, not texts: arrays that were computed anyway, copied only where the engine
goes on changing them. So records are always on; explaining a decision later computes nothing
twice. The ring keeps the newest, within a limit of bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.framework import IntArray, Outcomes, Status
from bayplan.framework.results import Victims


class AttemptRecord:
    """One attempt to place one pod."""

    __slots__ = (
        "_outcomes",
        "bytes",
        "fails",
        "feasible_count",
        "message",
        "names",
        "node_name",
        "nominated_node_name",
        "normalized",
        "now",
        "own",
        "pod_key",
        "profile",
        "raw",
        "uid",
        "victims",
        "weights",
    )

    def __init__(
        self, pod_key: str, uid: str, profile: str, now: float, outcomes: Outcomes
    ) -> None:
        self.pod_key = pod_key
        self.uid = uid
        self.profile = profile
        self.now = now
        self.names: tuple[str, ...] = ()
        """Node names by row; all arrays have this length."""
        self.fails: list[npt.NDArray[np.uint16]] = []
        """One array per plugin that rejected a node, in the order in which they ran."""
        self.own: dict[int, Status] = {}
        """Nodes that were looked at on their own (nominated pods, extenders)."""
        self.raw: dict[str, IntArray] = {}
        self.normalized: dict[str, npt.NDArray[Any]] = {}
        """Scores 0..100 before weighting; None if no node was scored."""
        self.weights: dict[str, int] = {}
        self.feasible_count = 0
        self.node_name = ""
        self.nominated_node_name = ""
        self.victims: Victims | None = None
        self.message = ""
        self.bytes = 512
        """What this record alone holds on to, roughly."""
        self._outcomes = outcomes

    def status_of(self, node_name: str) -> Status | None:
        """Why a node was rejected, None if it was not."""
        row = self.names.index(node_name)
        if row in self.own:
            return self.own[row]
        for numbers in self.fails:
            if numbers[row]:
                return self._outcomes.statuses[int(numbers[row])]
        return None

    def scores_of(self, node_name: str) -> dict[str, int]:
        """The weighted score of a node by plugin."""
        row = self.names.index(node_name)
        return {
            name: int(scores[row]) * self.weights[name] for name, scores in self.normalized.items()
        }

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
                    for reason in self._outcomes.statuses[int(number)].reasons:
                        tally[reason] = tally.get(reason, 0) + int(size)
            seen = (mine != 0) if seen is None else seen | (mine != 0)
        return tally

    def groups(self) -> list[tuple[Status, IntArray]]:
        """The rows that were rejected, by the status that rejected them; each row once."""
        first = np.zeros(len(self.names), dtype=np.int64)
        for numbers in self.fails:
            first = np.where(first == 0, numbers, first)
        for row in self.own:
            first[row] = 0
        found = [
            (self._outcomes.statuses[number], np.flatnonzero(first == number))
            for number in np.unique(first).tolist()
            if number
        ]
        return found + [(status, np.array([row])) for row, status in self.own.items()]


class RecordRing:
    """The newest records."""

    def __init__(self, limit: int = 4096, limit_bytes: int = 64 << 20) -> None:
        self._records: deque[AttemptRecord] = deque()
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0

    def add(self, record: AttemptRecord) -> None:
        self._records.append(record)
        self._bytes += record.bytes
        while len(self._records) > self._limit or self._bytes > self._limit_bytes:
            if len(self._records) == 1:
                return
            self._bytes -= self._records.popleft().bytes

    def __iter__(self) -> Iterator[AttemptRecord]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def of(self, uid: str) -> list[AttemptRecord]:
        """The records of one pod, oldest first."""
        return [record for record in self._records if record.uid == uid]
