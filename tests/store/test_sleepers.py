"""Readers that are handed events while they sleep: all of them, once, in order, and in slices."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from bayplan.store import sleepers
from bayplan.store.errors import Compacted
from bayplan.store.history import History
from bayplan.store.protocol import Event, Interest, KeyValue

READERS = 4


def say(past: History, value: str) -> None:
    revision = past.revision + 1
    past.publish(revision, [Event(KeyValue("/a/b", value.encode(), 1, revision), None, False)])


class Reader:
    """Takes what it is handed while `reads`; the rest comes to its iteration."""

    def __init__(self, past: History, wanted: str = "", batch_bytes: int = 0) -> None:
        self.watcher = past.watch("/a/", after=past.revision)
        self.watcher.direct = self._direct
        self.watcher.batch_bytes = batch_bytes
        self.wanted = wanted.encode()
        if wanted:
            self.watcher.interest = Interest("value", wanted, lambda e: [e.kv.value.decode()])
        self.reads = True
        self.got: list[int] = []
        self.handed = 0
        self.task = asyncio.ensure_future(self._follow())

    def _direct(self, batch: list[Event], shared: dict[str, object]) -> bool:
        if not self.reads:
            return False
        assert batch is shared.setdefault("batch", batch), "one batch for all who share"
        self.handed += len(batch)
        self._take(batch)
        return True

    def _take(self, batch: list[Event]) -> None:
        wanted = (e for e in batch if not self.wanted or e.kv.value == self.wanted)
        self.got += [e.revision for e in wanted]

    async def _follow(self) -> None:
        async for batch in self.watcher:
            try:
                while not self.reads:
                    await asyncio.sleep(0)
            finally:  # it has been read, also by one that is cancelled before it looks
                self._take(batch)

    async def restart(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.task = asyncio.ensure_future(self._follow())

    async def end(self) -> None:
        self.reads = True
        self.watcher.close()
        await self.task


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


which = st.integers(0, READERS - 1)
steps = st.one_of(
    st.tuples(st.just("say"), st.sampled_from("xyz")),
    st.tuples(st.sampled_from(["turn", "pause", "resume", "rouse", "cancel"]), which),
)


@example(
    script=[("say", "x"), ("pause", 0), ("turn", 0), ("resume", 0), ("cancel", 0)], batch_bytes=0
)
@given(script=st.lists(steps, max_size=60), batch_bytes=st.sampled_from([0, 2]))
def test_each_reader_gets_each_event_of_its_own_once_in_order(script, batch_bytes):
    async def play() -> None:
        past = History(revision=0)
        readers = [Reader(past, wanted, batch_bytes) for wanted in ("x", "x", "y", "")]
        said: list[str] = []
        for step, argument in script:
            if step == "say":
                say(past, argument)
                said.append(argument)
                continue
            reader = readers[argument]
            if step == "turn":
                await asyncio.sleep(0)
            elif step == "rouse":
                reader.watcher.rouse()
            elif step == "cancel" and reader.reads:
                await reader.restart()
            else:
                reader.reads = step != "pause"
        for reader in readers:
            reader.reads = True
        for _ in range(len(said) + 1):
            await settled()
        for reader in readers:
            wanted = reader.wanted.decode()
            mine = [n for n, value in enumerate(said, 1) if wanted in ("", value)]
            assert mine == reader.got
            await reader.end()

    asyncio.run(play())


async def test_a_crowd_is_handed_events_in_slices_and_others_run_between():
    past = History(revision=0)
    readers = [Reader(past) for _ in range(3 * sleepers.SLICE)]
    await asyncio.sleep(0)
    say(past, "x")
    say(past, "y")

    reached = []
    for _ in range(4):
        await asyncio.sleep(0)
        reached.append(sum(reader.handed > 0 for reader in readers))

    assert [sleepers.SLICE, 2 * sleepers.SLICE, 3 * sleepers.SLICE] == reached[:3]
    assert {(1, 2)} == {tuple(reader.got) for reader in readers}, "both in one batch"
    for reader in readers:
        await reader.end()


@pytest.mark.parametrize("size", [sleepers.SLICE_BYTES // 8, 2 * sleepers.SLICE_BYTES])
async def test_a_slice_is_bounded_in_bytes(size):
    past = History(revision=0)
    readers = [Reader(past) for _ in range(20)]
    await asyncio.sleep(0)
    say(past, "x" * size)

    reached = []
    while len(reached) < 2 or reached[-1] < len(readers):
        await asyncio.sleep(0)
        reached.append(sum(reader.handed > 0 for reader in readers))

    most = max(1, sleepers.SLICE_BYTES // size)
    assert all(after - before <= most for before, after in pairwise([0, *reached]))
    for reader in readers:
        await reader.end()


async def test_a_crowd_that_is_woken_is_woken_in_slices():
    past = History(revision=0)
    readers = [Reader(past) for _ in range(2 * sleepers.SLICE + 1)]
    for reader in readers:
        reader.watcher.direct = None
    await asyncio.sleep(0)
    say(past, "x")

    woken = []
    while len(woken) < 3 or woken[-1] < len(readers):
        await asyncio.sleep(0)
        woken.append(sum(bool(reader.got) for reader in readers))

    assert all(after - before <= sleepers.SLICE for before, after in pairwise([0, *woken]))
    assert {(1,)} == {tuple(reader.got) for reader in readers}
    for reader in readers:
        await reader.end()


async def test_who_does_not_read_falls_behind_alone_and_is_told():
    past = History(revision=0, max_lag=8)
    slow, quick = Reader(past), Reader(past)
    await asyncio.sleep(0)
    slow.reads = False
    for _ in range(40):
        say(past, "x")
        await settled()
    slow.reads = True

    with pytest.raises(Compacted):
        await slow.task
    assert list(range(1, 41)) == quick.got
    assert 40 == quick.handed, "it was never woken"
    assert len(quick.watcher._group.log) <= 12
    await quick.end()


async def test_what_was_cut_before_it_was_handed_on_is_told_too():
    past = History(revision=0, max_lag=4)
    reader = Reader(past)
    await asyncio.sleep(0)
    for _ in range(40):  # without a turn of the loop
        say(past, "x")

    with pytest.raises(Compacted):
        await reader.task


async def test_one_whose_taking_fails_is_woken_and_the_others_are_served():
    past = History(revision=0)
    bad, good = Reader(past), Reader(past)
    await asyncio.sleep(0)

    def fail(batch: list[Event], shared: dict[str, object]) -> bool:
        raise ValueError("cannot be shown")

    bad.watcher.direct = fail
    with capture_logs() as told:
        say(past, "x")
        await settled()
        say(past, "x")
        await settled()

    assert ([1, 2], 0) == (bad.got, bad.handed)
    assert ([1, 2], 2) == (good.got, good.handed)
    assert {"direct": 2} == past.failures
    assert 1 == len(told), "once, not for each watcher and event"
    await bad.end()
    await good.end()


async def test_nothing_is_kept_of_those_who_left_while_they_were_handed_events():
    past = History(revision=0)
    readers = [Reader(past) for _ in range(sleepers.SLICE + 2)]
    group = readers[0].watcher._group
    await asyncio.sleep(0)
    say(past, "x")
    await asyncio.sleep(0)  # the first slice
    for reader in readers:
        await reader.end()
    await settled()

    assert (False, 0) == (bool(group.listeners), len(group.errands))


async def test_who_is_handed_an_event_sleeps_on_also_when_another_came_between_the_slices():
    past = History(revision=0)
    readers = [Reader(past) for _ in range(2 * sleepers.SLICE)]
    await asyncio.sleep(0)
    waits = [reader.watcher._future for reader in readers]

    say(past, "x")
    await asyncio.sleep(0)  # the first slice
    say(past, "y")
    await settled()

    assert {(1, 2)} == {tuple(reader.got) for reader in readers}
    assert {2} == {reader.handed for reader in readers}
    assert waits == [reader.watcher._future for reader in readers], "nobody was woken"
    for reader in readers:
        await reader.end()


async def test_who_asks_for_what_comes_later_is_not_handed_what_comes_before():
    past = History(revision=0)
    early, late = Reader(past), Reader(past)
    late.watcher.close()
    late.watcher = past.watch("/a/", after=2)
    late.watcher.direct = late._direct
    late.task = asyncio.ensure_future(late._follow())
    await settled()
    for _ in range(4):
        say(past, "x")
        await settled()

    assert ([1, 2, 3, 4], [3, 4]) == (early.got, late.got)
    await early.end()
    await late.end()
