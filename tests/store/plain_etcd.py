"""What etcd's gateway does with the requests of our store, in plain lists and dictionaries.

It stands where `EtcdClient` does and takes and gives JSON as that does. etcd's own limits are kept:
operations of a transaction, a key once in all its parts, bytes of a request. A test tells it what
goes wrong: `troubles` are raised one after another, before what was asked happens or after it.
`tests/store/test_contract.py` asks of it what it asks of a real etcd.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from bayplan.store.errors import StoreError, TooLarge
from bayplan.store.etcd_client import Refused
from bayplan.store.etcd_wire import Json, WatchResult

T = TypeVar("T")
MAX_TXN_OPS = 128
MAX_REQUEST_BYTES = 3 << 19
COMPACTED = "etcdserver: mvcc: required revision has been compacted"
FUTURE = "etcdserver: mvcc: required revision is a future revision"


class Version(NamedTuple):
    """A key's value since a revision; None: it was deleted."""

    revision: int
    value: bytes | None
    created: int


@dataclass
class Trouble:
    """What goes wrong with a request to `path` after so many: before it is done, or when it is."""

    path: str
    error: Exception
    done: bool = False
    after: int = 0


class PlainEtcd:
    """All versions of all keys."""

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0
        self.past: dict[bytes, list[Version]] = {}
        self.log: list[tuple[int, bytes]] = []
        self.changed = asyncio.Event()
        self.paths: list[str] = []  # of all calls
        self.unsafe: set[str] = set()  # those that must not be sent twice
        self.troubles: deque[Trouble] = deque()
        self.streams: set[asyncio.Future[None]] = set()
        self.clients = 0

    def client(self, endpoints: object = (), **more: object) -> PlainClient:
        self.clients += 1
        return PlainClient(self)

    def break_streams(self, error: StoreError) -> None:
        for stream in self.streams:
            if not stream.done():
                stream.set_exception(error)

    def trouble(self, path: str) -> Trouble | None:
        """Return what goes wrong with a request that has come."""
        if not self.troubles or not path.endswith(self.troubles[0].path):
            return None
        self.troubles[0].after -= 1
        return self.troubles.popleft() if self.troubles[0].after < 0 else None

    def compact(self, revision: int) -> None:
        if revision <= self.compacted:
            raise Refused(COMPACTED)
        if revision > self.revision:
            raise Refused(FUTURE)
        self.compacted = revision

    def at(self, key: bytes, revision: int) -> Version | None:
        found = [v for v in self.past.get(key, ()) if v.revision <= revision]
        return found[-1] if found and found[-1].value is not None else None

    def range(self, request: Json, newest: int) -> Json:
        low, high = b64decode(request["key"]), b64decode(request.get("rangeEnd", ""))
        revision = int(request.get("revision", 0)) or newest
        if revision < self.compacted:
            raise Refused(COMPACTED)
        if revision > newest:
            raise Refused(FUTURE)
        keys = sorted(key for key in self.past if key == low or (low <= key < high))
        kvs = [kv(key, found) for key in keys if (found := self.at(key, revision))]
        if request.get("keysOnly"):
            kvs = [{name: field for name, field in one.items() if name != "value"} for one in kvs]
        limit = int(request.get("limit", 0))
        return self._said(kvs=kvs[:limit] if limit else kvs, count=str(len(kvs)))

    def transact(self, request: Json) -> Json:
        _check_size(request, MAX_TXN_OPS)
        writes = [body for part in _parts(request) for body in _writes(part)]
        if len({body["key"] for body in writes}) < len(writes):
            raise Refused("etcdserver: duplicate key given in txn request")
        if sum(len(b64decode(body.get("value", ""))) for body in writes) > MAX_REQUEST_BYTES:
            raise TooLarge("etcdserver: request is too large")
        chosen = {id(part): self._chosen(part) for part in _parts(request)}
        before = len(self.log)
        answer = self._apply(request, chosen, self.revision + 1)
        if len(self.log) > before:
            self.revision += 1
            self.changed.set()
            self.changed = asyncio.Event()
        answer["header"] = {"revision": str(self.revision)}
        return answer

    def events(self, low: bytes, high: bytes, first: int) -> list[tuple[int, list[Json]]]:
        """Return what changed since a revision, each revision by itself."""
        told: dict[int, list[Json]] = {}
        for revision, key in self.log:
            if revision < first or not low <= key < high:
                continue
            version = next(v for v in self.past[key] if v.revision == revision)
            event: Json = {"kv": kv(key, version)}
            if version.value is None:
                event = {"type": "DELETE", "kv": {"key": text(key), "mod_revision": str(revision)}}
            if revision > self.compacted and (prev := self.at(key, revision - 1)):
                event["prev_kv"] = kv(key, prev)
            told.setdefault(revision, []).append(event)
        return sorted(told.items())

    def _chosen(self, part: Json) -> bool:
        return all(self._holds(one) for one in part.get("compare", ()))

    def _holds(self, compare: Json) -> bool:
        found = self.at(b64decode(compare["key"]), self.revision)
        is_: Any
        if compare["target"] == "MOD":
            is_, wanted = (found.revision if found else 0), int(compare["modRevision"])
        elif found is None:
            return False
        else:
            is_, wanted = found.value, b64decode(compare["value"])
        return bool(
            {"EQUAL": is_ == wanted, "GREATER": is_ > wanted, "LESS": is_ < wanted}[
                compare["result"]
            ]
        )

    def _apply(self, request: Json, chosen: dict[int, bool], revision: int) -> Json:
        succeeded = chosen[id(request)]
        answers: list[Json] = []
        for op in request.get("success" if succeeded else "failure", ()):
            ((kind, body),) = op.items()
            if kind == "requestTxn":
                answers.append({"response_txn": self._apply(body, chosen, revision)})
            elif kind == "requestRange":
                answers.append({"response_range": self.range(body, revision)})
            elif kind == "requestPut":
                self._put(b64decode(body["key"]), b64decode(body.get("value", "")), revision)
                answers.append({"response_put": {}})
            else:
                answers.append({"response_delete_range": self._delete(body, revision)})
        return self._said(succeeded=succeeded, responses=answers)

    def _put(self, key: bytes, value: bytes, revision: int) -> None:
        before = self.at(key, revision)
        created = before.created if before else revision
        self._write(key, Version(revision, value, created))

    def _delete(self, body: Json, revision: int) -> Json:
        key = b64decode(body["key"])
        before = self.at(key, revision)
        if before is None:
            return {}
        self._write(key, Version(revision, None, 0))
        return {"prev_kvs": [kv(key, before)]} if body.get("prevKv") else {}

    def _write(self, key: bytes, version: Version) -> None:
        self.past.setdefault(key, []).append(version)
        self.log.append((version.revision, key))

    def _said(self, **fields: object) -> Json:
        return {"header": {"revision": str(self.revision)}, **fields}


class PlainClient:
    """Asks a plain etcd as `EtcdClient` asks a real one."""

    def __init__(self, server: PlainEtcd) -> None:
        self.server = server
        self.closed = False

    async def call(self, path: str, body: Json, answer: type[T], *, safe: bool) -> T:
        server = self.server
        server.paths.append(path)
        server.unsafe |= set() if safe else {path}
        trouble = server.trouble(path)
        await asyncio.sleep(0)
        if trouble is not None and not trouble.done:
            raise trouble.error
        said = self._do(path, json.loads(json.dumps(body)))
        await asyncio.sleep(0)
        if trouble is not None:
            raise trouble.error
        return msgspec.json.decode(json.dumps(said), type=answer, strict=False)

    def _do(self, path: str, body: Json) -> Json:
        if path == "/v3/kv/range":
            return self.server.range(body, self.server.revision)
        if path == "/v3/kv/txn":
            return self.server.transact(body)
        assert path == "/v3/kv/compaction"
        self.server.compact(int(body["revision"]))
        return {"header": {"revision": str(self.server.revision)}}

    async def watch(self, body: Json) -> AsyncIterator[WatchResult]:
        server = self.server
        low, high = b64decode(body["key"]), b64decode(body["rangeEnd"])
        next_ = int(body["startRevision"])
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        server.streams.add(broken)
        try:
            yield WatchResult(created=True)
            while True:
                if next_ < server.compacted:
                    yield WatchResult(canceled=True, compact_revision=server.compacted)
                    return
                for revision, events in server.events(low, high, next_):
                    said = json.dumps({"events": events})
                    yield msgspec.json.decode(said, type=WatchResult, strict=False)
                    next_ = revision + 1
                waiting = asyncio.ensure_future(server.changed.wait())
                await asyncio.wait([waiting, broken], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if broken.done():
                    broken.result()
        finally:
            broken.cancel()
            server.streams.discard(broken)

    async def close(self) -> None:
        self.closed = True


def text(data: bytes) -> str:
    return b64encode(data).decode()


def kv(key: bytes, version: Version) -> Json:
    return {
        "key": text(key),
        "value": text(version.value or b""),
        "create_revision": str(version.created),
        "mod_revision": str(version.revision),
    }


def _parts(request: Json) -> list[Json]:
    """Return a transaction and those in it."""
    ops = [*request.get("success", ()), *request.get("failure", ())]
    inner = [op["requestTxn"] for op in ops if "requestTxn" in op]
    return [request, *(part for one in inner for part in _parts(one))]


def _check_size(request: Json, left: int) -> None:
    most = max(len(request.get(name, ())) for name in ("compare", "success", "failure"))
    if most > left:
        raise Refused("etcdserver: too many operations in txn request")
    for part in _parts(request)[1:]:
        _check_size(part, left - most)


def _writes(part: Json) -> list[Json]:
    kinds = ("requestPut", "requestDeleteRange")
    return [body for op in part.get("success", ()) for kind, body in op.items() if kind in kinds]
