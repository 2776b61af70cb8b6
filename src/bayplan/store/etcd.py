"""The store that several API servers share: etcd version 3 through its JSON gateway.

Reads go to etcd and are linearizable. Writes of many callers gather while others are on the
wire and travel as one transaction of independent nested ones (see etcd_wire). One watch of all
that is under the root feeds the same History that the other stores use, so a thousand watchers
cost etcd one stream. When the stream breaks it is resumed after the last event; when etcd has
compacted that meanwhile, every watcher is told to list again.

A small key under the root is written to learn how far the stream has come (`_touch`): the gateway
has no way to ask. So keys must not start with a control character. It does not use leases, and
does not read what kube-apiserver wrote.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial

import structlog

from bayplan.store.errors import Closed, Compacted, FutureRevision, StoreError, Unavailable
from bayplan.store.etcd_batch import Batcher
from bayplan.store.etcd_client import FIRST_PAUSE, LAST_PAUSE, EtcdClient, Refused
from bayplan.store.etcd_wire import (
    LAST_PLACE,
    PLACE_BITS,
    Header,
    Json,
    Keys,
    RangeAnswer,
    TxnAnswer,
    WatchResult,
    last_place,
)
from bayplan.store.history import MAX_BYTES, MAX_EVENTS, MAX_LAG, History, HistoryWatcher
from bayplan.store.protocol import Delete, KeyValue, Op, Put, RangeResult, Store
from bayplan.store.sortedkeys import prefix_end
from bayplan.supervised import supervised

log = structlog.get_logger(__name__)

SYNC_KEY = "\x01sync"  # sorts before all other keys
FIRST_KEY = "\x02"
PAGE = 2000  # keys in one answer
BACKLOG = 5000  # revisions of the past to learn at the start
COMPACT_SECONDS = 300.0
SILENCE_SECONDS = 75.0  # a watch stream that says nothing for so long is taken for dead
IMPATIENCE = 0.2  # seconds without news before `wait_for` makes some


class EtcdStore:
    """A store in an etcd cluster; acknowledged means that a majority has it on disk."""

    def __init__(self, client: EtcdClient, root: str, history: History) -> None:
        self._client = client
        self._keys = Keys(root.rstrip("/") + "/")
        self._history = history
        self._batcher = Batcher(client, self._keys)
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self.failures = history.failures

    @classmethod
    async def open(
        cls,
        endpoints: Sequence[str],
        *,
        root: str = "/bayplan",
        tls: ssl.SSLContext | None = None,
        deadline: float = 5.0,
        compact_seconds: float = COMPACT_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_lag: int = MAX_LAG,
    ) -> EtcdStore:
        """Connect, and learn the recent past. Raises `Unavailable` when etcd does not answer."""
        client = EtcdClient(endpoints, tls=tls, deadline=deadline, silence=silence_seconds)
        history = History(revision=0, max_events=max_events, max_bytes=max_bytes, max_lag=max_lag)
        store = cls(client, root, history)
        try:
            await store._start(compact_seconds, silence_seconds)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def revision(self) -> int:
        return self._history.revision

    @property
    def compacted(self) -> int:
        return self._history.compacted

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        self._check_past(revision)
        if _within(revision):
            found = await self._range_within(key, key + "\0", revision)
            return found[0] if found else None
        answer = await self._read({"key": self._keys.encode(key)}, revision)
        return self._keys.decode(answer.kvs[0]) if answer.kvs else None

    async def range(
        self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0
    ) -> RangeResult:
        low, high = max(prefix, FIRST_KEY), prefix_end(prefix) or "\U0010ffff"
        if start_after >= low:
            low = start_after + "\0"
        self._check_past(revision)
        if _within(revision):
            found = await self._range_within(low, high, revision)
            page = found[:limit] if limit else found
            return RangeResult(page, revision, len(found) - len(page))
        return await self._range(low, high, limit, revision)

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> KeyValue:
        return (await self.transact((Put(key, value, expect),)))[0]

    async def delete(self, key: str, *, expect: int | None = None) -> KeyValue:
        return (await self.transact((Delete(key, expect),)))[0]

    async def transact(self, ops: Sequence[Op]) -> list[KeyValue]:
        if self._closed:
            raise Closed
        if not ops:
            return []
        return await self._batcher.submit(ops)

    def watch(self, prefix: str, *, after: int) -> HistoryWatcher:
        if self._closed:
            raise Closed
        return self._history.watch(prefix, after=after)

    async def compact(self, revision: int) -> None:
        if self._closed:
            raise Closed
        if revision <= self._history.compacted:
            return
        etcd_revision = (revision + 1 >> PLACE_BITS) - 1  # the last one that is past as a whole
        try:
            await self._client.call(
                "/v3/kv/compaction", {"revision": str(etcd_revision)}, Header, safe=True
            )
        except Refused as error:
            if "future" in str(error):
                raise FutureRevision(asked=revision, current=self.revision) from error
            if "compacted" not in str(error):
                raise
        await self.wait_for(revision)
        self._history.compact(revision)

    async def wait_for(self, revision: int) -> None:
        while self._history.revision < revision:
            try:
                async with asyncio.timeout(IMPATIENCE):
                    await self._history.wait_for(revision)
            except TimeoutError:
                # Others may use this etcd: revisions outside our root are no news to us.
                await self._touch()

    async def check(self) -> None:
        if self._closed:
            raise Closed
        await self._touch()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._batcher.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._history.close()
        await self._client.close()

    async def _start(self, compact_seconds: float, silence_seconds: float) -> None:
        newest = await self._touch()
        first = max(1, newest - BACKLOG)
        self._history.compacted = self._history.revision = last_place(first - 1)
        self._begin("etcd watch", self._follow)
        await self.wait_for(last_place(newest))
        self._begin("etcd heartbeat", partial(self._beat, silence_seconds / 3))
        if compact_seconds:
            self._begin("etcd compaction", partial(self._compact_forever, compact_seconds))

    def _begin(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        self._tasks.append(supervised(name, work, self.failures))

    async def _touch(self) -> int:
        """Write the sync key; returns etcd's revision."""
        body: Json = {"success": [{"requestPut": {"key": self._keys.encode(SYNC_KEY)}}]}
        answer = await self._client.call("/v3/kv/txn", body, TxnAnswer, safe=True)
        return answer.header.revision

    def _check_past(self, revision: int) -> None:
        if revision and revision < self.compacted:
            raise Compacted(asked=revision, compacted=self.compacted)

    async def _range(self, low: str, high: str, limit: int, revision: int) -> RangeResult:
        items: list[KeyValue] = []
        while low < high:
            body: Json = {"key": self._keys.encode(low), "rangeEnd": self._keys.encode(high)}
            body["limit"] = min(limit - len(items), PAGE) if limit else PAGE
            answer = await self._read(body, revision)
            revision = revision or last_place(answer.header.revision)
            items += map(self._keys.decode, answer.kvs)
            remaining = answer.count - len(answer.kvs)
            if not remaining or len(items) == limit:
                return RangeResult(items, revision, remaining)
            low = items[-1].key + "\0"
        return RangeResult(items, revision or self.revision)

    async def _range_within(self, low: str, high: str, revision: int) -> list[KeyValue]:
        """Read inside an etcd transaction: the state before it, and its first part."""
        before = last_place((revision >> PLACE_BITS) - 1)
        then = await self._range(low, high, 0, before)
        after = await self._range(low, high, 0, revision | LAST_PLACE)
        state = {kv.key: kv for kv in then.items}
        state |= {kv.key: kv for kv in after.items if before < kv.mod_revision <= revision}
        return [state[key] for key in sorted(state)]

    async def _read(self, body: Json, revision: int) -> RangeAnswer:
        if self._closed:
            raise Closed
        if revision:
            body["revision"] = str(revision >> PLACE_BITS)
        try:
            return await self._client.call("/v3/kv/range", body, RangeAnswer, safe=True)
        except Refused as error:
            if "compacted" in str(error):
                raise Compacted(asked=revision, compacted=max(revision, self.compacted)) from error
            if "future" in str(error):
                raise FutureRevision(asked=revision, current=self.revision) from error
            raise

    async def _follow(self) -> None:
        """Keep one watch of everything under the root open, for as long as the store is."""
        pause = FIRST_PAUSE
        while True:
            try:
                async with aclosing(self._client.watch(self._watch_request())) as results:
                    async for result in results:
                        pause = FIRST_PAUSE
                        if result.canceled:
                            await self._canceled(result)
                            break
                        self._publish(result)
            except StoreError as error:
                log.warning("etcd watch broke, resuming", err=str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)

    def _watch_request(self) -> Json:
        return {
            "key": self._keys.encode(""),
            "rangeEnd": self._keys.encode("\U0010ffff"),
            "startRevision": str((self._history.revision >> PLACE_BITS) + 1),
            "prevKv": True,
        }

    def _publish(self, result: WatchResult) -> None:
        if not result.events:
            return
        events = [self._keys.decode_event(event) for event in result.events]
        # Only whole etcd revisions arrive, so the place after the last event's is final.
        final = events[-1].kv.mod_revision | LAST_PLACE
        self._history.publish(final, [event for event in events if event.kv.key != SYNC_KEY])

    async def _canceled(self, result: WatchResult) -> None:
        if not result.compact_revision:
            raise Unavailable(f"watching etcd: {result.cancel_reason or 'canceled'}")
        if not self._history.watchers() and not len(self._history):
            # Nobody has seen anything yet: begin with what etcd still has.
            begin = result.compact_revision
        else:
            begin = await self._touch()
            log.warning("etcd compacted what was not read yet; watchers must list again")
        self._history.rebase(last_place(begin))

    async def _beat(self, seconds: float) -> None:
        """Write a little at times, so that a stream without news is known to be broken."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._touch()
            except StoreError as error:
                log.warning("etcd does not answer", err=str(error))

    async def _compact_forever(self, seconds: float) -> None:
        """Forget what is older than one period, as kube-apiserver does."""
        while True:
            horizon = self._history.revision
            await asyncio.sleep(seconds)
            try:
                await self.compact(horizon)
            except StoreError as error:
                log.warning("compacting etcd failed", err=str(error))


def _within(revision: int) -> bool:
    """Say whether a revision is inside an etcd transaction, not at its end."""
    return revision != 0 and revision & LAST_PLACE != LAST_PLACE


def _proof(store: EtcdStore) -> Store:
    """Let mypy prove that the protocol is met."""
    return store
