"""What really happened: every change that a store showed, in order, across its crashes.

It follows the store from inside the process that holds it, so nothing of the network is between.
What clients were told and what watches sent is compared with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter

import msgspec

from bayplan.store.errors import Compacted
from bayplan.store.protocol import Event, KeyValue, Watcher
from bayplan.store.sqlite import SqliteStore


class Broken(AssertionError):
    """Something that must always hold did not."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


class Meta(msgspec.Struct, rename="camel"):
    """What tells which write of which object is meant."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Written(msgspec.Struct):
    """An object, as far as it is looked at."""

    metadata: Meta = msgspec.field(default_factory=Meta)


LOST = "no acknowledged write is lost"
GROW = "revisions only grow"
WATCH = "a watch sees every change once and in order"


class Truth:
    """The history of one store."""

    def __init__(self) -> None:
        self.now: dict[str, KeyValue] = {}
        self.log: list[tuple[int, str]] = []
        self.revision = 0
        self._written: dict[int, list[str]] = {}
        """The keys that were written at each revision."""
        self._watcher: Watcher | None = None
        self._checks: list[Callable[[Event], None]] = []

    def check(self, see: Callable[[Event], None]) -> None:
        """Call `see` with every change."""
        self._checks.append(see)

    def follow(self, store: SqliteStore) -> None:
        """Go on with a store that was opened; it must hold all that was ever seen."""
        if store.revision < self.revision:
            text = f"the store came back at {store.revision}, {self.revision} was seen"
            raise Broken(GROW, text)
        try:
            self._watcher = store.watch("", after=self.revision)
        except Compacted:
            self._catch_up(store)
            self._watcher = store.watch("", after=store.revision)
        self.drain()
        found = {kv.key: kv for kv in store.range_now("").items}
        for key in sorted(self.now.keys() | found.keys()):
            if self.now.get(key) != found.get(key):
                seen, there = _told(self.now.get(key)), _told(found.get(key))
                raise Broken(LOST, f"{key} was {seen} and is {there} after a restart")

    def _catch_up(self, store: SqliteStore) -> None:
        """Take over what nobody saw before a crash, of a full disk that let the past go."""
        found = {kv.key: kv for kv in store.range_now("").items}
        first = self.revision + 1
        for key, before in list(self.now.items()):
            if key not in found or found[key].create_revision >= first:
                gone = KeyValue(key, before.value, before.create_revision, first)
                self._apply(Event(gone, before, deleted=True))
        for kv in sorted(found.values(), key=lambda kv: kv.mod_revision):
            if kv.mod_revision >= first:
                self._apply(Event(kv, self.now.get(kv.key), deleted=False))
        self.revision = store.revision

    def leave(self) -> None:
        """The store is about to go: take what it has shown until now."""
        self.drain()
        self._watcher = None

    def drain(self) -> None:
        """Take over what the store has shown since the last call."""
        if self._watcher is None:
            return
        for event in self._watcher.take():
            self._apply(event)

    def _apply(self, event: Event) -> None:
        key, revision = event.kv.key, event.revision
        if revision < self.revision or (revision, key) in self.log[-1:]:
            raise Broken(GROW, f"{key} was written at {revision} after {self.revision}")
        before = self.now.get(key)
        if (event.prev.mod_revision if event.prev else 0) != (before.mod_revision if before else 0):
            text = f"{key} at {revision} replaces {_told(event.prev)}, not {_told(before)}"
            raise Broken(LOST, text)
        if event.deleted:
            self.now.pop(key, None)
        else:
            self.now[key] = event.kv
        self.revision = revision
        self._written.setdefault(revision, []).append(key)
        self.log.append((revision, key))
        for see in self._checks:
            see(event)

    def acknowledged(self, told: Meta, what: str) -> None:
        """A client was told that it wrote this object."""
        if not told.resource_version:
            return
        self.drain()
        keys = self._written.get(int(told.resource_version), [])
        if not any(key.rpartition("/")[2] == told.name for key in keys):
            there = " and ".join(keys) or "nothing"
            text = f"{what} of {told.name} was acknowledged at {told.resource_version}"
            raise Broken(LOST, f"{text}, where {there} is")

    def deleted(self, uid: str) -> None:
        """A client was told that this object is gone."""
        self.drain()
        for key, kv in self.now.items():
            # A cheap look first: the uid also stands in what the object owned.
            if uid and uid.encode() in kv.value and _object.decode(kv.value).metadata.uid == uid:
                raise Broken(LOST, f"{key} was deleted and is there")

    def has_seen(self, key: str) -> None:
        """A client was told that this key was written."""
        self.drain()
        if all(key != written for _, written in self.log):
            raise Broken(LOST, f"{key} was acknowledged and never written")

    def __len__(self) -> int:
        return len(self.log)


class _Line(msgspec.Struct):
    type: str
    object: Written


_line = msgspec.json.Decoder(_Line)
_object = msgspec.json.Decoder(Written)


class WatchCheck:
    """Compares what one watch sends with the truth."""

    def __init__(self, truth: Truth, prefix: str, after: int) -> None:
        truth.drain()
        self._truth = truth
        self._prefix = prefix
        self._at = bisect_right(truth.log, after, key=itemgetter(0))
        self._rest = b""

    def __call__(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line:
                found = _line.decode(line)
                if found.type == "ERROR":
                    return
                self._see(found.type, int(found.object.metadata.resource_version))

    def _see(self, type_: str, revision: int) -> None:
        self._truth.drain()
        log = self._truth.log
        while self._at < len(log) and not log[self._at][1].startswith(self._prefix):
            self._at += 1
        expected = log[self._at][0] if self._at < len(log) else 0
        if type_ == "BOOKMARK":
            if expected and revision >= expected:
                raise Broken(WATCH, f"{self._prefix}: bookmark {revision} passes {expected}")
            return
        if revision != expected:
            raise Broken(WATCH, f"{self._prefix}: {type_} at {revision}, not {expected}")
        self._at += 1


def _told(kv: KeyValue | None) -> str:
    return "not there" if kv is None else f"at {kv.mod_revision}"
