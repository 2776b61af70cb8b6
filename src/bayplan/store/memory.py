"""The store that forgets everything when the process ends.

Everything happens inside the call that asks for it: no thread, no clock, no task. That
makes it the store of tests, scenarios and lessons, also on a virtual-time loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.store.errors import Conflict, NotFound
from bayplan.store.history import MAX_BYTES, MAX_EVENTS, MAX_LAG, History
from bayplan.store.protocol import Event, FastReads, KeyValue, Op, Store
from bayplan.store.table import Table, TableStore, build

FIRST_REVISION = 1  # of the empty store, as in etcd


class MemoryStore(TableStore):
    """A store in this process's memory; acknowledged means nothing more than visible."""

    def __init__(
        self,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_lag: int = MAX_LAG,
    ) -> None:
        limits = {"max_events": max_events, "max_bytes": max_bytes, "max_lag": max_lag}
        super().__init__(Table(History(revision=FIRST_REVISION, **limits)))

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

    async def check(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._closed = True
        self._history.close()


def _proof(store: MemoryStore) -> tuple[Store, FastReads]:
    """Let mypy prove that the protocols are met."""
    return store, store
