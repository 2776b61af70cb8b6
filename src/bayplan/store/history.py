"""The recent past of a store, and the watchers that follow it.

One list of events in revision order serves resumed watches and reads of past revisions. It is
bounded in events and in bytes; what falls off the old end counts as compacted.

Watchers of the same prefix form a group with one log and a cursor each, so that a thousand
watchers of all pods cost one append a change. The log is cut at the slowest cursor, or at its
bound: a cursor left behind the cut gets `Compacted` at its next read. Nobody waits for a reader.
Who sleeps has read everything that concerns it, so a sleeper is never behind (`sleepers`); one that
named its interest is woken only by events that show it.

An event finds its groups by the directory part of its key, memoised, because nearly all prefixes
end in a slash; other prefixes are compared one by one.

It reads no clock and starts no thread or task, so it runs the same on a virtual-time loop.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Sequence

from bayplan.store.errors import Closed, Compacted
from bayplan.store.protocol import Direct, Event, Interest, KeyValue
from bayplan.store.sleepers import SLICE, Errand, Rousing, Sleepers

MAX_EVENTS = 50_000
MAX_BYTES = 64 << 20
MAX_LAG = 16_384  # events a watcher may fall behind
MAX_LAG_BYTES = 32 << 20  # and their bytes
MEMO_LIMIT = 20_000


def _revision_of(event: Event) -> int:
    return event.kv.mod_revision


class _Group:
    """The watchers of one prefix and the events that not all of them have read."""

    __slots__ = (
        "base",
        "bytes",
        "errands",
        "failures",
        "listeners",
        "log",
        "max_lag",
        "prefix",
        "sleepers",
        "trim_at",
        "watchers",
    )

    def __init__(self, prefix: str, max_lag: int, failures: Counter[str]) -> None:
        self.prefix = prefix
        self.failures = failures
        self.max_lag = max_lag
        self.trim_at = max_lag // 4
        self.log: list[Event] = []
        self.bytes = 0
        self.base = 0  # absolute position of log[0]
        self.watchers: set[HistoryWatcher] = set()
        self.sleepers = Sleepers()
        self.listeners = Sleepers()  # those with `direct`
        self.errands: deque[Errand] = deque()

    @property
    def end(self) -> int:
        """The position behind the newest event."""
        return self.base + len(self.log)

    def append(self, event: Event) -> None:
        end = self.base + len(self.log)
        if self.sleepers:
            for crowd in self.sleepers.concerned(event):
                rousing = Rousing(end, crowd, self.cut, self.failures)
                if len(crowd) > SLICE:
                    self._send(rousing)
                else:
                    rousing.run(SLICE)
        if self.listeners:
            for crowd in self.listeners.concerned(event):
                self._send(Errand(end, crowd, self.cut, self.failures))
        self.log.append(event)
        self.bytes += len(event.kv.value)
        if len(self.log) >= self.trim_at or self.bytes > MAX_LAG_BYTES:
            self.trim()

    def _send(self, errand: Errand) -> None:
        self.errands.append(errand)
        if len(self.errands) == 1:
            asyncio.get_running_loop().call_soon(self._run_errands)

    def _run_errands(self) -> None:
        """Hand events to some of those who were asleep; the others have their turn later."""
        left = SLICE
        while self.errands and left > 0:
            errand = self.errands[0]
            left -= errand.run(left)
            if not errand.waiting:
                self.errands.popleft()
                self._settle(errand)
        if self.errands:
            asyncio.get_running_loop().call_soon(self._run_errands)

    def _settle(self, errand: Errand) -> None:
        """Let those who have a batch sleep again, or have what came meanwhile."""
        if not errand.reached:
            return
        if errand.end == self.end:
            self.listeners.add(next(iter(errand.reached)).interest, errand.reached)
        else:
            self.errands.append(Errand(errand.end, errand.reached, self.cut, self.failures))

    def cut(self, at: int, limit: int) -> list[Event]:
        """Return a batch that begins at a position; nothing if that is gone."""
        if at < self.base:
            return []
        start = at - self.base
        if start + 1 == len(self.log):  # nearly always
            return self.log[start:]
        return self.log[start : _fitting(self.log, start, limit)]

    def trim(self) -> None:
        """Drop what all have read; when that is not enough, what the slowest have not."""
        end = self.end
        awake = (watcher.cursor for watcher in self.watchers if not watcher.asleep)
        slowest = min(min(awake, default=end), min((e.at for e in self.errands), default=end))
        self._drop(max(slowest, end - self.max_lag, self.base) - self.base)
        if self.bytes > MAX_LAG_BYTES:
            size, count = self.bytes, 0
            while size > MAX_LAG_BYTES // 2 and count < len(self.log) - 1:
                size -= len(self.log[count].kv.value)
                count += 1
            self._drop(count)
        self.trim_at = len(self.log) + self.max_lag // 4

    def _drop(self, count: int) -> None:
        self.bytes -= sum(len(event.kv.value) for event in self.log[:count])
        del self.log[:count]
        self.base += count


def _fitting(events: list[Event], start: int, limit: int) -> int:
    """Return where a batch that begins at `start` ends: at least one event, at most the limit."""
    if not limit:
        return len(events)
    size = 0
    for index in range(start, len(events)):
        size += len(events[index].kv.value)
        if size > limit and index > start:
            return index
    return len(events)


class HistoryWatcher:
    """A cursor in a group's log, after a private backlog of older events."""

    def __init__(
        self, history: History, group: _Group, *, after: int, backlog: list[Event]
    ) -> None:
        self._history = history
        self._group = group
        self._backlog = backlog
        self._after = after
        self._progress = after
        self._gone: int | None = None
        self._closed = self._roused = False
        self._future: asyncio.Future[None] | None = None
        self.batch_bytes = 0
        self.interest: Interest | None = None
        self.direct: Direct | None = None
        self.cursor = group.end

    @property
    def asleep(self) -> bool:
        """Whether this waits for an event that concerns it: all before are as good as read."""
        return self._future is not None

    def wake(self, at: int, future: asyncio.Future[None]) -> None:
        """Go on reading at a position."""
        self.cursor = at
        self._future = None
        if not future.done():
            future.set_result(None)

    @property
    def progress(self) -> int:
        return self._progress

    def take(self) -> list[Event]:
        group = self._group
        if self._gone is not None:
            raise Compacted(asked=self._progress, compacted=self._gone)
        if self._closed:
            return []
        if self.cursor == group.end and not self._backlog:
            # Nearly always, where lists are remembered by a watcher.
            self._progress = max(self._progress, self._history.revision)
            return []
        if self.cursor < group.base:
            self.invalidate(self._history.revision)
            raise Compacted(asked=self._progress, compacted=self._history.revision)
        batch = self._cut()
        told = batch[-1].kv.mod_revision - 1 if self.behind else self._history.revision
        self._progress = max(self._progress, told)
        if batch and batch[0].kv.mod_revision <= self._after:
            # Opened ahead of the store: what comes up to then was asked to be left out.
            batch = [event for event in batch if event.kv.mod_revision > self._after]
        return batch

    @property
    def behind(self) -> bool:
        """Whether there is more to be taken at once."""
        group = self._group
        return bool(self._backlog) or self.cursor < group.end

    def _cut(self) -> list[Event]:
        batch: list[Event] = []
        log, start = self._group.log, self.cursor - self._group.base
        if self._backlog:
            end = _fitting(self._backlog, 0, self.batch_bytes)
            batch, self._backlog = self._backlog[:end], self._backlog[end:]
            if self.batch_bytes:
                return batch
        end = _fitting(log, start, self.batch_bytes)
        self.cursor += end - start
        return batch + log[start:end]

    def __aiter__(self) -> HistoryWatcher:
        return self

    async def __anext__(self) -> list[Event]:
        while True:
            if batch := self.take():
                return batch
            if self._closed:
                raise StopAsyncIteration
            if self._roused:
                self._roused = False
                return batch
            if self.behind:
                continue
            self._future = future = asyncio.get_running_loop().create_future()
            # One that was opened ahead of the store must leave out what comes first.
            ahead = self._history.revision < self._after
            group = self._group
            place = group.sleepers if self.direct is None or ahead else group.listeners
            place.add(self.interest, {self: future})
            try:
                await future
            except asyncio.CancelledError:
                self._rise()
                raise

    def _rise(self) -> None:
        """Wake up although no event came."""
        if self._future is None:
            return
        for errand in self._group.errands:
            if (at := errand.leave(self)) is not None:
                break
        else:
            at = self._group.end
            self._group.sleepers.remove(self)
            self._group.listeners.remove(self)
        self.wake(at, self._future)

    def rouse(self) -> None:
        self._roused = True
        self._rise()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._history.forget(self, self._group)
            self._rise()

    def invalidate(self, compacted: int) -> None:
        """End this watcher with `Compacted`."""
        self._gone = compacted
        self._history.forget(self, self._group)
        self._rise()


class History:
    """Events in revision order, bounded, with everyone who follows them."""

    def __init__(
        self,
        *,
        revision: int,
        compacted: int = 0,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_lag: int = MAX_LAG,
    ) -> None:
        self.revision = revision
        self.compacted = compacted
        self.failures: Counter[str] = Counter()  # of what is done for watchers, by name
        self._events: list[Event] = []
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_lag = max_lag
        self._groups: dict[str, _Group] = {}
        self._loose: list[_Group] = []  # prefixes that do not end in "/"
        self._memo: dict[str, tuple[_Group, ...]] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._events)

    def publish(self, revision: int, events: Sequence[Event]) -> None:
        """Append what happened at `revision` and make it visible to everyone."""
        self.revision = revision
        self.record(events)
        if self._groups:
            for event in events:
                self._dispatch(event)
        if self._waiting:
            self._resolve_waiting()

    def record(self, events: Sequence[Event]) -> None:
        """Append events without telling watchers: those of a past being loaded."""
        self._events.extend(events)
        for event in events:
            self._bytes += len(event.kv.value)
        # A quarter of slack makes the cost of cutting the list's head a constant per event.
        if len(self._events) > self._max_events * 5 // 4 or self._bytes > self._max_bytes * 5 // 4:
            self._trim()

    def since(self, revision: int) -> list[Event]:
        """Return the events after a revision, oldest first."""
        return self._events[bisect_right(self._events, revision, key=_revision_of) :]

    def before(self, prefix: str, revision: int) -> dict[str, KeyValue | None]:
        """Say what was then under `prefix` for each key that changed after `revision`."""
        then: dict[str, KeyValue | None] = {}
        for event in self.since(revision):
            if event.kv.key.startswith(prefix):
                then.setdefault(event.kv.key, event.prev)
        return then

    def watch(self, prefix: str, *, after: int) -> HistoryWatcher:
        if after < self.compacted:
            raise Compacted(asked=after, compacted=self.compacted)
        backlog = [event for event in self.since(after) if event.kv.key.startswith(prefix)]
        group = self._groups.get(prefix)
        if group is None:
            group = self._groups[prefix] = _Group(prefix, self._max_lag, self.failures)
            self._memo.clear()
            if not prefix.endswith("/"):
                self._loose.append(group)
        watcher = HistoryWatcher(self, group, after=after, backlog=backlog)
        group.watchers.add(watcher)
        return watcher

    def forget(self, watcher: HistoryWatcher, group: _Group) -> None:
        """Take a watcher out; the last one takes its group along."""
        group.watchers.discard(watcher)
        if not group.watchers and self._groups.get(group.prefix) is group:
            del self._groups[group.prefix]
            self._memo.clear()
            if group in self._loose:
                self._loose.remove(group)

    def compact(self, revision: int) -> None:
        """Forget the events up to and including `revision`."""
        self._cut(bisect_right(self._events, revision, key=_revision_of))
        self.compacted = max(self.compacted, revision)

    def rebase(self, revision: int) -> None:
        """Start anew at `revision`: a part of the past is unknown, so every watcher must list."""
        self._events.clear()
        self._bytes = 0
        self.compacted = self.revision = revision
        for watcher in self.watchers():
            watcher.invalidate(revision)
        self._resolve_waiting()

    def watchers(self) -> list[HistoryWatcher]:
        return [watcher for group in self._groups.values() for watcher in group.watchers]

    async def wait_for(self, revision: int) -> None:
        while self.revision < revision:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, future))
            try:
                await future
            except asyncio.CancelledError:
                self._resolve_waiting()  # what never comes must not be remembered for ever
                raise

    @property
    def awaited(self) -> int:
        """Return how many wait for a revision that has not come."""
        return len(self._waiting)

    def close(self) -> None:
        for watcher in self.watchers():
            watcher.close()
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(Closed())
        self._waiting.clear()

    def _dispatch(self, event: Event) -> None:
        key = event.kv.key
        directory = key[: key.rfind("/") + 1]
        groups = self._memo.get(directory)
        if groups is None:
            groups = self._find_groups(directory)
        for group in groups:
            group.append(event)
        for group in self._loose:
            if key.startswith(group.prefix):
                group.append(event)

    def _find_groups(self, directory: str) -> tuple[_Group, ...]:
        if len(self._memo) >= MEMO_LIMIT:
            self._memo.clear()
        groups = tuple(
            group
            for prefix, group in self._groups.items()
            if prefix.endswith("/") and directory.startswith(prefix)
        )
        self._memo[directory] = groups
        return groups

    def _trim(self) -> None:
        drop = max(0, len(self._events) - self._max_events)
        size = self._bytes - sum(len(event.kv.value) for event in self._events[:drop])
        while size > self._max_bytes and drop < len(self._events) - 1:
            size -= len(self._events[drop].kv.value)
            drop += 1
        if not drop:
            return
        # A transaction is kept or dropped as a whole.
        revision = self._events[drop - 1].kv.mod_revision
        if self._events[-1].kv.mod_revision != revision:
            self.compact(revision)

    def _cut(self, count: int) -> None:
        self._bytes -= sum(len(event.kv.value) for event in self._events[:count])
        del self._events[:count]

    def _resolve_waiting(self) -> None:
        still: list[tuple[int, asyncio.Future[None]]] = []
        for revision, future in self._waiting:
            if future.done():
                continue
            if revision > self.revision:
                still.append((revision, future))
            else:
                future.set_result(None)
        self._waiting = still
