"""What happened, line by line, and the hash that says whether two runs were the same.

Every write to the store is one line: when, what was written, and a digest of its content. Reading
the log tells the story; comparing hashes tells whether two runs agree byte for byte.
"""

import hashlib
from collections.abc import Callable

import msgspec

from bayplan.api import Object
from bayplan.store import Compacted, Event, Watcher

CHUNK = 1 << 14


class Entry(msgspec.Struct, frozen=True):
    """One write."""

    time: float
    revision: int
    action: str
    key: str
    value: bytes
    item: Object | None = None
    """The object, where `value` is only a digest of it (the fast lane)."""

    def line(self) -> str:
        digest = hashlib.sha256(self.value).hexdigest()[:16]
        return f"{self.time:.6f} {self.revision} {self.action} {self.key} {digest}"


class EventLog:
    """Follows the store; memory grows with the run."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self.entries: list[Entry] = []
        self._hash = hashlib.sha256()
        self._unhashed = bytearray()
        self._listeners: list[Callable[[Entry], None]] = []
        self.keep = True
        """False: only the hash is kept, for very long runs."""

    def on_entry(self, listener: Callable[[Entry], None]) -> None:
        """Call with every entry as it happens."""
        self._listeners.append(listener)

    async def follow(self, watcher: Watcher) -> None:
        """Write lines until the watcher is closed."""
        watcher.direct = self._take
        try:
            async for events in watcher:
                for event in events:
                    self._add(event)
        except Compacted:  # a reader on the same loop keeps up; a world that ends closes it
            return

    def _take(self, events: list[Event], _: dict[str, object]) -> bool:
        """Write what comes while `follow` waits, without waking it."""
        for event in events:
            self._add(event)
        return True

    def _add(self, event: Event) -> None:
        action = "DELETED" if event.deleted else "ADDED" if event.prev is None else "MODIFIED"
        time, kv = self._elapsed(), event.kv
        self.write(time, event.revision, action, kv.key, kv.value)
        if self._listeners:
            entry = Entry(time, event.revision, action, kv.key, kv.value)
            for listener in self._listeners:
                listener(entry)

    def write(
        self,
        time: float,
        revision: int,
        action: str,
        key: str,
        value: bytes,
        item: Object | None = None,
    ) -> None:
        """Write one line."""
        # Whole values, not their digests: one digest of everything is cheaper than one each.
        self._unhashed += f"{time:.6f} {revision} {action} {key} {len(value)}\n".encode()
        self._unhashed += value
        if len(self._unhashed) > CHUNK:
            self._hash_rest()
        if self.keep:
            self.entries.append(Entry(time, revision, action, key, value, item))

    def _hash_rest(self) -> None:
        self._hash.update(self._unhashed)
        self._unhashed.clear()

    @property
    def hash(self) -> str:
        """The digest of all writes so far: of their times, keys and contents."""
        self._hash_rest()
        return self._hash.hexdigest()
