"""Which rows hold pods with a certain key, kept up to date from the table's journal.

A plugin says how to get keys (disks, claims, …) out of a pod. Asking costs what changed since the
last time: the rows in the journal are read again, all others are known. Plugins whose pods are rare
thus pay nothing while ordinary pods come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

from bayplan.framework import NodeTable, PodInfo

K = TypeVar("K", bound=Hashable)


class RowKeys(Generic[K]):
    """Keys by row and rows by key."""

    def __init__(self, keys_of: Callable[[PodInfo], Collection[K]]) -> None:
        self._keys_of = keys_of
        self._table: NodeTable | None = None
        self._generation = 0
        self._by_row: dict[int, frozenset[K]] = {}
        self._rows: dict[K, set[int]] = {}

    def refresh(self, table: NodeTable) -> set[int] | None:
        """Catch up with the table; return the rows that were read again, None for all.

        Rows that are gone are told too.
        """
        changes = None
        if table is self._table:
            changes = table.changes.since(self._generation)
        self._table = table
        self._generation = table.changes.generation
        if changes is None:
            self._by_row.clear()
            self._rows.clear()
            for row in range(table.count):
                self._read(table, row)
            return None
        rows = set(changes)
        for row in rows:
            self._read(table, row)
        return rows

    def rows(self, key: K) -> Collection[int]:
        """The rows with a pod that has the key."""
        return self._rows.get(key, ())

    def keys(self, row: int) -> frozenset[K]:
        """The keys of all pods of a row."""
        return self._by_row.get(row, frozenset())

    def _read(self, table: NodeTable, row: int) -> None:
        old = self._by_row.pop(row, frozenset())
        found: set[K] = set()
        for info in table.pods[row] if row < table.count else ():
            if info.pod.spec.volumes:
                found.update(self._keys_of(info))
        for key in old - found:
            rows = self._rows[key]
            rows.discard(row)
            if not rows:
                del self._rows[key]
        for key in found - old:
            self._rows.setdefault(key, set()).add(row)
        if found:
            self._by_row[row] = frozenset(found)
