"""The recent past against lists that keep everything: what is forgotten, told and never cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.store import history
from bayplan.store.errors import Compacted
from bayplan.store.history import History, HistoryWatcher
from bayplan.store.protocol import Event, KeyValue

MAX_EVENTS, MAX_BYTES, MAX_LAG, MAX_LAG_BYTES, MEMO = 8, 100, 8, 100, 3
KEYS = ["/a/x", "/a/y", "/a/b/x", "/ab/x", "/c"]
PREFIXES = ["", "/", "/a", "/a/", "/a/b/", "/c"]

sizes = st.sampled_from([0, 1, 25, 50, 110])
parts = st.lists(
    st.tuples(st.sampled_from(KEYS), sizes),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part[0],
)
steps = st.one_of(
    st.tuples(st.just("publish"), parts),
    st.tuples(st.just("burst"), st.tuples(st.sampled_from(KEYS), st.integers(1, 2 * MAX_LAG))),
    st.tuples(
        st.just("open"),
        st.tuples(st.sampled_from(PREFIXES), st.integers(-3, 6), st.sampled_from([0, 1, 50])),
    ),
    st.tuples(st.sampled_from(["take", "close"]), st.integers(0, 3)),
    st.tuples(st.just("compact"), st.integers(0, 6)),
    st.tuples(st.just("rebase"), st.integers(0, 3)),
)


@dataclass
class Reader:
    """What a watcher has still to be told, and how much of it came after it was opened."""

    watcher: HistoryWatcher
    prefix: str
    after: int
    left: list[Event]
    fresh: int = 0
    progress: int = field(init=False)

    def __post_init__(self) -> None:
        self.progress = self.after

    def lag(self) -> tuple[int, int]:
        """How many events came since it read all before, and their bytes."""
        late = self.left[len(self.left) - self.fresh :]
        return len(late), _bytes(late)


class Lists:
    """The history, and what it should be."""

    def __init__(self) -> None:
        self.past = History(revision=1, max_events=MAX_EVENTS, max_bytes=MAX_BYTES, max_lag=MAX_LAG)
        self.events: list[Event] = []
        self.kept = 0  # of the events, from here on
        self.now: dict[str, KeyValue] = {}
        self.states: dict[int, dict[str, KeyValue]] = {1: {}}
        self.readers: list[Reader] = []

    def publish(self, parts: list[tuple[str, int]]) -> None:
        revision, events = self.past.revision + 1, []
        for key, size in parts:
            prev = self.now.get(key)
            kv = KeyValue(key, b"x" * size, prev.create_revision if prev else revision, revision)
            events.append(Event(kv, prev, False))
            self.now[key] = kv
        self.past.publish(revision, events)
        self.events += events
        self.states[revision] = dict(self.now)
        self._forget()
        for reader in self.readers:
            mine = [e for e in events if e.kv.key.startswith(reader.prefix)]
            reader.left += mine
            reader.fresh += len(mine)

    def burst(self, given: tuple[str, int]) -> None:
        """Many small changes of one key, one after another."""
        key, count = given
        for _ in range(count):
            self.publish([(key, 1)])

    def _forget(self) -> None:
        """Beyond a bound and a quarter keep as many of the newest as are within it."""
        kept = self.events[self.kept :]
        if len(kept) <= MAX_EVENTS * 5 // 4 and _bytes(kept) <= MAX_BYTES * 5 // 4:
            return
        while len(kept) > 1 and (len(kept) > MAX_EVENTS or _bytes(kept) > MAX_BYTES):
            dropped = kept.pop(0).revision
        if dropped == self.events[-1].revision:
            return  # a transaction is kept or dropped as a whole
        self._compacted(dropped)

    def _compacted(self, revision: int) -> None:
        self.kept = sum(event.revision <= revision for event in self.events)

    def compact(self, back: int) -> None:
        revision = max(1, self.past.revision - back)
        before = self.past.compacted
        self.past.compact(revision)
        assert max(before, revision) == self.past.compacted
        self._compacted(self.past.compacted)

    def rebase(self, ahead: int) -> None:
        """A part of the past is unknown: nothing before it is kept, and all readers hear so."""
        revision = self.past.revision + ahead
        self.past.rebase(revision)
        assert (revision, revision) == (self.past.revision, self.past.compacted)
        self._compacted(revision)
        self.states = {revision: dict(self.now)}
        for reader in self.readers:
            with pytest.raises(Compacted):
                reader.watcher.take()
        self.readers.clear()

    def open(self, given: tuple[str, int, int]) -> None:
        prefix, back, batch_bytes = given
        after = max(1, self.past.revision - back)
        if after < self.past.compacted:
            with pytest.raises(Compacted):
                self.past.watch(prefix, after=after)
            return
        watcher = self.past.watch(prefix, after=after)
        watcher.batch_bytes = batch_bytes
        left = [e for e in self.events if e.kv.key.startswith(prefix) and e.revision > after]
        self.readers.append(Reader(watcher, prefix, after, left))

    def close(self, which: int) -> None:
        if self.readers:
            self.readers.pop(which % len(self.readers)).watcher.close()

    def take(self, which: int) -> None:
        if not self.readers:
            return
        reader = self.readers[which % len(self.readers)]
        count, size = reader.lag()
        try:
            batch = reader.watcher.take()
        except Compacted:
            assert count > MAX_LAG or size > MAX_LAG_BYTES // 2, "cut off too early"
            self.readers.remove(reader)
            return
        assert count < MAX_LAG * 5 // 4, "too many events are kept"
        assert count < 2 or size <= MAX_LAG_BYTES, "too many bytes are kept"
        self._taken(reader, batch)

    def _taken(self, reader: Reader, batch: list[Event]) -> None:
        limit = reader.watcher.batch_bytes
        asked_for = [event for event in reader.left if event.revision > reader.after]
        assert batch == asked_for[: len(batch)]
        if not limit:
            assert batch == asked_for
        assert len(batch) < 2 or not limit or _bytes(batch) <= limit
        went = reader.left.index(batch[-1]) + 1 if batch else 0
        if not reader.watcher.behind:
            went = len(reader.left)
        reader.left = reader.left[went:]
        reader.fresh = min(reader.fresh, len(reader.left))
        self._progressed(reader, batch)

    def _progressed(self, reader: Reader, batch: list[Event]) -> None:
        """A bookmark says that all up to there was told; it never goes back."""
        progress = reader.watcher.progress
        assert progress >= reader.progress
        assert all(
            event.revision > progress for event in reader.left if event.revision > reader.after
        )
        if not reader.left:
            assert max(reader.after, self.past.revision) == progress
        elif batch:
            assert progress >= batch[-1].revision - 1
        reader.progress = progress

    def check(self) -> None:
        past = self.past
        assert self.events[self.kept :] == past.since(past.compacted)
        assert len(self.events) - self.kept == len(past)
        for revision, state in self.states.items():
            if revision < past.compacted:
                continue
            for prefix in PREFIXES:
                then = past.before(prefix, revision)
                found = {k: then.get(k, self.now.get(k)) for k in KEYS if k.startswith(prefix)}
                assert {k: state.get(k) for k in found} == found
        assert {reader.watcher for reader in self.readers} == set(past.watchers())


def _bytes(events: list[Event]) -> int:
    return sum(len(event.kv.value) for event in events)


@given(script=st.lists(steps, max_size=60))
def test_what_is_kept_and_told_is_what_lists_would(script: list[tuple[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "MAX_LAG_BYTES", MAX_LAG_BYTES)
        patch.setattr(history, "MEMO_LIMIT", MEMO)
        lists = Lists()
        for step, given_ in script:
            getattr(lists, step)(given_)
        lists.check()
        for _ in range(len(lists.events) + 1):
            for which in range(len(lists.readers)):
                lists.take(which)
        assert not any(reader.left for reader in lists.readers), "all is told in the end"
        while lists.readers:
            lists.close(0)
        past = lists.past
        assert ([], {}, []) == (past.watchers(), past._groups, past._loose), "of who left"
        assert not any(past._memo.values())
