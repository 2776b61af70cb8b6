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
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, cast

from bayplan.apiserver.backend import Backend, gone
from bayplan.apiserver.codec import Fields, Object
from bayplan.apiserver.errors import ApiError, not_acceptable
from bayplan.apiserver.negotiate import JSON, PROTOBUF, TABLE, WHOLE, Output
from bayplan.apiserver.protobuf import event_frame
from bayplan.apiserver.request import Request, flag, number
from bayplan.apiserver.responses import JSON_TYPE, Stream, dump, partial, table
from bayplan.apiserver.verbs.read import (
    Selection,
    check_match,
    parse_version,
    selection,
    wait_for_version,
)
from bayplan.apiserver.versions import Cache
from bayplan.store import Compacted, Event, KeyValue, Watcher

BOOKMARK_SECONDS = 60.0
BEFORE_TIMEOUT_SECONDS = 2.0
SHORTEST_DEFAULT, LONGEST_DEFAULT = 1800.0, 3600.0
BATCH_BYTES = 128 * 1024  # of one chunk, and of events taken at once
MAX_ENCODED = 32 << 20  # bytes of encoded events that are kept for other watchers
PROTOBUF_STREAM = f"{PROTOBUF};stream=watch"
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
_LINE_END = b"}\n"
_HEADS = {
    "ADDED": b'{"type":"ADDED","object":',
    "MODIFIED": b'{"type":"MODIFIED","object":',
    "DELETED": b'{"type":"DELETED","object":',
}


async def watch(backend: Backend, request: Request) -> Stream:
    """Open a watch. Errors of the options are raised; later ones become events."""
    query = request.query
    if request.output.media not in (JSON, PROTOBUF):
        raise not_acceptable([f"{JSON};stream=watch", PROTOBUF_STREAM])
    chosen = selection(request)
    check_match(query, False, watching=True)
    version = parse_version(query.get("resourceVersion"))
    timeout = number(query, "timeoutSeconds") or default_timeout(backend)
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    if initial:
        await wait_for_version(backend, version)
    opened = _Watch(backend, request, chosen, flag(query, "allowWatchBookmarks"), timeout)
    await opened.start(version, initial)
    media = JSON_TYPE if request.output.media == JSON else PROTOBUF_STREAM.encode()
    return Stream(200, opened.lines(), media, opened.close)


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
        self.bookmarks = bookmarks
        self.timeout = timeout
        self.prefix = self.codec.collection(request.namespace if request.kind.namespaced else "")
        self.exact = ""
        if chosen.name is not None and (request.namespace or not request.kind.namespaced):
            self.exact = self.prefix + chosen.name
        self.known = 0  # the newest version that the client has been told
        self.first: Iterator[bytes] = iter(())  # what is sent before any change
        self.watcher: Watcher | None = None
        self.columns_sent = False
        kind = request.kind
        self.events = backend.metrics.events(kind.group, kind.version, kind.resource)
        output = request.output
        # What tells one encoding of an event from another in its cache.
        plain = output.form == WHOLE and output.media == JSON
        self.view: tuple[str, ...] | None = (
            (request.kind.api_version,) if plain else (request.kind.api_version, *_form(output))
        )
        self.binary = output.media == PROTOBUF
        if output.form == TABLE:
            self.view = None  # the first event of a stream carries the columns

    async def start(self, version: int, initial: bool | None) -> None:
        """Fix the moment from which changes are shown: before the client knows that it is open."""
        try:
            if version and not initial:
                self.known = version
            else:
                found = await self.backend.versions.range(self.codec, self.prefix)
                self.known = found.revision
                items = found.items if initial is not False else []
                self.first = self._initial(items, end=bool(initial and self.bookmarks))
            self.watcher = self.backend.store.watch(self.exact or self.prefix, after=self.known)
            self.watcher.batch_bytes = BATCH_BYTES
            self.backend.watchers.add(self.watcher)
        except Compacted as error:
            self.first = iter((self._error(gone(error)),))

    def close(self) -> None:
        """Stop watching. May be called twice."""
        if self.watcher is not None:
            self.watcher.close()
            self.backend.watchers.discard(self.watcher)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the stream; every chunk holds whole lines."""
        for chunk in self.first:
            yield chunk
        self.first = iter(())
        if self.watcher is None:
            return
        try:
            async for chunk in self._follow(self.watcher):
                yield chunk
        except Compacted as error:
            yield self._error(gone(error))
        except ApiError as error:  # objects that cannot be converted
            yield self._error(error)

    def _initial(self, items: Iterable[KeyValue], *, end: bool) -> Iterator[bytes]:
        """Yield what there is; encoded as it is read, so that a slow reader holds one chunk."""
        lines: list[bytes] = []
        version, size = self.known, 0
        for kv in items:
            if not self._selected(kv):
                continue
            lines.append(self._line("ADDED", kv))
            size += len(lines[-1])
            if size >= BATCH_BYTES:
                self.events.value += len(lines)
                yield b"".join(lines)
                lines, size = [], 0
        if lines:
            self.events.value += len(lines)
            yield b"".join(lines)
        if end:
            yield self._bookmark(version, INITIAL_EVENTS_END)

    def _selected(self, kv: KeyValue) -> bool:
        return not self.chosen or self.chosen.matches(self.codec, kv)

    async def _follow(self, watcher: Watcher) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        marks = self._mark_times(loop.time(), deadline)
        alarm = _Alarm(loop)
        try:
            while True:
                alarm.set(marks[0] if marks else deadline)
                batch = await alarm.next(watcher)
                if batch is None:
                    return
                batch = await self.backend.versions.events(self.codec, batch, self._cache)
                chunk = self._batch(batch)
                if chunk:
                    yield chunk
                if not alarm.rang:
                    continue
                if marks:
                    del marks[0]
                    if watcher.progress > self.known:
                        self.known = watcher.progress
                        yield self._bookmark(self.known, None)
                if loop.time() >= deadline:
                    return
        finally:
            alarm.clear()

    def _mark_times(self, now: float, deadline: float) -> list[float]:
        if not self.bookmarks:
            return []
        times = []
        at = now + BOOKMARK_SECONDS
        last = max(now, deadline - BEFORE_TIMEOUT_SECONDS)
        while at < last:
            times.append(at)
            at += BOOKMARK_SECONDS
        return [*times, last]

    def _batch(self, batch: list[Event]) -> bytes:
        if not self.chosen and batch:
            self.known = batch[-1].kv.mod_revision
            self.events.value += len(batch)
            return b"".join([self._plain(event) for event in batch])
        lines = []
        for event in batch:
            if self.exact and event.kv.key != self.exact:
                continue
            line = self._selected_line(event)
            if line:
                self.known = event.kv.mod_revision
                lines.append(line)
        self.events.value += len(lines)
        return b"".join(lines)

    def _plain(self, event: Event) -> bytes:
        """Return the line of an event that needs no selection, encoding it at most once."""
        kind = "DELETED" if event.deleted else "ADDED" if event.prev is None else "MODIFIED"
        return self._cached(event, kind, event.kv)

    def _cached(self, event: Event, kind: str, kv: KeyValue) -> bytes:
        if self.view is None:
            return self._line(kind, kv)
        cache = self._cache(event)
        key = (kind, *self.view)
        line = cache.get(key)
        if line is None:
            line = cache[key] = self._line(kind, kv)
            self.backend.remember_encoded(len(line), MAX_ENCODED)
        return cast("bytes", line)

    def _cache(self, event: Event) -> Cache:
        """Return the event's shared results; only the newest events keep theirs."""
        if event.cache is None:
            event.cache = {}
            recent = self.backend.encoded_events
            if len(recent) == recent.maxlen:
                self.backend.forget_encoded()
            recent.append(event)
        return cast("Cache", event.cache)

    def _selected_line(self, event: Event) -> bytes:
        if not self.chosen:
            return self._plain(event)
        now = not event.deleted and self._matches(event, event.kv)
        before = event.prev is not None and self._matches(event, event.prev)
        if now:
            return self._cached(event, "MODIFIED" if before else "ADDED", event.kv)
        if not before or event.prev is None:
            return b""
        if event.deleted:
            return self._cached(event, "DELETED", event.kv)
        left = event.prev
        last = KeyValue(left.key, left.value, left.create_revision, event.kv.mod_revision)
        return self._line("DELETED", last)

    def _matches(self, event: Event, kv: KeyValue) -> bool:
        """Match a selector on fields that are read once for all watchers of the event."""
        cache = self._cache(event)
        key = ("fields", kv.mod_revision, self.request.kind.api_version)
        found = cast("Fields | None", cache.get(key))
        if found is None:
            cache[key] = found = self.codec.fields(kv)
        labels, fields = self.chosen.labels, self.chosen.fields
        if labels is not None and not labels.matches(found.labels):
            return False
        return fields is None or fields.matches(found.value_of)

    def _line(self, kind: str, kv: KeyValue) -> bytes:
        output = self.request.output
        if output.form == WHOLE:
            if self.binary:
                return event_frame(kind, self.codec.protobuf(kv))
            return _HEADS[kind] + self.codec.whole(kv) + _LINE_END
        obj = self.codec.decode(kv)
        if output.form == TABLE:
            metadata = {"resourceVersion": str(kv.mod_revision)}
            shown = table(self.request, [obj], metadata, columns=not self.columns_sent)
            self.columns_sent = True
        else:
            shown = partial(obj, output.version)
        return self._event(kind, shown)

    def _event(self, kind: str, shown: Object) -> bytes:
        if self.binary:
            return event_frame(kind, dump(shown, PROTOBUF))
        return dump({"type": kind, "object": shown}) + b"\n"

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


def _form(output: Output) -> tuple[str, str, str]:
    return output.form, output.version, output.media


def _meta_kind(output: Output) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{output.version}"}


class _Alarm:
    """Wakes a waiting watch at a time, with one timer for many waits.

    `asyncio.timeout` would set and cancel a timer for each event of each watcher.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.rang = False
        self._loop = loop
        self._at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[Any] | None = None

    def set(self, at: float) -> None:
        """Ring at this time; nothing to do if it was set to that already."""
        if at != self._at or self._timer is None:
            self.clear()
            self.rang = False
            self._at = at
            self._timer = self._loop.call_at(at, self._ring)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self.rang = True
        self._timer = None
        if self._waiting is not None:
            self._waiting.cancel()

    def _was_cancelled_by_others(self, task: asyncio.Task[Any] | None) -> bool:
        return not self.rang or task is None or task.uncancel() > 0

    async def next(self, watcher: Watcher) -> list[Event] | None:
        """Return the next batch, what there is when it rings, None when the watcher has ended."""
        if self.rang:
            return watcher.take()
        self._waiting = task = asyncio.current_task()
        try:
            return await watcher.__anext__()
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if self._was_cancelled_by_others(task):
                raise
            return watcher.take()
        finally:
            self._waiting = None
