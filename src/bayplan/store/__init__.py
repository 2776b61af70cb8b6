"""Revisioned key-value stores: memory, SQLite (durable, the default) and etcd.

`EtcdStore` is imported from `bayplan.store.etcd`: it needs an HTTP client that others do without.
"""

from bayplan.store.errors import (
    Closed,
    Compacted,
    Conflict,
    Full,
    FutureRevision,
    Locked,
    NotFound,
    StoreError,
    TooLarge,
    Unavailable,
)
from bayplan.store.memory import MemoryStore
from bayplan.store.protocol import (
    Check,
    Delete,
    Event,
    FastReads,
    Interest,
    KeyValue,
    Op,
    Put,
    RangeResult,
    Store,
    Watcher,
)
from bayplan.store.sqlite import SqliteStore

__all__ = [
    "Check",
    "Closed",
    "Compacted",
    "Conflict",
    "Delete",
    "Event",
    "FastReads",
    "Full",
    "FutureRevision",
    "Interest",
    "KeyValue",
    "Locked",
    "MemoryStore",
    "NotFound",
    "Op",
    "Put",
    "RangeResult",
    "SqliteStore",
    "Store",
    "StoreError",
    "TooLarge",
    "Unavailable",
    "Watcher",
]
