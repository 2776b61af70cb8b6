"""The store that forgets everything when the process ends.

Everything happens inside the call that asks for it: no thread, no clock, no task. That
makes it the store of tests, scenarios and lessons, also on a virtual-time loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.store.errors import Closed, Conflict, FutureRevision, NotFound
from bayplan.store.history import MAX_BYTES, MAX_EVENTS, MAX_LAG, History, HistoryWatcher
from bayplan.store.protocol import Event, FastReads, KeyValue, Op, RangeResult, Store
from bayplan.store.table import Table, build

FIRST_REVISION = 1  # of the empty store, as in etcd


class MemoryStore:
    """A store in this process's memory; acknowledged means nothing more than visible."""

    def __init__(
        self,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_lag: int = MAX_LAG,
    ) -> None:
        self._history = History(
            revision=FIRST_REVISION, max_events=max_events, max_bytes=max_bytes, max_lag=max_lag
        )
        self._table = Table(self._history)
        self._closed = False
        self.get_now, self.range_now = self._table.get, self._table.range
        self.failures = self._history.failures

    @property
    def revision(self) -> int:
        return self._history.revision

    @property
    def compacted(self) -> int:
        return self._history.compacted

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        return self._table.get_at(key, revision) if revision else self._table.get(key)

    async def range(
        self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0
    ) -> RangeResult:
        return self._table.range(prefix, start_after, limit, revision)

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> KeyValue:
        self._check_open()
        current = self._table.get(key)
        if expect is not None and expect != (current.mod_revision if current else 0):
            raise Conflict(key, current, expect)
        revision = self._history.revision + 1
        kv = KeyValue(key, value, current.create_revision if current else revision, revision)
        self._table.commit(revision, (Event(kv, current, False),))
        return kv

    async def delete(self, key: str, *, expect: int | None = None) -> KeyValue:
        self._check_open()
        current = self._table.get(key)
        if current is None:
            raise NotFound(key)
        if expect is not None and expect != current.mod_revision:
            raise Conflict(key, current, expect)
        revision = self._history.revision + 1
        kv = KeyValue(key, current.value, current.create_revision, revision)
        self._table.commit(revision, (Event(kv, current, True),))
        return kv

    async def transact(self, ops: Sequence[Op]) -> list[KeyValue]:
        self._check_open()
        revision = self._history.revision + 1
        events = build(ops, self._table.get, revision)
        if events:
            self._table.commit(revision, events)
        return [event.kv for event in events]

    def watch(self, prefix: str, *, after: int) -> HistoryWatcher:
        self._check_open()
        return self._history.watch(prefix, after=after)

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._history.revision:
            raise FutureRevision(asked=revision, current=self._history.revision)
        self._history.compact(revision)

    async def wait_for(self, revision: int) -> None:
        await self._history.wait_for(revision)

    async def check(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._closed = True
        self._history.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed


def _proof(store: MemoryStore) -> tuple[Store, FastReads]:
    """Let mypy prove that the protocols are met."""
    return store, store
