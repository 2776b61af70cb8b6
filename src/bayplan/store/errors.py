"""What a store raises.

BayplanError
└── StoreError             anything below; also a closed or damaged store
    ├── Conflict           the key is not at the expected revision; `current` is what it is
    ├── NotFound           a delete of a key that does not exist
    ├── RevisionError      a revision that cannot be served
    │   ├── Compacted      the past asked for is gone, or a watcher fell behind (→ 410)
    │   └── FutureRevision the revision asked for is not there yet
    ├── Unavailable        the back end cannot be reached; the outcome of a write is unknown
    ├── Full               the disk is full: nothing new can be written
    ├── TooLarge           the back end takes no value of that size
    ├── Locked             another process has the data directory open
    └── Closed             the store was closed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.errors import BayplanError

if TYPE_CHECKING:
    from bayplan.store.protocol import KeyValue


class StoreError(BayplanError):
    """The store could not do what it was asked."""


class Conflict(StoreError):
    """A key is not at the revision that the writer expected."""

    def __init__(self, key: str, current: KeyValue | None, expect: int | None) -> None:
        if current is None:
            text = f'writing key "{key}": expected revision {expect}, but the key does not exist'
        elif expect == 0:
            text = f'writing key "{key}": already exists at revision {current.mod_revision}'
        else:
            text = (
                f'writing key "{key}": expected revision {expect}, '
                f"found {current.mod_revision}; read it again and retry"
            )
        super().__init__(text)
        self.key = key
        self.current = current
        self.expect = expect


class NotFound(StoreError):
    """A key to be deleted does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(f'deleting key "{key}": not found')
        self.key = key


class RevisionError(StoreError):
    """A revision was asked for that the store cannot serve."""

    def __init__(self, text: str, *, asked: int, available: int) -> None:
        super().__init__(text)
        self.asked = asked
        self.available = available


class Compacted(RevisionError):
    """The past that was asked for is gone; list again and watch from there."""

    def __init__(self, *, asked: int, compacted: int) -> None:
        super().__init__(
            f"reading from revision {asked}: history up to {compacted} is gone; list again",
            asked=asked,
            available=compacted,
        )
        self.compacted = compacted


class FutureRevision(RevisionError):
    """A revision was asked for that the store has not reached."""

    def __init__(self, *, asked: int, current: int) -> None:
        super().__init__(
            f"reading at revision {asked}: the store is at {current}",
            asked=asked,
            available=current,
        )
        self.current = current


class Unavailable(StoreError):
    """The back end cannot be reached; a write may or may not have happened."""


class Full(StoreError):
    """The disk is full: nothing new can be written, but objects can be deleted."""


class TooLarge(StoreError):
    """The back end takes no value of that size."""


class Locked(StoreError):
    """Another process has the data directory open."""


class Closed(StoreError):
    """The store was closed."""

    def __init__(self) -> None:
        super().__init__("the store is closed")
