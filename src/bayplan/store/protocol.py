"""The contract between the API server and whatever keeps its objects.

A store is an ordered map from string keys to bytes with one revision counter. Each write takes the
next revision; a transaction takes one for all its operations. Revisions grow and are never used
twice, also across restarts and crashes, but they may skip numbers. The last part of the past
stays readable (`revision=` on reads) and watchable (`watch(after=)`) until it is compacted.

Values are opaque here. The API server keeps JSON objects without `metadata.resourceVersion` in
them and takes that field from `mod_revision` when it reads.

It does not know namespaces, selectors, encodings or leases.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One version of one key."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Event:
    """One change of one key.

    `kv` is the version written, or for a delete the last value with the delete's revision as its
    `mod_revision`. `prev` is the version before, None when the key did not exist. `cache` is free
    for the reader that wants to encode an event once for all watchers.
    """

    __slots__ = ("cache", "deleted", "kv", "prev")

    def __init__(self, kv: KeyValue, prev: KeyValue | None, deleted: bool) -> None:
        self.kv = kv
        self.prev = prev
        self.deleted = deleted
        self.cache: dict[object, Any] | None = None

    @property
    def revision(self) -> int:
        return self.kv.mod_revision

    def __repr__(self) -> str:
        verb = "delete" if self.deleted else "put"
        return f"<Event {verb} {self.kv.key!r} at {self.kv.mod_revision}>"


class RangeResult(msgspec.Struct, frozen=True):
    """The answer to a range read: items in key order, all as of `revision`."""

    items: list[KeyValue]
    revision: int
    remaining: int = 0  # how many more keys follow, when `limit` cut the answer


class Put(msgspec.Struct, frozen=True):
    """Write a key. `expect` 0: it must not exist; N: it must be at revision N; None: anything."""

    key: str
    value: bytes
    expect: int | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete a key that exists, at revision `expect` if that is given."""

    key: str
    expect: int | None = None


class Check(msgspec.Struct, frozen=True):
    """Let the transaction pass only if the key is at `expect` (0: does not exist)."""

    key: str
    expect: int


Op: TypeAlias = Put | Delete | Check


class Interest(NamedTuple):
    """The events that concern a watcher: those of which `read` gives its value."""

    by: Hashable  # equal where `read` gives the same
    value: str
    read: Callable[[Event], Iterable[str]]


Direct: TypeAlias = Callable[[list[Event], dict[str, Any]], bool]
"""Takes a batch without waiting, or returns False. What is handed with it is shared by all who are
handed the same batch, for what they can make of it together."""


class Watcher(Protocol):
    """The changes under a prefix, as an async iterator of batches in revision order.

    A batch is empty only after `rouse`.

    Iteration raises `Compacted` once this reader has fallen further behind than the store keeps
    events, and ends when the watcher or the store is closed.
    """

    batch_bytes: int
    """How many bytes of values are taken at once, at least one event; 0: all there is."""
    interest: Interest | None
    """Where set, others' events need not wake this reader; it may still be handed some."""
    direct: Direct | None
    """Where set, what comes while `__anext__` waits is offered here first, in a step of the loop
    soon after; what is not taken is what `__anext__` returns."""

    @property
    def progress(self) -> int:
        """Every change up to this revision was handed out already (for bookmarks)."""

    def take(self) -> list[Event]:
        """Return at once what is there, possibly nothing. Raises as iteration does."""

    def __aiter__(self) -> "Watcher": ...

    async def __anext__(self) -> list[Event]: ...

    def rouse(self) -> None:
        """End the wait of `__anext__`, or its next one, with what there is: perhaps nothing."""

    def close(self) -> None:
        """Stop watching and end a waiting `__anext__`. May be called twice."""


class Store(Protocol):
    """A revisioned key-value store. All methods belong to the event loop that opened it."""

    @property
    def revision(self) -> int:
        """The newest revision that readers and watchers of this process can see."""

    @property
    def compacted(self) -> int:
        """History up to and including this revision is gone (0: nothing is)."""

    @property
    def failures(self) -> Counter[str]:
        """How often work that nobody waits for has failed, by its name."""

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """Read one key, now or as of a past revision. Linearizable when `revision` is 0."""

    async def range(
        self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0
    ) -> RangeResult:
        """Read the keys that start with `prefix`, in order, at most `limit` of them (0: all).

        `start_after` is a full key: only greater ones are returned. With `revision` the state
        of then is read; raises `Compacted` when it is gone, `FutureRevision` when not reached.
        """

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> KeyValue:
        """Write one key; returning means durable. Raises `Conflict`."""

    async def delete(self, key: str, *, expect: int | None = None) -> KeyValue:
        """Delete one key; returns its last value with the delete's revision.

        Raises `NotFound`, or `Conflict` when it is at another revision than `expect`.
        """

    async def transact(self, ops: Sequence[Op]) -> list[KeyValue]:
        """Do all operations at one new revision, or none.

        Returns one KeyValue for each Put and Delete, in order. A key may occur once only. Raises
        what the first operation that cannot be done raises. With only checks nothing is written.
        Two keys of one collection written together share a revision: a watch that is resumed
        between them would miss the second, so do not.
        """

    def watch(self, prefix: str, *, after: int) -> Watcher:
        """Watch changes with a revision greater than `after`. Raises `Compacted`.

        The read buffer is bounded: a slow reader gets `Compacted` and never delays a writer or
        another reader.
        """

    async def compact(self, revision: int) -> None:
        """Forget history up to and including `revision`; current values stay. Idempotent.

        Raises `FutureRevision` for one that is not reached.
        """

    async def wait_for(self, revision: int) -> None:
        """Return when `self.revision` is at least this."""

    async def check(self) -> None:
        """Return if the store can be written and read now. Raises `StoreError`."""

    async def close(self) -> None:
        """Finish accepted writes, end all watchers, release everything. May be called twice."""


class FastReads(Protocol):
    """What stores that hold everything in memory offer besides: reads without a coroutine.

    They see exactly what the async reads see.
    """

    def get_now(self, key: str) -> KeyValue | None: ...

    def range_now(
        self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0
    ) -> RangeResult: ...
