"""What travels between the store and etcd's JSON gateway, and how revisions are told apart.

Many independent writes go in one etcd transaction, which has one revision. Objects that shared
one would break clients that resume a watch between them, so each write in a transaction gets
a place of its own: our revision is `etcd's revision << 7 | place`, and the place travels as the
first byte of the value, before one that names the format. etcd keeps no value for a delete, so a
transaction holds at most one request with deletes, at the last place, which readers then know
without being told.

A key's `create_revision` is only known to the transaction, not to the place in it.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from bayplan.store.errors import Conflict, NotFound
from bayplan.store.protocol import Delete, Event, KeyValue, Op, Put

PLACE_BITS = 7
LAST_PLACE = (1 << PLACE_BITS) - 1
FORMAT = 1  # the second byte of a value
HEADER = 2

Json = dict[str, Any]


class EtcdKv(msgspec.Struct, gc=False):
    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class Header(msgspec.Struct):
    revision: int = 0


class RangeAnswer(msgspec.Struct):
    header: Header = msgspec.field(default_factory=Header)
    kvs: list[EtcdKv] = []
    count: int = 0


class DeleteAnswer(msgspec.Struct):
    prev_kvs: list[EtcdKv] = []


class OpAnswer(msgspec.Struct):
    response_range: RangeAnswer | None = None
    response_put: Json | None = None
    response_delete_range: DeleteAnswer | None = None
    response_txn: "TxnAnswer | None" = None


class TxnAnswer(msgspec.Struct):
    header: Header = msgspec.field(default_factory=Header)
    succeeded: bool = False
    responses: list[OpAnswer] = []


class EtcdEvent(msgspec.Struct):
    kv: EtcdKv
    type: str = "PUT"
    prev_kv: EtcdKv | None = None


class WatchResult(msgspec.Struct):
    header: Header = msgspec.field(default_factory=Header)
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    events: list[EtcdEvent] = []


class WatchAnswer(msgspec.Struct):
    result: WatchResult | None = None
    error: Json | None = None


class ErrorAnswer(msgspec.Struct):
    message: str = ""
    error: str | Json = ""


def last_place(etcd_revision: int) -> int:
    """Return our revision at which all of an etcd revision has happened."""
    return etcd_revision << PLACE_BITS | LAST_PLACE


class Keys:
    """Turns our keys and values into etcd's, all under one root, and back."""

    def __init__(self, root: str) -> None:
        self._root = root.encode()

    def encode(self, key: str) -> str:
        return b64encode(self._root + key.encode()).decode()

    def decode(self, kv: EtcdKv) -> KeyValue:
        place = kv.value[0] if kv.value else 0
        return KeyValue(
            kv.key[len(self._root) :].decode(),
            kv.value[HEADER:],
            kv.create_revision << PLACE_BITS,
            kv.mod_revision << PLACE_BITS | place,
        )

    def decode_event(self, event: EtcdEvent) -> Event:
        prev = self.decode(event.prev_kv) if event.prev_kv is not None else None
        if event.type != "DELETE":
            return Event(self.decode(event.kv), prev, False)
        gone = KeyValue(
            event.kv.key[len(self._root) :].decode(),
            prev.value if prev else b"",
            prev.create_revision if prev else 0,
            last_place(event.kv.mod_revision),
        )
        return Event(gone, prev, True)

    def request(self, ops: Sequence[Op], place: int) -> Json:
        """Return the nested transaction for the operations of one caller."""
        compare: list[Json] = []
        success: list[Json] = []
        failure: list[Json] = []
        for op in ops:
            key = self.encode(op.key)
            compare += _compare(key, op)
            failure.append({"requestRange": {"key": key}})
            if isinstance(op, Put):
                value = b64encode(bytes((place, FORMAT)) + op.value).decode()
                success.append({"requestPut": {"key": key, "value": value}})
                if op.expect != 0:  # tells when the key was created
                    success.append({"requestRange": {"key": key, "keysOnly": True}})
            elif isinstance(op, Delete):
                success.append({"requestDeleteRange": {"key": key, "prevKv": True}})
        return {"requestTxn": {"compare": compare, "success": success, "failure": failure}}

    def results(
        self, ops: Sequence[Op], answer: TxnAnswer, etcd_revision: int, place: int
    ) -> list[KeyValue]:
        """Read the answer to `request`; raises as `Store.transact` says."""
        if not answer.succeeded:
            self._raise(ops, answer)
        revision = etcd_revision << PLACE_BITS | place
        found = iter(answer.responses)
        kvs: list[KeyValue] = []
        for op in ops:
            if isinstance(op, Put):
                next(found)
                created = etcd_revision
                if op.expect != 0 and (read := next(found).response_range):
                    created = read.kvs[0].create_revision
                kvs.append(KeyValue(op.key, op.value, created << PLACE_BITS, revision))
            elif isinstance(op, Delete) and (deleted := next(found).response_delete_range):
                last = self.decode(deleted.prev_kvs[0])
                kvs.append(KeyValue(op.key, last.value, last.create_revision, revision))
        return kvs

    def _raise(self, ops: Sequence[Op], answer: TxnAnswer) -> None:
        for op, response in zip(ops, answer.responses, strict=True):
            read = response.response_range
            current = self.decode(read.kvs[0]) if read and read.kvs else None
            if current is None and isinstance(op, Delete):
                raise NotFound(op.key)
            if op.expect is not None and op.expect != (current.mod_revision if current else 0):
                raise Conflict(op.key, current, op.expect)
        raise AssertionError("etcd refused a transaction whose comparisons all hold")


def _compare(key: str, op: Op) -> list[Json]:
    compare: list[Json] = []
    if isinstance(op, Delete) and not op.expect:
        compare.append({"key": key, "target": "MOD", "result": "GREATER", "modRevision": "0"})
    if op.expect is None:
        return compare
    etcd_revision, place = op.expect >> PLACE_BITS, op.expect & LAST_PLACE
    compare.append(
        {"key": key, "target": "MOD", "result": "EQUAL", "modRevision": str(etcd_revision)}
    )
    if op.expect:
        # A value is longer than its first byte, the place, so it sorts between that and the next.
        low, high = b64encode(bytes((place,))).decode(), b64encode(bytes((place + 1,))).decode()
        compare.append({"key": key, "target": "VALUE", "result": "GREATER", "value": low})
        compare.append({"key": key, "target": "VALUE", "result": "LESS", "value": high})
    return compare


def check_ops(ops: Sequence[Op], limit: int) -> None:
    """Refuse what cannot be one transaction."""
    keys = {op.key for op in ops}
    if len(keys) != len(ops):
        raise ValueError("a key occurs twice in one transaction")
    if len(ops) > limit:
        raise ValueError(f"a transaction of {len(ops)} operations; etcd takes {limit}")


def has_delete(ops: Sequence[Op]) -> bool:
    return any(isinstance(op, Delete) for op in ops)
