"""Revisioned key-value stores: memory, SQLite (durable, the default) and etcd."""

from bayplan.store.errors import (
    Closed,
    Compacted,
    Conflict,
    FutureRevision,
    Locked,
    NotFound,
    RevisionError,
    StoreError,
    Unavailable,
)
from bayplan.store.memory import MemoryStore
from bayplan.store.protocol import (
    Check,
    Delete,
    Event,
    FastReads,
    KeyValue,
    Op,
    Put,
    RangeResult,
    Store,
    Watcher,
)

__all__ = [
    "Check",
    "Closed",
    "Compacted",
    "Conflict",
    "Delete",
    "Event",
    "FastReads",
    "FutureRevision",
    "KeyValue",
    "Locked",
    "MemoryStore",
    "NotFound",
    "Op",
    "Put",
    "RangeResult",
    "RevisionError",
    "Store",
    "StoreError",
    "Unavailable",
    "Watcher",
]
