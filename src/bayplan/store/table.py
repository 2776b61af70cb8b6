"""The state that in-memory reads are served from: current values, their order, their history.

Memory and SQLite stores share it. `build` turns operations into events against any view of the
current values (the SQLite store validates against writes that are not on disk yet), `commit`
makes events visible. Both are plain functions of their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from bayplan.store.errors import Closed, Compacted, Conflict, FutureRevision, NotFound
from bayplan.store.history import History, HistoryWatcher
from bayplan.store.protocol import Check, Delete, Event, KeyValue, Op, Put, RangeResult
from bayplan.store.sortedkeys import SortedKeys, prefix_end


def build(
    ops: Sequence[Op], lookup: Callable[[str], KeyValue | None], revision: int
) -> list[Event]:
    """Check a transaction against `lookup` and return its events at `revision`."""
    seen: set[str] = set()
    events: list[Event] = []
    for op in ops:
        if op.key in seen:
            raise ValueError(f'key "{op.key}" occurs twice in one transaction')
        seen.add(op.key)
        current = lookup(op.key)
        if current is None and isinstance(op, Delete):
            raise NotFound(op.key)
        if op.expect is not None and op.expect != (current.mod_revision if current else 0):
            raise Conflict(op.key, current, op.expect)
        match op:
            case Put(key, value):
                created = current.create_revision if current else revision
                events.append(Event(KeyValue(key, value, created, revision), current, False))
            case Delete(key) if current is not None:
                last = KeyValue(key, current.value, current.create_revision, revision)
                events.append(Event(last, current, True))
            case Check():
                pass
    return events


class Table:
    """Current values in a dict, their keys in order, their past in a History."""

    def __init__(self, history: History, items: Iterable[KeyValue] = ()) -> None:
        self.history = history
        self._values = {item.key: item for item in items}
        self._keys = SortedKeys(self._values)
        self.get = self._values.get

    def commit(self, revision: int, events: Sequence[Event]) -> None:
        """Apply the events of one revision and publish them."""
        for event in events:
            key = event.kv.key
            if event.deleted:
                del self._values[key]
                self._keys.remove(key)
            else:
                if event.prev is None:
                    self._keys.add(key)
                self._values[key] = event.kv
        self.history.publish(revision, events)

    def get_at(self, key: str, revision: int) -> KeyValue | None:
        self._check(revision)
        for event in self.history.since(revision):
            if event.kv.key == key:
                return event.prev
        return self._values.get(key)

    def range(
        self, prefix: str, start_after: str = "", limit: int = 0, revision: int = 0
    ) -> RangeResult:
        at = revision or self.history.revision
        low, high = prefix, prefix_end(prefix)
        if start_after >= low:
            low = start_after + "\0"  # the next possible key
        if high and low >= high:
            self._check(at)
            return RangeResult([], at)
        if revision and revision != self.history.revision:
            return self._range_at(prefix, low, high, limit, revision)
        values = self._values
        keys = self._keys.span(low, high)
        items = [values[key] for key in (islice(keys, limit) if limit else keys)]
        remaining = 0
        if limit and len(items) == limit:
            remaining = self._keys.count(low, high) - limit
        return RangeResult(items, at, remaining)

    def _range_at(self, prefix: str, low: str, high: str, limit: int, revision: int) -> RangeResult:
        self._check(revision)
        then = self.history.before(prefix, revision)
        found = [self._values[key] for key in self._keys.span(low, high) if key not in then]
        found += [kv for key, kv in then.items() if kv is not None and key >= low]
        found.sort(key=lambda kv: kv.key)
        if not limit:
            return RangeResult(found, revision)
        return RangeResult(found[:limit], revision, max(0, len(found) - limit))

    def _check(self, revision: int) -> None:
        if revision < self.history.compacted:
            raise Compacted(asked=revision, compacted=self.history.compacted)
        if revision > self.history.revision:
            raise FutureRevision(asked=revision, current=self.history.revision)


class TableStore:
    """What stores that read from a table have in common: reads, watches, whether they are open."""

    def __init__(self, table: Table) -> None:
        self._history = table.history
        self._table = table
        self._closed = False
        self.get_now, self.range_now = table.get, table.range
        self.failures = table.history.failures

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

    def watch(self, prefix: str, *, after: int) -> HistoryWatcher:
        self._check_open()
        return self._history.watch(prefix, after=after)

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._history.revision:
            raise FutureRevision(asked=revision, current=self._history.revision)
        await self._compact_kept(revision)
        self._history.compact(revision)

    async def _compact_kept(self, revision: int) -> None:
        """Forget what is kept beside the table."""

    async def wait_for(self, revision: int) -> None:
        await self._history.wait_for(revision)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed
