"""The store in etcd, in virtual time on an etcd of lists: when it asks, and what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from bayplan.clock import run_virtual
from bayplan.store import Closed, Compacted, Delete, Put, StoreError, Unavailable
from bayplan.store import etcd as etcd_store
from bayplan.store.errors import Full, FutureRevision, TooLarge
from bayplan.store.etcd import EtcdStore
from bayplan.store.etcd_batch import MAX_BYTES, MAX_IN_FLIGHT, MAX_OPS, MAX_REQUESTS
from bayplan.store.etcd_client import Refused
from bayplan.store.etcd_wire import WatchResult, last_place
from tests.store.conftest import open_plain
from tests.store.plain_etcd import PlainEtcd, Trouble

Play = Callable[[EtcdStore, PlainEtcd], Awaitable[None]]


def play(work: Play, **options: float) -> list[str]:
    """Do something with a store, and close it; return what it logged meanwhile."""

    async def main() -> None:
        plain = PlainEtcd()
        store = await open_plain(plain, **options)
        async with asyncio.timeout(100_000):
            await work(store, plain)
        await store.close()

    with capture_logs() as logs:
        run_virtual(main())
    return [entry["event"] for entry in logs]


@pytest.mark.parametrize(
    ("behind", "compacted"),
    [
        pytest.param(0, 0, id="the end of a transaction: as a whole"),
        pytest.param(1, 1, id="inside: it must stay readable there"),
        pytest.param(127, 1, id="its first place"),
        pytest.param(128, 1, id="the end of the one before"),
        pytest.param(129, 2, id="inside the one before"),
    ],
)
def test_only_what_is_past_as_a_whole_is_compacted_in_etcd(behind: int, compacted: int) -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        for n in range(5):
            await store.put("/a", b"%d" % n)
        newest = plain.revision
        await store.compact(last_place(newest) - behind)

        assert newest - compacted == plain.compacted
        assert last_place(newest) - behind == store.compacted <= store.revision

    play(work, compact_seconds=0)


def test_a_revision_ahead_of_etcd_is_not_compacted() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        with pytest.raises(FutureRevision):
            await store.compact(last_place(plain.revision + 1))
        plain.troubles.append(Trouble("compaction", Refused("no")))
        with pytest.raises(Refused, match="no"):
            await store.compact(last_place(plain.revision))
        assert store.compacted < store.revision

    play(work, compact_seconds=0)


def test_what_is_older_than_a_period_is_forgotten_also_after_a_failure() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        first = (await store.put("/a", b"1")).mod_revision
        await asyncio.sleep(99)
        assert 0 == plain.compacted
        await asyncio.sleep(2)
        assert 1 <= plain.compacted < first >> 7, "what was there a period ago"
        plain.troubles.append(Trouble("compaction", Unavailable("away")))
        await asyncio.sleep(100)
        assert plain.compacted < first >> 7
        await asyncio.sleep(100)
        assert plain.compacted >= first >> 7

    assert 1 == play(work, compact_seconds=100).count("compacting etcd failed")


def test_a_store_that_was_told_so_compacts_nothing_by_itself() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        await asyncio.sleep(10_000)
        assert 0 == plain.compacted

    play(work, compact_seconds=0)


def test_a_quiet_store_writes_a_little_so_that_a_dead_stream_is_told_from_a_quiet_one() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        before = plain.revision
        await asyncio.sleep(99)
        assert before + 3 == plain.revision
        plain.troubles.append(Trouble("txn", Unavailable("away")))
        await asyncio.sleep(60)
        assert before + 4 == plain.revision

    assert ["etcd does not answer"] == play(work, compact_seconds=0, silence_seconds=90)


@pytest.mark.parametrize("backlog", [1, 3, 50])
def test_a_store_learns_the_recent_past(monkeypatch: pytest.MonkeyPatch, backlog: int) -> None:
    monkeypatch.setattr(etcd_store, "BACKLOG", backlog)

    async def main() -> None:
        plain = PlainEtcd()
        one = await open_plain(plain, compact_seconds=0)
        written = [await one.put("/a", b"%d" % n) for n in range(10)]
        two = await open_plain(plain, compact_seconds=0)
        newest = plain.revision
        known = last_place(max(0, newest - backlog - 1))

        assert known == two.compacted
        events = two.watch("", after=known).take()
        assert [kv for kv in written if kv.mod_revision > known] == [e.kv for e in events]
        if known > last_place(0):
            with pytest.raises(Compacted):
                two.watch("", after=known - 1)
        await one.close()
        await two.close()

    run_virtual(main())


def test_a_store_that_opens_on_a_compacted_etcd_begins_with_what_is_there() -> None:
    async def main() -> None:
        plain = PlainEtcd()
        one = await open_plain(plain, compact_seconds=0)
        kept = [await one.put("/a", b"%d" % n) for n in range(5)][-1]
        plain.compact(plain.revision - 1)
        two = await open_plain(plain, compact_seconds=0)

        assert last_place(plain.compacted) == two.compacted
        assert [kept] == [event.kv for event in two.watch("", after=two.compacted).take()]
        await one.close()
        await two.close()

    run_virtual(main())


def test_what_was_compacted_while_the_stream_was_broken_ends_all_who_watch() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        await store.put("/a", b"1")
        watcher = store.watch("/", after=store.revision)
        waiting = asyncio.ensure_future(store.wait_for(last_place(plain.revision + 3)))
        plain.break_streams(Unavailable("it broke"))
        await asyncio.sleep(0)
        for _ in range(3):
            await store.put("/a", b"2")
        plain.compact(plain.revision)

        with pytest.raises(Compacted):
            await anext(watcher)
        await waiting
        fresh = store.watch("/", after=store.revision)
        again = await store.put("/a", b"3")
        assert [again] == [event.kv for event in await anext(fresh)]

    told = "etcd compacted what was not read yet; watchers must list again"
    assert ["etcd watch broke, resuming", told] == play(work, compact_seconds=0)


def test_a_watch_that_etcd_ends_for_another_reason_is_resumed_without_a_gap() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        watcher = store.watch("/", after=store.revision)
        with pytest.raises(Unavailable, match=r"^watching etcd: no longer$"):
            await store._canceled(WatchResult(canceled=True, cancel_reason="no longer"))
        with pytest.raises(Unavailable, match=r"^watching etcd: canceled$"):
            await store._canceled(WatchResult(canceled=True))
        plain.break_streams(Unavailable("it broke"))
        await asyncio.sleep(0)
        put = await store.put("/a", b"1")

        assert [put] == [event.kv for event in await anext(watcher)]

    assert ["etcd watch broke, resuming"] == play(work, compact_seconds=0)


def test_a_stream_that_cannot_be_opened_is_tried_ever_more_seldom() -> None:
    """And at once as before, when one had been there meanwhile."""
    moments: list[float] = []

    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        watch = store._client.watch
        loop = asyncio.get_running_loop()

        async def away(body: dict[str, object]):  # type: ignore[no-untyped-def]
            moments.append(loop.time())
            if len(moments) == 8:
                store._client.watch = watch  # type: ignore[method-assign]
            raise Unavailable("away")
            yield

        began = loop.time()
        for _ in range(2):
            moments.clear()
            store._client.watch = away  # type: ignore[method-assign]
            plain.break_streams(Unavailable("it broke"))
            await asyncio.sleep(20)
            await store.wait_for(last_place(plain.revision))
            assert [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0] == [
                round(now - before, 3)
                for before, now in zip([began, *moments], moments, strict=False)
            ]
            began = loop.time()

    play(work, compact_seconds=0, silence_seconds=10_000)


def test_who_waits_for_a_revision_of_others_makes_some_news() -> None:
    """Revisions outside our root are not told; so etcd is asked again after a moment."""

    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        plain.revision += 5
        before = asyncio.get_running_loop().time()
        await store.wait_for(last_place(plain.revision))

        assert 0.2 == pytest.approx(asyncio.get_running_loop().time() - before)

    play(work, compact_seconds=0)


def test_reads_of_what_etcd_has_compacted_or_not_reached_say_so() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        first = await store.put("/a", b"1")
        for _ in range(3):
            await store.put("/a", b"2")
        await store.wait_for(last_place(plain.revision))
        plain.compact(plain.revision)  # by another server, which this one has not heard of
        at = first.mod_revision | 127
        for read in (store.get("/a", revision=at), store.range("/", revision=at)):
            with pytest.raises(Compacted) as gone:
                await read
            assert (at, at) == (gone.value.asked, gone.value.compacted)
        ahead = last_place(plain.revision + 1)
        with pytest.raises(FutureRevision) as early:
            await store.get("/a", revision=ahead)
        assert (ahead, store.revision) == (early.value.asked, early.value.current)
        plain.troubles.append(Trouble("range", Refused("no")))
        with pytest.raises(Refused, match="no"):
            await store.get("/a")

    play(work, compact_seconds=0)


def test_a_store_works_only_as_long_as_etcd_takes_writes() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        await store.check()
        plain.troubles.append(Trouble("txn", Full("no room")))
        with pytest.raises(Full, match="no room"):
            await store.check()

    play(work, compact_seconds=0)


def test_a_closed_store_reads_nothing() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        await store.close()
        for ask in (store.get("/a"), store.range("/"), store.transact(()), store.check()):
            with pytest.raises(Closed, match="the store is closed"):
                await ask

    play(work, compact_seconds=0)


def test_a_store_that_cannot_open_closes_what_it_had() -> None:
    plain = PlainEtcd()
    plain.troubles.append(Trouble("txn", Unavailable("away")))
    closed = []

    class Client:
        def __init__(self, *given: object, **more: object) -> None:
            self.call = plain.client().call

        async def close(self) -> None:
            closed.append(True)

    async def main() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(etcd_store, "EtcdClient", Client)
            with pytest.raises(Unavailable):
                await EtcdStore.open(["plain"])

    run_virtual(main())

    assert [True] == closed


def test_accepted_writes_are_finished_before_a_store_is_closed() -> None:
    """Those on the wire, and those that wait for it."""

    async def main() -> None:
        plain = PlainEtcd()
        store = await open_plain(plain)
        writes = [asyncio.ensure_future(store.put("/a", b"%d" % n)) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()

        assert 0 == asyncio.get_running_loop().time(), "nothing else is waited for"
        assert all(write.done() for write in writes)
        assert 20 == len({write.result().mod_revision for write in writes})

    run_virtual(main())


@pytest.mark.parametrize(
    ("transactions", "on_the_wire"),
    [
        pytest.param([[Put(f"/{n}", b"")] for n in range(MAX_REQUESTS)], 1, id="as many as fit"),
        pytest.param([[Put(f"/{n}", b"")] for n in range(MAX_REQUESTS + 1)], 2, id="one more"),
        pytest.param([[Put(f"/{n}", b"x" * (MAX_BYTES // 2))] for n in range(2)], 1, id="bytes"),
        pytest.param(
            [[Put(f"/{n}", b"x" * (MAX_BYTES // 2 + n))] for n in range(2)], 2, id="a byte more"
        ),
        pytest.param(
            [[Put("/a", b"x" * MAX_BYTES + b"x")], [Put("/b", b"")]], 2, id="one large alone"
        ),
        pytest.param([[Delete("/old/0")], [Delete("/old/1")], [Put("/a", b"")]], 2, id="deletes"),
        pytest.param([[Put("/a", b"1")], [Put("/a", b"2")], [Put("/b", b"")]], 2, id="one key"),
        pytest.param(
            [[Put(f"/{n}/{m}", b"") for m in range(MAX_OPS)] for n in range(MAX_REQUESTS)],
            1,
            id="large transactions",
        ),
        pytest.param(
            [[Put(f"/{n}/{m}", b"", 0) for m in range(MAX_OPS)] for n in range(MAX_REQUESTS)],
            1,
            id="large transactions that create",
        ),
    ],
)
def test_writes_of_one_moment_go_together_as_far_as_they_can(
    transactions: list[list[Put | Delete]], on_the_wire: int
) -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        for n in range(2):
            await store.put(f"/old/{n}", b"x")
        plain.paths.clear()
        done = await asyncio.gather(*(store.transact(ops) for ops in transactions))

        assert on_the_wire == plain.paths.count("/v3/kv/txn")
        assert len(transactions) == len({kvs[0].mod_revision for kvs in done})

    play(work, compact_seconds=0)


def test_a_large_transaction_at_known_revisions_is_taken_by_etcd() -> None:
    """Each operation costs three comparisons, and all writes of the moment count."""

    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        old = await store.transact([Put(f"/{n}", b"1") for n in range(MAX_OPS)])
        ops = [Put(kv.key, b"2", kv.mod_revision) for kv in old]
        others = (store.put(f"/other/{n}", b"") for n in range(2 * MAX_REQUESTS))
        done, *_ = await asyncio.gather(store.transact(ops), *others)

        assert 1 == len({kv.mod_revision for kv in done})
        assert {kv.create_revision for kv in old} == {kv.create_revision for kv in done}
        with pytest.raises(ValueError, match="etcd takes 20"):
            await store.transact([Put(f"/{n}", b"") for n in range(MAX_OPS + 1)])

    play(work, compact_seconds=0)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Unavailable("who knows"), Unavailable, "who knows"),
        (Full("no room"), Full, "no room"),
        (TooLarge("too much"), TooLarge, "too much"),
        (Refused("no"), StoreError, "writing to etcd: no"),
        (KeyError("odd"), StoreError, "writing to etcd: 'odd'"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Exception) else "",
)
def test_each_who_wrote_hears_of_a_failure_in_an_error_of_its_own(
    error: Exception, kind: type[Exception], text: str
) -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        plain.troubles.append(Trouble("txn", error))
        told = await asyncio.gather(
            *(store.put(f"/{n}", b"") for n in range(3)), return_exceptions=True
        )

        assert [(kind, text)] * 3 == [(type(one), str(one)) for one in told]
        assert 3 == len({id(one) for one in told} - {id(error)})
        assert [] == (await store.range("")).items
        await store.put("/after", b"")

    play(work, compact_seconds=0)


def test_who_leaves_before_the_answer_takes_nobody_along() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        for broken in (False, True):
            if broken:
                plain.troubles.append(Trouble("txn", Unavailable("away"), done=True))
            writes = [asyncio.ensure_future(store.put(f"/{n}", b"")) for n in range(3)]
            for _ in range(2):
                await asyncio.sleep(0)
            writes[0].cancel()
            told = await asyncio.gather(*writes, return_exceptions=True)

            assert isinstance(told[0], asyncio.CancelledError)
            assert [broken] * 2 == [isinstance(one, Unavailable) for one in told[1:]]
            assert 3 == len((await store.range("")).items), "it was done all the same"

    play(work, compact_seconds=0)


def test_all_but_writes_may_be_sent_twice() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        await store.check()
        await store.get("/a")
        await store.range("/")
        await store.compact(store.revision)
        assert (set(), 3) == (plain.unsafe, len(set(plain.paths)))
        await store.put("/a", b"")
        assert {"/v3/kv/txn"} == plain.unsafe

    play(work, compact_seconds=0)


def test_at_most_so_many_transactions_are_on_the_wire() -> None:
    async def work(store: EtcdStore, plain: PlainEtcd) -> None:
        writes = [asyncio.ensure_future(store.put("/a", b"")) for _ in range(2 * MAX_IN_FLIGHT)]
        most = 0
        while not all(write.done() for write in writes):
            await asyncio.sleep(0)
            most = max(most, len(store._batcher._tasks))

        assert MAX_IN_FLIGHT == most

    play(work, compact_seconds=0)


def test_the_root_may_end_in_a_slash() -> None:
    async def main() -> None:
        plain = PlainEtcd()
        one = await open_plain(plain, root="/r/")
        put = await one.put("/a", b"1")
        two = await open_plain(plain, root="/r")
        with contextlib.closing(two.watch("", after=two.compacted)) as watcher:
            assert [put] == [event.kv for event in watcher.take()]
        assert put == await two.get("/a")
        await one.close()
        await two.close()

    run_virtual(main())
