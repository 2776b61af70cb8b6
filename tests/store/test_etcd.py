"""What is particular to the store in etcd: several servers, restarts, foreign compaction."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import pytest
import structlog

from bayplan.store import Compacted, Conflict, Unavailable
from bayplan.store.etcd import EtcdStore
from bayplan.testing.etcd import EtcdServer
from tests.store.conftest import fresh_root


async def test_two_stores_on_one_etcd_see_one_truth(etcd: EtcdServer) -> None:
    root = fresh_root()
    async with AsyncExitStack() as stack:
        one = await EtcdStore.open([etcd.url], root=root)
        stack.push_async_callback(one.close)
        two = await EtcdStore.open([etcd.url], root=root)
        stack.push_async_callback(two.close)
        watchers = [store.watch("/p/", after=store.revision) for store in (one, two)]

        async def write(store: EtcdStore, name: str) -> int:
            """Both create the same keys; each key has one winner."""
            won = 0
            for n in range(40):
                try:
                    await store.put(f"/p/{n:02}", name.encode(), expect=0)
                    won += 1
                except Conflict:
                    pass
            return won

        won = await asyncio.gather(write(one, "one"), write(two, "two"))
        listed = await one.range("/p/")
        for store in (one, two):
            await store.wait_for(listed.revision)

        assert 40 == sum(won)
        assert listed.items == (await two.range("/p/")).items
        told = [[event.kv for event in watcher.take()] for watcher in watchers]
        assert told[0] == told[1]
        assert listed.items == sorted(told[0], key=lambda kv: kv.key)


async def test_roots_do_not_see_each_other(etcd: EtcdServer) -> None:
    one = await EtcdStore.open([etcd.url], root=fresh_root())
    two = await EtcdStore.open([etcd.url], root=fresh_root())
    watcher = two.watch("", after=two.revision)
    kv = await one.put("/a", b"1")
    await two.wait_for(kv.mod_revision)  # must not hang although nothing comes

    assert [] == watcher.take()
    assert [] == (await two.range("")).items
    await one.close()
    await two.close()


async def test_watchers_resume_without_a_gap_when_etcd_restarts(own_etcd: EtcdServer) -> None:
    store = await EtcdStore.open([own_etcd.url], deadline=60.0)
    watcher = store.watch("/w/", after=store.revision)
    await store.put("/w/1", b"v")
    own_etcd.kill()
    reading = asyncio.create_task(store.get("/w/1"))
    await asyncio.to_thread(own_etcd.start)

    assert b"v" == (await reading).value
    async with asyncio.timeout(60):
        while True:
            try:
                await store.put("/w/2", b"v")
                break
            except Unavailable:
                await asyncio.sleep(0.05)
        seen: list[str] = []
        while "/w/2" not in seen:
            seen += [event.kv.key for event in await anext(watcher)]
    assert "/w/1" == seen[0]
    await store.close()


async def test_a_stream_that_has_gone_silent_is_replaced(own_etcd: EtcdServer) -> None:
    store = await EtcdStore.open([own_etcd.url], silence_seconds=0.6)
    watcher = store.watch("/w/", after=store.revision)
    os.kill(own_etcd.pid, signal.SIGSTOP)  # connections stay open, nothing comes
    with structlog.testing.capture_logs() as logs:
        async with asyncio.timeout(60):
            while "etcd watch broke, resuming" not in [entry["event"] for entry in logs]:
                await asyncio.sleep(0.02)
    os.kill(own_etcd.pid, signal.SIGCONT)
    async with asyncio.timeout(60):
        while True:
            try:
                await store.put("/w/1", b"v", expect=0)
                break
            except Unavailable:
                await asyncio.sleep(0.05)
            except Conflict:
                break  # it had happened
        seen = [event.kv.key for event in await anext(watcher)]

    assert ["/w/1"] == seen
    await store.close()


async def test_watchers_list_again_when_what_they_missed_was_compacted(
    own_etcd: EtcdServer,
) -> None:
    store = await EtcdStore.open([own_etcd.url])
    other = await EtcdStore.open([own_etcd.url])
    watcher = store.watch("/w/", after=store.revision)
    await store.put("/w/1", b"v")
    await anext(watcher)
    store._tasks[0].cancel()  # its stream breaks and stays away for a while
    for n in range(5):
        kv = await other.put("/w/2", b"%d" % n)
    await other.compact((await other.range("/w/")).revision)
    store._tasks[0] = asyncio.create_task(store._follow())

    with pytest.raises(Compacted):
        async with asyncio.timeout(60):
            await anext(watcher)
    fresh = store.watch("/w/", after=(await store.range("/w/")).revision)
    assert kv.mod_revision <= store.revision
    await store.put("/w/3", b"v")
    assert ["/w/3"] == [event.kv.key for event in await anext(fresh)]
    await store.close()
    await other.close()


async def test_a_store_opens_on_a_compacted_etcd(own_etcd: EtcdServer) -> None:
    store = await EtcdStore.open([own_etcd.url])
    for n in range(5):
        await store.put("/w/2", b"%d" % n)
    listed = await store.range("")
    await store.compact(listed.revision)
    await store.close()

    again = await EtcdStore.open([own_etcd.url])

    assert listed.items == (await again.range("")).items
    assert again.compacted >= listed.revision
    await again.close()


async def test_no_answer_is_unavailable_and_says_so() -> None:
    with pytest.raises(
        Unavailable, match=r"etcd at http://127\.0\.0\.1:9: Connection refused; is it running\?"
    ):
        await EtcdStore.open(["http://127.0.0.1:9"], deadline=0.2)


async def test_a_dead_endpoint_is_passed_over(etcd: EtcdServer) -> None:
    store = await EtcdStore.open(["http://127.0.0.1:9", etcd.url], root=fresh_root())
    await store.put("/a", b"1")

    assert b"1" == (await store.get("/a")).value
    await store.close()


async def test_large_values_and_many_keys_are_paged(etcd: EtcdServer) -> None:
    store = await EtcdStore.open([etcd.url], root=fresh_root())
    await asyncio.gather(*(store.put(f"/big/{n}", b"x" * 400_000) for n in range(5)))
    await asyncio.gather(*(store.put(f"/many/{n:05}", b"") for n in range(2500)))

    assert 2500 == len((await store.range("/many/")).items)
    assert 5 == len((await store.range("/big/")).items)
    assert 400 == (await store.range("/many/", limit=2100)).remaining
    await store.close()


async def test_a_watch_that_meets_something_unexpected_is_begun_again(etcd, monkeypatch):
    monkeypatch.setattr("bayplan.supervised.FIRST_PAUSE", 0.01)
    store = await EtcdStore.open([etcd.url], root=fresh_root())
    publish, failing = store._publish, [True]

    def broken(result):
        if result.events and failing:
            failing.pop()
            raise RuntimeError("nobody thought of this")
        publish(result)

    monkeypatch.setattr(store, "_publish", broken)
    watcher = store.watch("/p/", after=store.revision)
    async with asyncio.timeout(60):
        await store.put("/p/a", b"1")
        events = await anext(watcher)
    await store.close()

    assert ["/p/a"] == [event.kv.key for event in events]
    assert {"etcd watch": 1} == store.failures
