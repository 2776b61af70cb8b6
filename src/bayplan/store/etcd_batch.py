"""Gathers the writes of many callers into few etcd transactions.

Requests that come while `MAX_IN_FLIGHT` transactions are on the wire wait and then go together.
Each is a nested transaction with its own comparisons, so one that fails does not touch the
others; for that no two of a batch may name the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bayplan.store.errors import Full, StoreError, TooLarge, Unavailable
from bayplan.store.etcd_client import EtcdClient
from bayplan.store.etcd_wire import LAST_PLACE, Keys, TxnAnswer, check_ops, has_delete
from bayplan.store.protocol import KeyValue, Op, Put

MAX_IN_FLIGHT = 4
MAX_REQUESTS = 64  # etcd's --max-txn-ops is 128 for the outer and the inner level together
MAX_OPS = 20  # of one request: three comparisons each fit into the inner level's share
MAX_BYTES = 900_000  # of values; etcd refuses requests over 1.5 MiB


class _Request:
    __slots__ = ("deletes", "done", "keys", "ops", "place", "size")

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.keys = {op.key for op in ops}
        self.deletes = has_delete(ops)
        self.size = sum(len(op.value) for op in ops if isinstance(op, Put))
        self.place = LAST_PLACE
        self.done: asyncio.Future[list[KeyValue]] = asyncio.get_running_loop().create_future()


class Batcher:
    """The write side of the etcd store."""

    def __init__(self, client: EtcdClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._waiting: list[_Request] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def submit(self, ops: Sequence[Op]) -> list[KeyValue]:
        """Do one transaction; returns and raises as `Store.transact` says."""
        check_ops(ops, MAX_OPS)
        request = _Request(ops)
        self._waiting.append(request)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)
        return await request.done

    async def drain(self) -> None:
        """Return when nothing is waiting or on the wire."""
        while self._waiting or self._tasks:
            await asyncio.sleep(0)
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _pump(self) -> None:
        self._scheduled = False
        while self._waiting and len(self._tasks) < MAX_IN_FLIGHT:
            task = asyncio.create_task(self._send(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._pump()

    def _take(self) -> list[_Request]:
        """Choose requests that can go together; what cannot stays in front of the line."""
        batch: list[_Request] = []
        left: list[_Request] = []
        keys: set[str] = set()
        size, deletes = 0, False
        for index, request in enumerate(self._waiting):
            if len(batch) == MAX_REQUESTS:
                left += self._waiting[index:]
                break
            fits = not batch or size + request.size <= MAX_BYTES
            if not fits or (deletes and request.deletes) or not keys.isdisjoint(request.keys):
                left.append(request)
                continue
            keys |= request.keys
            size += request.size
            deletes = deletes or request.deletes
            batch.append(request)
        self._waiting = left
        batch.sort(key=lambda request: request.deletes)
        for place, request in enumerate(batch):
            request.place = LAST_PLACE if request.deletes else place
        return batch

    async def _send(self, batch: list[_Request]) -> None:
        body = {"success": [self._keys.request(r.ops, r.place) for r in batch]}
        try:
            answer = await self._client.call("/v3/kv/txn", body, TxnAnswer, safe=False)
            for request, response in zip(batch, answer.responses, strict=True):
                assert response.response_txn is not None
                self._answer(request, response.response_txn, answer.header.revision)
        except BaseException as error:  # whatever it is, no caller may wait for ever
            for request in batch:
                _fail(request, _copy(error))
            if not isinstance(error, Exception):
                raise

    def _answer(self, request: _Request, answer: TxnAnswer, revision: int) -> None:
        try:
            kvs = self._keys.results(request.ops, answer, revision, request.place)
        except StoreError as error:
            _fail(request, error)
        else:
            if not request.done.done():
                request.done.set_result(kvs)


def _copy(error: BaseException) -> BaseException:
    """Give each caller an exception of its own: raising one changes it."""
    if isinstance(error, Unavailable | Full | TooLarge):
        return type(error)(str(error))
    return StoreError(f"writing to etcd: {error}")


def _fail(request: _Request, error: BaseException) -> None:
    if not request.done.done():
        request.done.set_exception(error)
