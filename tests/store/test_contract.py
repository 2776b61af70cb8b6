"""What every store does, whatever it is made of."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.store import (
    Check,
    Closed,
    Compacted,
    Conflict,
    Delete,
    Event,
    FutureRevision,
    NotFound,
    Put,
    Store,
    Watcher,
)
from tests.store.conftest import OpenStore


async def collect(watcher: Watcher, count: int) -> list[Event]:
    """Read until `count` events have come, and no more come at once."""
    events: list[Event] = []
    async with asyncio.timeout(60):
        while len(events) < count:
            events += await anext(watcher)
    return events + watcher.take()


def told(events: list[Event]) -> list[tuple[str, bytes, bool]]:
    return [(event.kv.key, event.kv.value, event.deleted) for event in events]


async def test_a_value_is_read_back_with_its_revisions(store: Store) -> None:
    first = await store.put("/a/x", b"one")
    second = await store.put("/a/x", b"two")

    assert second == await store.get("/a/x")
    assert first.create_revision == second.create_revision
    assert first.mod_revision < second.mod_revision
    assert b"two" == second.value
    assert await store.get("/a/y") is None


async def test_create_only_succeeds_once(store: Store) -> None:
    created = await store.put("/a/x", b"one", expect=0)

    with pytest.raises(Conflict) as caught:
        await store.put("/a/x", b"two", expect=0)

    assert created.mod_revision == caught.value.current.mod_revision
    assert b"one" == (await store.get("/a/x")).value


async def test_put_at_a_stale_revision_conflicts_and_tells_the_current(store: Store) -> None:
    old = await store.put("/a/x", b"one")
    new = await store.put("/a/x", b"two", expect=old.mod_revision)

    with pytest.raises(Conflict) as caught:
        await store.put("/a/x", b"three", expect=old.mod_revision)

    assert new == caught.value.current
    with pytest.raises(Conflict):
        await store.put("/a/x", b"three", expect=new.mod_revision + 1)
    with pytest.raises(Conflict) as caught:
        await store.put("/a/missing", b"three", expect=old.mod_revision)
    assert caught.value.current is None


async def test_an_empty_value_is_a_value(store: Store) -> None:
    first = await store.put("/a/x", b"")
    second = await store.put("/a/x", b"", expect=first.mod_revision)

    assert second == await store.get("/a/x")
    assert b"" == (await store.delete("/a/x", expect=second.mod_revision)).value


async def test_delete_returns_the_last_value_at_a_new_revision(store: Store) -> None:
    put = await store.put("/a/x", b"one")

    deleted = await store.delete("/a/x", expect=put.mod_revision)

    assert b"one" == deleted.value
    assert deleted.mod_revision > put.mod_revision
    assert await store.get("/a/x") is None
    with pytest.raises(NotFound):
        await store.delete("/a/x")
    again = await store.put("/a/x", b"two", expect=0)
    assert again.create_revision > put.mod_revision


async def test_delete_at_a_stale_revision_conflicts(store: Store) -> None:
    old = await store.put("/a/x", b"one")
    await store.put("/a/x", b"two")

    with pytest.raises(Conflict):
        await store.delete("/a/x", expect=old.mod_revision)

    assert (await store.get("/a/x")).value == b"two"


async def test_range_is_in_order_and_only_the_prefix(store: Store) -> None:
    for key in ("/a/c", "/a/a", "/b/a", "/a/b/z", "/a-/x", "/a/é"):
        await store.put(key, key.encode())

    found = await store.range("/a/")

    assert ["/a/a", "/a/b/z", "/a/c", "/a/é"] == [kv.key for kv in found.items]
    assert 0 == found.remaining
    assert 6 == len((await store.range("")).items)
    assert [] == (await store.range("/zz/")).items


async def test_range_pages_and_counts_what_remains(store: Store) -> None:
    keys = [f"/a/{n:02}" for n in range(7)]
    for key in keys:
        await store.put(key, b"v")

    first = await store.range("/a/", limit=3)
    second = await store.range("/a/", limit=3, start_after=first.items[-1].key)
    third = await store.range("/a/", limit=3, start_after=second.items[-1].key)

    assert keys == [kv.key for page in (first, second, third) for kv in page.items]
    assert [4, 1, 0] == [first.remaining, second.remaining, third.remaining]
    assert [] == (await store.range("/a/", start_after="/a/99")).items
    assert [] == (await store.range("/a/", start_after="/b")).items


async def test_a_page_begins_after_a_key_that_is_the_prefix_itself(store: Store) -> None:
    for key in ("/a", "/a/x"):
        await store.put(key, b"v")

    assert ["/a", "/a/x"] == [kv.key for kv in (await store.range("/a")).items]
    assert ["/a/x"] == [kv.key for kv in (await store.range("/a", start_after="/a")).items]


async def test_a_store_can_be_asked_whether_it_works(store: Store) -> None:
    await store.check()
    await store.close()

    with pytest.raises(Closed):
        await store.check()
    with pytest.raises(Closed):
        await store.compact(store.revision)
    with pytest.raises(Closed):
        store.watch("/a/", after=0)


async def test_pages_of_one_revision_do_not_see_later_writes(store: Store) -> None:
    for key in ("/a/1", "/a/3", "/a/5"):
        await store.put(key, b"old")
    first = await store.range("/a/", limit=1)
    await store.put("/a/2", b"new")
    await store.put("/a/3", b"new")
    await store.delete("/a/5")
    await store.put("/b/1", b"new")

    rest = await store.range("/a/", start_after="/a/1", revision=first.revision)

    assert [("/a/3", b"old"), ("/a/5", b"old")] == [(kv.key, kv.value) for kv in rest.items]
    assert first.revision == rest.revision
    assert (await store.get("/a/2", revision=first.revision)) is None
    assert (await store.get("/a/5", revision=first.revision)).value == b"old"
    limited = await store.range("/a/", limit=1, start_after="/a/1", revision=first.revision)
    assert 1 == limited.remaining


async def test_a_revision_not_reached_cannot_be_read(store: Store) -> None:
    await store.put("/a/x", b"v")

    with pytest.raises(FutureRevision):
        await store.range("/a/", revision=store.revision + 1000)


async def test_a_transaction_is_one_revision_and_all_or_nothing(store: Store) -> None:
    a = await store.put("/t/a", b"1")
    b = await store.put("/t/b", b"1")
    watcher = store.watch("/t/", after=b.mod_revision)

    with pytest.raises(Conflict) as caught:
        await store.transact([Put("/t/c", b"new"), Delete("/t/a"), Check("/t/b", a.mod_revision)])
    assert "/t/b" == caught.value.key
    with pytest.raises(NotFound):
        await store.transact([Put("/t/c", b"new", 0), Delete("/t/nothing")])
    assert await store.get("/t/c") is None

    done = await store.transact(
        [
            Put("/t/c", b"new", 0),
            Check("/t/b", b.mod_revision),
            Check("/t/d", 0),
            Delete("/t/a", a.mod_revision),
        ]
    )

    assert ["/t/c", "/t/a"] == [kv.key for kv in done]
    assert 1 == len({kv.mod_revision for kv in done})
    events = await collect(watcher, 2)
    assert [("/t/a", b"1", True), ("/t/c", b"new", False)] == sorted(told(events))
    assert {done[0].mod_revision} == {event.revision for event in events}


async def test_a_transaction_of_checks_alone_writes_nothing(store: Store) -> None:
    a = await store.put("/t/a", b"1")

    assert [] == await store.transact([Check("/t/a", a.mod_revision), Check("/t/b", 0)])
    with pytest.raises(Conflict):
        await store.transact([Check("/t/a", 0)])
    with pytest.raises(ValueError, match="twice"):
        await store.transact([Put("/t/a", b""), Check("/t/a", 0)])
    assert a == await store.get("/t/a")


async def test_a_watch_tells_every_change_once_in_order_with_what_was_before(store: Store) -> None:
    before = await store.put("/w/a", b"0")
    watcher = store.watch("/w/", after=before.mod_revision)
    put = await store.put("/w/a", b"1")
    await store.put("/x/a", b"elsewhere")
    await store.put("/w/b", b"2")
    gone = await store.delete("/w/a")

    events = await collect(watcher, 3)

    assert [
        ("/w/a", b"1", False),
        ("/w/b", b"2", False),
        ("/w/a", b"1", True),
    ] == told(events)
    assert before == events[0].prev
    assert events[1].prev is None
    assert put == events[2].prev
    assert gone.mod_revision == events[2].revision
    assert watcher.progress >= gone.mod_revision


async def test_a_watch_from_the_past_is_gapless(store: Store) -> None:
    first = await store.put("/w/a", b"0")
    for n in range(1, 6):
        await store.put("/w/a", b"%d" % n)
    watcher = store.watch("/w/", after=first.mod_revision)
    await store.put("/w/a", b"6")

    events = await collect(watcher, 6)

    assert [b"1", b"2", b"3", b"4", b"5", b"6"] == [event.kv.value for event in events]


async def test_list_then_watch_neither_misses_nor_repeats(store: Store) -> None:
    """Writers never stop; what was listed plus what was watched is the final state."""
    stop = asyncio.Event()
    written = 0

    async def write(worker: int) -> None:
        nonlocal written
        n = 0
        while not stop.is_set():
            n += 1
            await store.put(f"/lw/{worker}-{n % 5}", b"%d" % n)
            written += 1
            await asyncio.sleep(0)

    async def more(count: int) -> None:
        wanted = written + count
        while written < wanted:
            await asyncio.sleep(0)

    writers = [asyncio.create_task(write(worker)) for worker in range(4)]
    await more(60)
    listed = await store.range("/lw/")
    watcher = store.watch("/lw/", after=listed.revision)
    await more(60)
    stop.set()
    await asyncio.gather(*writers)
    final = await store.range("/lw/")
    await store.wait_for(final.revision)

    state = {kv.key: kv for kv in listed.items}
    for event in watcher.take():
        known = state.get(event.kv.key)
        assert known is None or known.mod_revision < event.revision
        assert known is None or event.prev == known
        state[event.kv.key] = event.kv

    assert final.items == [state[key] for key in sorted(state)]


async def test_a_slow_watcher_gets_compacted_and_stalls_nobody(open_store: OpenStore) -> None:
    store = await open_store(max_lag=50)
    slow = store.watch("/s/", after=store.revision)
    fast = store.watch("/s/", after=store.revision)
    seen: list[Event] = []
    for n in range(200):
        await store.put("/s/x", b"%d" % n)
        await store.wait_for((await store.get("/s/x")).mod_revision)
        seen += fast.take()

    assert 200 == len(seen)
    with pytest.raises(Compacted):
        await anext(slow)
    with pytest.raises(Compacted):
        slow.take()


async def test_compaction_ends_the_past_and_keeps_the_present(store: Store) -> None:
    first = await store.put("/c/a", b"1")
    second = await store.put("/c/a", b"2")
    await store.put("/c/b", b"3")
    listed = await store.range("/c/")
    await store.compact(listed.revision)
    await store.compact(listed.revision)
    await store.compact(second.mod_revision)

    assert listed.items == (await store.range("/c/")).items
    assert listed.items == (await store.range("/c/", revision=listed.revision)).items
    with pytest.raises(Compacted):
        await store.range("/c/", revision=first.mod_revision)
    with pytest.raises(Compacted):
        store.watch("/c/", after=first.mod_revision)
    with pytest.raises(FutureRevision):
        await store.compact(store.revision + 1000)
    watcher = store.watch("/c/", after=listed.revision)
    await store.put("/c/a", b"4")
    assert [("/c/a", b"4", False)] == told(await collect(watcher, 1))


async def test_a_bounded_history_forgets_its_old_end(open_store: OpenStore) -> None:
    store = await open_store(max_events=10)
    first = await store.put("/h/x", b"0")
    for n in range(40):
        last = await store.put("/h/x", b"%d" % n)
    await store.wait_for(last.mod_revision)

    assert store.compacted > first.mod_revision
    with pytest.raises(Compacted):
        store.watch("/h/", after=first.mod_revision)
    watcher = store.watch("/h/", after=store.compacted)
    assert len(watcher.take()) >= 10


async def test_a_history_is_bounded_in_bytes_too(open_store: OpenStore) -> None:
    """Few large changes are forgotten as many small ones are."""
    store = await open_store(max_bytes=50_000)
    first = await store.put("/h/x", b"0")
    for _ in range(20):
        last = await store.put("/h/x", b"x" * 10_000)
    await store.wait_for(last.mod_revision)

    with pytest.raises(Compacted):
        store.watch("/h/", after=first.mod_revision)
    kept = store.watch("/h/", after=store.compacted).take()
    assert 1 <= len(kept) <= 7, "50,000 bytes and a quarter of slack"


async def test_concurrent_increments_lose_nothing(store: Store) -> None:
    await store.put("/n", b"0")

    async def increment() -> None:
        while True:
            current = await store.get("/n")
            try:
                await store.put("/n", b"%d" % (int(current.value) + 1), expect=current.mod_revision)
            except Conflict:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(20)))

    assert b"20" == (await store.get("/n")).value


async def test_many_writers_get_distinct_revisions(store: Store) -> None:
    written = await asyncio.gather(*(store.put(f"/m/{n}", b"v") for n in range(300)))
    gone = await asyncio.gather(*(store.delete(f"/m/{n}") for n in range(0, 300, 20)))

    revisions = [kv.mod_revision for kv in (*written, *gone)]
    assert len(set(revisions)) == len(revisions)
    assert 285 == len((await store.range("/m/")).items)


async def test_closing_a_watcher_ends_its_iteration(store: Store) -> None:
    watcher = store.watch("/e/", after=store.revision)
    waiting = asyncio.create_task(anext(watcher, None))
    await asyncio.sleep(0)
    watcher.close()
    watcher.close()

    assert await waiting is None
    assert [] == watcher.take()


async def test_a_cancelled_wait_loses_no_event(store: Store) -> None:
    watcher = store.watch("/e/", after=store.revision)
    waiting = asyncio.create_task(anext(watcher))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.put("/e/x", b"1")

    assert [("/e/x", b"1", False)] == told(await collect(watcher, 1))


async def test_a_closed_store_refuses_writes_and_ends_watchers(store: Store) -> None:
    watcher = store.watch("/e/", after=store.revision)
    waiting = asyncio.create_task(anext(watcher, None))
    await asyncio.sleep(0)
    await store.close()
    await store.close()

    assert await waiting is None
    with pytest.raises(Closed):
        await store.put("/e/x", b"1")
    with pytest.raises(Closed):
        store.watch("/e/", after=0)


@pytest.mark.parametrize("kind", ["sqlite", "etcd", "plain etcd"], indirect=False)
async def test_a_reopened_store_is_where_it_was(open_store: OpenStore) -> None:
    store = await open_store()
    a = await store.put("/r/a", b"1")
    await store.put("/r/b", b"1")
    await store.put("/r/a", b"2")
    await store.delete("/r/b")
    last = await store.put("/r/b", b"3")
    before = await store.range("/r/")
    watcher = store.watch("/r/", after=a.mod_revision)
    events = [(e.kv, e.prev, e.deleted) for e in await collect(watcher, 4)]
    await store.close()

    again = await open_store()

    assert before.items == (await again.range("/r/")).items
    assert again.revision >= last.mod_revision
    resumed = again.watch("/r/", after=a.mod_revision)
    assert events == [(e.kv, e.prev, e.deleted) for e in await collect(resumed, 4)]
    assert (await again.put("/r/c", b"4")).mod_revision > before.revision
