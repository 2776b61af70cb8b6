"""Watch: the changes of a collection as a stream of JSON lines or of protobuf frames.

Each store event is encoded once for each way of showing it (`event.cache`) and the bytes are
shared by all watchers; events that arrive together are sent together. An object that comes to
match a selector is ADDED, one that ceases to is DELETED with its last matching content and the new
version. A reader that falls too far behind, or asks for history that is gone, gets an ERROR event
with a 410 Status, and the stream ends: it must list again.

Bookmarks are sent when asked for, once a minute and shortly before the timeout, and only if
something has happened since the last version that the client knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial as given
from typing import Any

from bayplan.apiserver.aside import LARGE, Pauses, beside
from bayplan.apiserver.backend import Backend, gone
from bayplan.apiserver.codec import Codec, Fields, Object
from bayplan.apiserver.errors import ApiError, not_acceptable
from bayplan.apiserver.http import framed
from bayplan.apiserver.negotiate import JSON, PROTOBUF, STREAMS, TABLE, WHOLE, Output
from bayplan.apiserver.protobuf import event_frame
from bayplan.apiserver.request import Request, flag, number
from bayplan.apiserver.responses import JSON_TYPE, Stream, dump, partial, table
from bayplan.apiserver.verbs.options import (
    LABEL,
    OBJECT_COST,
    Selection,
    begins_with_all,
    check_match,
    parse_version,
    selection,
    wait_for_version,
)
from bayplan.apiserver.verbs.read import candidates
from bayplan.apiserver.versions import Cache, converter_of
from bayplan.scope import PIECE
from bayplan.store import Compacted, Event, Interest, KeyValue, Watcher

BOOKMARK_SECONDS = 60.0
BEFORE_TIMEOUT_SECONDS = 2.0
SHORTEST_DEFAULT, LONGEST_DEFAULT = 1800.0, 3600.0
BATCH_BYTES = 128 * 1024  # of one chunk, and of events taken at once
MAX_ENCODED = 32 << 20  # bytes of encoded events that are kept for other watchers
SPLICED = 8 * 1024  # bytes of a value that are put into a line faster than they are remembered
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
_LINE_END = b"}\n"
_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_HEADS = {
    kind: b'{"type":"%b","object":' % kind.encode() for kind in (*_CHANGES, "BOOKMARK", "ERROR")
}


async def watch(backend: Backend, request: Request) -> Stream:
    """Open a watch. Errors of the options are raised; later ones become events."""
    query = request.query
    if request.output.media not in (JSON, PROTOBUF):
        raise not_acceptable(STREAMS)
    chosen = await selection(request)
    number(query, "limit")  # of no use here, but must be a number
    timeout = _duration(number(query, "timeoutSeconds") or 0) or default_timeout(backend)
    check_match(query, bool(query.get("continue")), watching=True)
    version = parse_version(query.get("resourceVersion"))
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    opened = _Watch(backend, request, chosen, flag(query, "allowWatchBookmarks"), timeout)
    opened.failed = await _too_late(backend, timeout, version if initial else 0)
    if opened.failed is None:
        await opened.start(version, True if begins_with_all(query) else initial)
    media = JSON_TYPE if request.output.media == JSON else STREAMS[1].encode()
    straight, bare = opened.write_straight, given(opened.write_straight, bare=True)
    return Stream(200, opened.lines(), media, opened.close, straight=straight, bare=bare)


async def _too_late(backend: Backend, timeout: float, version: int) -> ApiError | None:
    """Return why a watch has ended before it begins: that is told in the stream."""
    if timeout < 0:
        return ApiError(500, "", "context deadline exceeded")
    try:
        await wait_for_version(backend, version)
    except ApiError as error:
        return error
    return None


def _duration(seconds: int) -> float:
    """Return seconds as Go counts them: in 64 bits of nanoseconds, over which it goes round."""
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) / 10**9


def default_timeout(backend: Backend) -> float:
    """Return the length of a watch that names none: spread out, but the same in every run."""
    backend.opened_watches += 1
    return SHORTEST_DEFAULT + backend.opened_watches * 617 % (LONGEST_DEFAULT - SHORTEST_DEFAULT)


class _Watch:
    """One open watch."""

    def __init__(
        self,
        backend: Backend,
        request: Request,
        chosen: Selection,
        bookmarks: bool,
        timeout: float,
    ) -> None:
        self.backend = backend
        self.codec = backend.codec(request.kind)
        self.request = request
        self.chosen = chosen
        self.all = not chosen
        self.cost = chosen.cost  # of a look at one object
        self.bookmarks = bookmarks
        self.timeout = timeout
        self.prefix = self.codec.collection(request.namespace if request.kind.namespaced else "")
        self.exact = ""
        if chosen.name is not None and (request.namespace or not request.kind.namespaced):
            self.exact = self.prefix + chosen.name
        self.known = 0  # the newest version that the client has been told
        self.items: Iterable[KeyValue] = ()  # what is sent before any change
        self.end_of_items = False  # whether that is told
        self.failed: ApiError | None = None
        self.watcher: Watcher | None = None
        self.columns_sent = False
        kind = request.kind
        self.events = backend.metrics.events(kind.group, kind.version, kind.resource)
        self.converted = converter_of(self.codec) is not None
        output = request.output
        # What tells one encoding of an event from another in its cache.
        view = (kind.api_version, output.form, output.version, output.media)
        self.keys = {change: (change, *view) for change in _CHANGES}
        self.large_key = ("large", *view)  # of the task that writes it for all
        asked = (request.query.get(name, "") for name in ("labelSelector", "fieldSelector"))
        self.alike = "\n".join((*view, *asked, self.exact))  # a text, which remembers its hash
        self.binary = output.media == PROTOBUF
        self.near = False  # read in this process: lines of small objects are made anew
        self.spliced = output.form == WHOLE and not self.binary and self.codec.spliced
        self.large = b""  # of the event that is shown next, if it was written beside the loop
        if output.form == TABLE:
            self.keys = {}  # the first event of a stream carries the columns

    async def start(self, version: int, initial: bool | None) -> None:
        """Fix the moment from which changes are shown: before the client knows that it is open."""
        try:
            if version and not initial:
                self.known = version
            else:
                found = await candidates(self.backend, self.codec, self.chosen, self.prefix)
                self.known = found.revision
                self.items = found.items if initial is not False else ()
                self.end_of_items = bool(initial and self.bookmarks)
            self.watcher = self.backend.store.watch(self.prefix, after=self.known)
            self.watcher.batch_bytes = max(1, BATCH_BYTES * OBJECT_COST // self.cost)
            self.watcher.interest = self._interest()
            self.backend.watchers.add(self.watcher)
        except Compacted as error:
            self.failed = gone(error)

    def write_straight(self, write: Callable[[bytes], bool] | None, *, bare: bool = False) -> None:
        """Let what comes while `lines` waits be written without waking it; `bare`: not framed."""
        if self.watcher is None or write is None or self.converted or not self.keys:
            return
        alike = f"bare\n{self.alike}" if bare else self.alike
        self.near = bare and self.spliced

        def direct(batch: list[Event], shared: dict[str, Any]) -> bool:
            if not self.spliced:
                if "large" not in shared:
                    shared["large"] = any(map(_is_large, batch))
                if shared["large"]:  # is written beside the loop
                    return False
            if alike not in shared:
                shared[alike] = self._together(batch, bare)
            chunk, count, last = shared[alike]
            if count:
                if not chunk or not write(chunk):
                    return False
                self.known = last
                self.events.value += count
            return True

        self.watcher.direct = direct

    def _together(self, batch: list[Event], bare: bool) -> tuple[bytes, int, int]:
        """Return a batch as one chunk, none if it is long; its events, and their last version."""
        lines, last = self._chosen(batch)
        whole = b"".join(lines)
        if bare:
            return whole, len(lines), last
        return framed(whole) if len(whole) <= PIECE else b"", len(lines), last

    def close(self) -> None:
        """Stop watching. May be called twice."""
        if self.watcher is not None:
            self.watcher.close()
            self.watcher.direct = None  # it leads back here, and with it all of the connection
            self.backend.watchers.discard(self.watcher)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the stream; every chunk holds whole lines."""
        if self.watcher is None:
            if self.failed is not None:
                yield self._error(self.failed)
            return
        async for chunk in self._initial():
            yield chunk
        alarm, pauses = _Alarm(self.watcher, self._times()), Pauses()
        try:
            async for batch in self.watcher:
                await pauses.after(len(batch) * self.cost)
                if self.converted:
                    batch = await self.backend.versions.events(
                        self.codec, batch, self.backend.cache_of
                    )
                for chunk in gathered(await self._written(batch)):
                    yield chunk
                if not alarm.rang:
                    continue
                if not alarm.again():
                    return
                if self.watcher.progress > self.known:
                    self.known = self.watcher.progress
                    yield self._bookmark(self.known, None)
        except Compacted as error:
            yield self._error(gone(error))
        except ApiError as error:  # objects that cannot be converted
            yield self._error(error)
        finally:
            alarm.clear()

    async def _initial(self) -> AsyncIterator[bytes]:
        """Yield what there is; encoded as it is read, so that a slow reader holds one chunk."""
        lines: list[bytes] = []
        version, size, pauses = self.known, 0, Pauses()
        items, self.items = self.items, ()
        for kv in items:
            await pauses.after(self.cost + len(kv.value))
            if not self._selected(kv):
                continue
            if self.spliced or len(kv.value) < LARGE:
                lines.append(self._line("ADDED", kv))
            else:
                lines.append(await beside(self._line, "ADDED", kv))
            size += len(lines[-1])
            if size >= BATCH_BYTES:
                self.events.value += len(lines)
                yield b"".join(lines)
                lines, size = [], 0
        if lines:
            self.events.value += len(lines)
            yield b"".join(lines)
        if self.end_of_items:
            yield self._bookmark(version, INITIAL_EVENTS_END)

    def _selected(self, kv: KeyValue) -> bool:
        return self.all or self.chosen.matches(self.codec, kv)

    def _times(self) -> Iterator[float]:
        """Yield when bookmarks are due, then when the watch ends."""
        now = asyncio.get_running_loop().time()
        deadline = now + self.timeout
        if self.bookmarks:
            last = max(now, deadline - BEFORE_TIMEOUT_SECONDS)
            while (now := now + BOOKMARK_SECONDS) < last:
                yield now
            yield last
        yield deadline

    def _takes_long(self, event: Event) -> bool:
        if self.spliced or not _is_large(event):
            return False
        return not self.exact or event.kv.key == self.exact

    async def _written(self, batch: list[Event]) -> list[bytes]:
        """Return the lines of a batch; large objects are written beside the event loop."""
        if not any(map(self._takes_long, batch)):
            return self._batch(batch)
        lines: list[bytes] = []
        for event in batch:
            if self._takes_long(event):
                self.large = await self._write_large(event)
            lines += self._batch([event])
            self.large = b""
        return lines

    async def _write_large(self, event: Event) -> bytes:
        """Return an event's object, written once for all that watch in the same form."""
        cache, change = self.backend.cache_of(event), self._change(event)
        if change is None or self.alike in cache:
            return b""
        kind, kv = change
        if not self.keys or kv is not event.kv:
            return await beside(self._object, kv)
        if self.keys[kind] in cache:
            return b""
        task = cache.get(self.large_key)
        if task is None:
            task = asyncio.ensure_future(beside(self._object, kv))
            cache[self.large_key] = task
        try:
            written: bytes = await asyncio.shield(task)
        finally:
            cache.pop(self.large_key, None)  # the first puts it where all find it
        return written

    def _batch(self, batch: list[Event]) -> list[bytes]:
        lines, self.known = self._chosen(batch)
        self.events.value += len(lines)
        return lines

    def _chosen(self, batch: list[Event]) -> tuple[list[bytes], int]:
        """Return the lines of the events that are shown, and the version of the last one."""
        lines, last = [], self.known
        for event in batch:
            if line := self._shown(event):
                last = event.kv.mod_revision
                lines.append(line)
        return lines, last

    def _shown(self, event: Event) -> bytes:
        """Return the line of an event, or nothing; chosen once for all watches that ask alike."""
        if self.exact and event.kv.key != self.exact:
            return b""
        if self.all or self.near or not self.keys:
            return self._line_of(event)
        cache = self.backend.cache_of(event)
        line: bytes | None = cache.get(self.alike)
        if line is None:
            line = cache[self.alike] = self._line_of(event)
            self.backend.remember_encoded(line, MAX_ENCODED)
        return line

    def _line_of(self, event: Event) -> bytes:
        change = self._change(event)
        if change is None:
            return b""
        kind, kv = change
        return self._cached(event, kind) if kv is event.kv else self._line(kind, kv)

    def _change(self, event: Event) -> tuple[str, KeyValue] | None:
        """Return as what an event is shown, and with which object; None if it is not."""
        if self.all:
            kind = "ADDED" if event.prev is None else "MODIFIED"
            return "DELETED" if event.deleted else kind, event.kv
        before = event.prev is not None and self._matches(event, event.prev)
        if event.deleted:
            return ("DELETED", event.kv) if before else None
        if self._matches(event, event.kv):
            return "MODIFIED" if before else "ADDED", event.kv
        if not before or (left := event.prev) is None:
            return None
        last = KeyValue(left.key, left.value, left.create_revision, event.kv.mod_revision)
        return "DELETED", last

    def _cached(self, event: Event, kind: str) -> bytes:
        """Return the line of an event, encoding it at most once for each view."""
        if not self.keys or (self.near and len(event.kv.value) < SPLICED):
            return self._line(kind, event.kv)
        cache, key = self.backend.cache_of(event), self.keys[kind]
        line: bytes | None = cache.get(key)
        if line is None:
            line = cache[key] = self._line(kind, event.kv)
            self.backend.remember_encoded(line, MAX_ENCODED)
        return line

    def _interest(self) -> Interest | None:
        """Return what an event must show to concern this watch, where one value decides."""
        if self.exact:
            return Interest("key", self.exact, _key_of)
        if (decisive := self.chosen.decisive) is None or self.converted:
            return None
        what, name, value = decisive
        api_version, codec, cache_of = (
            self.codec.kind.api_version,
            self.codec,
            self.backend.cache_of,
        )

        def read(event: Event) -> Iterable[str]:
            cache, shown = cache_of(event), (event.kv, event.prev)
            found = [_fields(codec, cache, kv) for kv in shown if kv is not None]
            if what == LABEL:
                return [each.labels[name] for each in found if name in each.labels]
            return [each.value_of(name) for each in found]

        return Interest((api_version, what, name), value, read)

    def _matches(self, event: Event, kv: KeyValue) -> bool:
        found = _fields(self.codec, self.backend.cache_of(event), kv)
        if found.asked != self.alike:  # what is shown now is looked at again when it changes
            found.asked, found.matched = self.alike, self.chosen.selects(found)
        return found.matched

    def _line(self, kind: str, kv: KeyValue) -> bytes:
        return self._framed(kind, self.large or self._object(kv))

    def _object(self, kv: KeyValue) -> bytes:
        """Return an object as it is shown."""
        output = self.request.output
        if output.form == WHOLE:
            return self.codec.protobuf(kv) if self.binary else self.codec.whole(kv)
        obj = self.codec.decode(kv)
        if output.form == TABLE:
            metadata = {"resourceVersion": str(kv.mod_revision)}
            shown = table(self.request, [obj], metadata, columns=not self.columns_sent)
            self.columns_sent = True
        else:
            shown = partial(obj, output.version)
        return dump(shown, output.media)

    def _framed(self, kind: str, shown: bytes) -> bytes:
        if self.binary:
            return event_frame(kind, shown)
        return _HEADS[kind] + shown + _LINE_END

    def _event(self, kind: str, shown: Object) -> bytes:
        return self._framed(kind, dump(shown, self.request.output.media))

    def _bookmark(self, version: int, annotations: dict[str, str] | None) -> bytes:
        metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        kind = self.request.kind
        obj: Object = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self.request.output.form == TABLE:
            row = {"cells": [], "object": {**obj, **_meta_kind(self.request.output)}}
            obj = {
                "kind": "Table",
                "apiVersion": f"meta.k8s.io/{self.request.output.version}",
                "metadata": {"resourceVersion": str(version)},
                "columnDefinitions": [],
                "rows": [row],
            }
        elif self.request.output.form:
            obj.update(_meta_kind(self.request.output))
        return self._event("BOOKMARK", obj)

    def _error(self, error: ApiError) -> bytes:
        return self._event("ERROR", error.status())


def gathered(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield short lines together, up to a piece; a long one as it is, shared with other watches."""
    together: list[bytes] = []
    size = 0
    for line in lines:
        if together and size + len(line) > PIECE:
            yield together[0] if len(together) == 1 else b"".join(together)
            together, size = [], 0
        together.append(line)
        size += len(line)
    if together:
        yield together[0] if len(together) == 1 else b"".join(together)


def _is_large(event: Event) -> bool:
    """Say whether what an event is shown with may be large: what left as it was before."""
    return any(kv is not None and len(kv.value) >= LARGE for kv in (event.kv, event.prev))


def _key_of(event: Event) -> tuple[str]:
    return (event.kv.key,)


def _fields(codec: Codec, cache: Cache, kv: KeyValue) -> Fields:
    """Return what selectors look at, read once for all watchers of an event."""
    key = ("fields", kv.mod_revision, codec.kind.api_version)
    found: Fields | None = cache.get(key)
    if found is None:
        cache[key] = found = codec.fields(kv)
    return found


def _meta_kind(output: Output) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{output.version}"}


class _Alarm:
    """Rouses a watch at given times.

    One timer serves many waits; `asyncio.timeout` would set and cancel one for each event.
    """

    def __init__(self, watcher: Watcher, times: Iterable[float]) -> None:
        self._watcher = watcher
        self._times = iter(times)
        self._timer: asyncio.TimerHandle | None = None
        self.again()

    def again(self) -> bool:
        """Wait for the next time; False when there is none left."""
        self.rang = False
        at = next(self._times, None)
        if at is not None:
            self._timer = asyncio.get_running_loop().call_at(at, self._ring)
        return at is not None

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self.rang = True
        self._watcher.rouse()
