"""The bounds of the recent past: what is kept, what readers may lag behind, what is remembered."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.clock import run_virtual
from bayplan.store import Unavailable, history
from bayplan.store.errors import Closed, Compacted
from bayplan.store.etcd import EtcdStore
from bayplan.store.history import History
from bayplan.store.protocol import Event, Interest, KeyValue


def change(revision: int, key: str = "/a/b", size: int = 100) -> Event:
    return Event(KeyValue(key, b"x" * size, revision, revision), None, deleted=False)


def publish(past: History, revisions: range, **more: object) -> None:
    for revision in revisions:
        past.publish(revision, [change(revision, **more)])


def test_bytes_of_what_was_compacted_do_not_count():
    past = History(revision=0, max_bytes=1000)
    publish(past, range(1, 11))
    past.compact(10)
    publish(past, range(11, 21))

    assert 10 == len(past)
    assert 10 == past.compacted


def test_a_reader_that_lags_behind_by_too_many_bytes_must_list_again(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 1000)
    past = History(revision=0)
    quick, slow = past.watch("/a/", after=0), past.watch("/a/", after=0)
    read = []
    for revision in range(1, 12):
        publish(past, range(revision, revision + 1))
        read += quick.take()

    assert list(range(1, 12)) == [event.revision for event in read]
    with pytest.raises(Compacted):
        slow.take()


def test_a_reader_that_was_cut_off_costs_half_the_bound_at_most(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 1000)
    past = History(revision=0)
    past.watch("/a/", after=0)
    publish(past, range(1, 12))

    (group,) = past._groups.values()
    assert 500 == group.bytes == sum(len(event.kv.value) for event in group.log)


def test_one_large_change_alone_reaches_its_readers(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 1000)
    past = History(revision=0)
    reader = past.watch("/a/", after=0)
    publish(past, range(1, 2), size=5000)

    assert [1] == [event.revision for event in reader.take()]


@pytest.mark.parametrize(
    ("limit", "batches"),
    [
        pytest.param(0, [[1, 2, 3, 4, 5]], id="no bound"),
        pytest.param(250, [[1, 2], [3], [4, 5]], id="two fit"),
        pytest.param(200, [[1, 2], [3], [4, 5]], id="two fit exactly"),
        pytest.param(199, [[1], [2], [3], [4], [5]], id="one fits"),
        pytest.param(1, [[1], [2], [3], [4], [5]], id="none fits, one comes"),
    ],
)
def test_batches_are_bounded_those_of_the_past_and_those_of_now(limit, batches):
    past = History(revision=0)
    publish(past, range(1, 4))
    reader = past.watch("/a/", after=0)
    reader.batch_bytes = limit
    publish(past, range(4, 6))

    got = [[event.revision for event in reader.take()] for _ in range(6)]

    assert batches == [batch for batch in got if batch]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        pytest.param([10] * 5, 5, id="events: a quarter more than the bound"),
        pytest.param([10] * 6, 4, id="events: one more"),
        pytest.param([25] * 5, 5, id="bytes: a quarter more than the bound"),
        pytest.param([25] * 4 + [26], 3, id="bytes: one more"),
        pytest.param([90, 10, 10, 10, 10], 4, id="bytes: what is large goes first"),
        pytest.param([10, 10, 10, 10, 90], 2, id="bytes: what is large stays last"),
        pytest.param([10, 10, 500], 1, id="the newest stays, however large"),
        pytest.param([0, 30, 10, 10, 10, 10], 4, id="events first, what is left fits"),
    ],
)
def test_how_much_of_the_past_is_kept(sizes, kept):
    """Bounds of 4 events and 100 bytes; it is cut to them when it is a quarter over one."""
    past = History(revision=0, max_events=4, max_bytes=100)
    for revision, size in enumerate(sizes, 1):
        publish(past, range(revision, revision + 1), size=size)

    assert (kept, len(sizes) - kept) == (len(past), past.compacted)


def test_a_transaction_is_forgotten_as_a_whole_or_not():
    past = History(revision=0, max_events=4)
    past.publish(1, [change(1, f"/a/{n}") for n in range(4)])
    past.publish(2, [change(2, f"/b/{n}") for n in range(2)])

    assert (1, 2) == (past.compacted, len(past))


def test_a_transaction_larger_than_the_bound_is_kept_until_the_next():
    past = History(revision=0, max_events=2)
    past.publish(1, [change(1, f"/a/{n}") for n in range(9)])
    alone = past.compacted, len(past)
    past.publish(2, [change(2)])

    assert ((0, 9), (1, 1)) == (alone, (past.compacted, len(past)))


async def test_a_history_that_is_closed_ends_its_readers_and_those_who_wait():
    past = History(revision=0)
    reader = past.watch("/a/", after=0)
    waiting = asyncio.ensure_future(past.wait_for(7))
    await asyncio.sleep(0)

    past.close()

    assert [] == [batch async for batch in reader]
    with pytest.raises(Closed):
        await asyncio.wait_for(waiting, 60)


def test_what_is_remembered_of_directories_is_bounded(monkeypatch):
    monkeypatch.setattr(history, "MEMO_LIMIT", 4)
    past = History(revision=0)
    reader = past.watch("/a/", after=0)
    for revision in range(1, 30):
        past.publish(revision, [change(revision, key=f"/a/{revision}/x")])
        assert len(past._memo) <= 4

    assert 29 == len(reader.take())


class _Away:
    """An etcd that answers no watch."""

    asked = 0

    async def watch(self, request):
        self.asked += 1
        raise Unavailable("etcd is away")
        yield  # a stream by its form

    async def close(self):
        return None


def test_an_etcd_that_is_away_is_asked_ever_more_seldom():
    away = _Away()
    store = EtcdStore(away, "/bayplan", History(revision=0))

    async def follow():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                await store._follow()

    run_virtual(follow())

    assert 10 < away.asked < 100


def interest(value: str) -> Interest:
    return Interest("first", value, lambda event: [event.kv.value.decode()])


def say(past: History, value: str) -> None:
    revision = past.revision + 1
    past.publish(revision, [Event(KeyValue("/a/b", value.encode(), 1, revision), None, False)])


async def asleep_among_others(past: History):
    """Return a reader and its wait, which 40 changes have not concerned."""
    reader = past.watch("/a/", after=0)
    reader.interest = interest("mine")
    waiting = asyncio.ensure_future(reader.__anext__())
    await asyncio.sleep(0)
    for _ in range(40):
        say(past, "other")
    return reader, waiting


async def test_sleepers_wake_only_for_what_concerns_them_and_are_never_behind():
    past = History(revision=0, max_lag=4)
    _, waiting = await asleep_among_others(past)
    await asyncio.sleep(0)
    assert not waiting.done()

    say(past, "mine")

    assert [41] == [event.revision for event in await waiting]


async def test_a_roused_reader_has_read_what_did_not_concern_it():
    past = History(revision=0, max_lag=4)
    reader, waiting = await asleep_among_others(past)

    reader.rouse()

    assert [] == await waiting
    assert 40 == reader.progress


async def test_a_cancellation_in_the_moment_of_rousing_is_not_swallowed():
    past = History(revision=0)
    reader = past.watch("/a/", after=0)
    waiting = asyncio.ensure_future(reader.__anext__())
    await asyncio.sleep(0)

    reader.rouse()
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_nothing_is_kept_of_sleepers_that_have_gone():
    past = History(revision=0)
    readers = [past.watch("/a/", after=0) for _ in range(6)]
    for n, reader in enumerate(readers):
        reader.interest = interest(str(n // 2)) if n < 4 else None
    waiting = [asyncio.ensure_future(reader.__anext__()) for reader in readers]
    await asyncio.sleep(0)

    waiting[0].cancel()
    readers[1].close()
    say(past, "1")
    await asyncio.gather(*waiting, return_exceptions=True)

    assert not readers[2]._group.sleepers


@given(
    steps=st.lists(
        st.one_of(st.sampled_from(["x", "y", "z"]), st.sampled_from(["turn", "rouse", "cancel"])),
        max_size=40,
    )
)
def test_interested_readers_get_each_event_of_theirs_once_in_order(steps: list[str]):
    async def play() -> tuple[list[int], list[int]]:
        past = History(revision=0, max_lag=1000)
        reader, read, expected = past.watch("/a/", after=0), [], []
        reader.interest = interest("x")

        async def follow() -> None:
            async for batch in reader:
                read.extend(e.revision for e in batch if e.kv.value == b"x")

        task = asyncio.ensure_future(follow())
        for step in steps:
            if step == "turn":
                await asyncio.sleep(0)
            elif step == "rouse":
                reader.rouse()
            elif step == "cancel":
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                task = asyncio.ensure_future(follow())
            else:
                say(past, step)
                expected += [past.revision] * (step == "x")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reader.close()
        await task
        return expected, read

    expected, read = asyncio.run(play())
    assert expected == read


async def test_who_no_longer_waits_for_a_revision_is_forgotten():
    """Clients may ask for revisions that never come, and each write looks at all who wait."""
    past = History(revision=0)
    waits = [asyncio.create_task(past.wait_for(1000)) for _ in range(3)]
    await asyncio.sleep(0)
    assert 3 == past.awaited

    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)

    assert 0 == past.awaited


async def test_who_leaves_while_others_wait_for_a_revision_takes_nobody_along():
    """It is cancelled and has not run since when the revision comes."""
    past = History(revision=0)
    leaving, staying = (asyncio.create_task(past.wait_for(2)) for _ in range(2))
    await asyncio.sleep(0)

    leaving.cancel()
    past.publish(2, [change(2)])

    await asyncio.wait_for(staying, 60)
    assert 0 == past.awaited
