"""What the server tells at `/metrics`, under kube-apiserver's names, labels and buckets.

A series is found by a tuple of words that exist already and then counted in place; label texts are
made when somebody reads. What a client may invent (paths, subresources that are none) never
becomes a label. Written by hand, because prometheus_client would be loaded by every start. Inflight
requests are the most at once since the last reading. Upstream's other metrics are absent.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bayplan.apiserver.negotiate import APPLY_PATCH
from bayplan.apiserver.request import Request
from bayplan.store import Delete, KeyValue, Op, Put, RangeResult, Store, Watcher

BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30,
    45, 60,
)  # fmt: skip
Words = tuple[str, ...]
_REQUEST = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run", "component")
_KIND = ("group", "version", "resource")
_VERBS = {
    "create": "POST",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "get": "GET",
    "list": "LIST",
    "patch": "PATCH",
    "update": "PUT",
    "watch": "WATCH",
}
_HEALTH = frozenset(("/healthz", "/livez", "/readyz"))


class Series:
    """Times of one set of labels, and how often each code came of it."""

    __slots__ = ("buckets", "codes", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.codes: dict[int, int] = {}
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Counted:
    """A number that is counted in place."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Metrics:
    """All that one server counts."""

    def __init__(self) -> None:
        self._requests: dict[Words, Series] = {}
        self._running: dict[Words, Counted] = {}
        self._events: dict[Words, Counted] = {}
        self._store: dict[Words, Series] = {}
        self._inflight = {True: 0, False: 0}
        self._peak = {True: 0, False: 0}

    def enter(self, reading: bool) -> None:
        """Count a request that begins to run."""
        now = self._inflight[reading] = self._inflight[reading] + 1
        if now > self._peak[reading]:
            self._peak[reading] = now

    def leave(self, reading: bool) -> None:
        self._inflight[reading] -= 1

    def finished(self, words: Words, code: int, seconds: float) -> None:
        """Count an answered request."""
        series = self._requests.get(words)
        if series is None:
            series = self._requests[words] = Series()
        series.observe(seconds)
        series.codes[code] = series.codes.get(code, 0) + 1

    def stored(self, operation: str, key: str, seconds: float) -> None:
        """Count a request to the store; its labels are the beginning of the key."""
        group, _, rest = key.partition("/")
        resource = rest.partition("/")[0]
        words = (operation, group, resource)
        series = self._store.get(words)
        if series is None:
            series = self._store[words] = Series()
        series.observe(seconds)

    def running(self, words: Words) -> Counted:
        """Return the number of long requests of these labels that are open."""
        return self._running.setdefault(words, Counted())

    def events(self, group: str, version: str, resource: str) -> Counted:
        """Return the number of events that watches of a kind have sent."""
        return self._events.setdefault((group, version, resource), Counted())

    def text(self) -> str:
        """Return everything as Prometheus reads it."""
        lines = [*self._request_lines(), *self._other_lines()]
        self._peak = dict(self._inflight)
        return "\n".join(lines) + "\n"

    def _request_lines(self) -> Iterator[str]:
        name = "apiserver_request_total"
        yield from _head(name, "counter", "Answered requests, by what was asked and the code.")
        for words, series in self._requests.items():
            for code, count in series.codes.items():
                yield f"{name}{{{_labels(('code', *_REQUEST), (str(code), *words))}}} {count}"
        name = "apiserver_request_duration_seconds"
        yield from _head(name, "histogram", "Seconds from a request to the end of its answer.")
        for words, series in self._requests.items():
            yield from _histogram(name, _labels(_REQUEST, words), series)

    def _other_lines(self) -> Iterator[str]:
        name = "apiserver_current_inflight_requests"
        yield from _head(name, "gauge", "The most requests at once since the last reading.")
        yield f'{name}{{request_kind="mutating"}} {self._peak[False]}'
        yield f'{name}{{request_kind="readOnly"}} {self._peak[True]}'
        name = "apiserver_longrunning_requests"
        yield from _head(name, "gauge", "Open watches and other long requests.")
        labels = tuple(label for label in _REQUEST if label != "dry_run")
        for words, counted in self._running.items():
            yield f"{name}{{{_labels(labels, (*words[:6], words[7]))}}} {counted.value}"
        name = "apiserver_watch_events_total"
        yield from _head(name, "counter", "Events that were sent to watches.")
        for words, counted in self._events.items():
            yield f"{name}{{{_labels(_KIND, words)}}} {counted.value}"
        name = "etcd_requests_total"
        yield from _head(name, "counter", "Requests to the store, whichever it is.")
        labels = ("operation", "group", "resource")
        for words, series in self._store.items():
            yield f"{name}{{{_labels(labels, _named(words))}}} {sum(series.buckets)}"
        name = "etcd_request_duration_seconds"
        yield from _head(name, "histogram", "Seconds of a request to the store.")
        for words, series in self._store.items():
            yield from _histogram(name, _labels(labels, _named(words)), series)


def words_of(request: Request) -> Words:
    """Return the labels of a request to a resource."""
    kind = request.kind
    verb = _VERBS[request.verb]
    if verb == "PATCH" and (request.content_type or "").startswith(APPLY_PATCH):
        verb = "APPLY"
    scope = "cluster"
    if request.name or request.verb == "create":
        scope = "resource"
    elif request.namespace:
        scope = "namespace"
    part = request.subresource if request.subresource in kind.subresources else ""
    dry = "All" if request.query.get("dryRun") == "All" else ""
    return (verb, kind.group, kind.version, kind.resource, part, scope, dry, "apiserver")


def words_of_path(path: str) -> Words | None:
    """Return the labels of a question about health; other paths are not counted."""
    return ("GET", "", "", "", path, "", "", "") if path in _HEALTH else None


def _named(words: Words) -> Words:
    """Return the labels of a stored kind: the core group has no name."""
    operation, group, resource = words
    return (operation, "" if group == "core" else group, resource)


def _head(name: str, type_: str, text: str) -> Iterable[str]:
    return (f"# HELP {name} {text}", f"# TYPE {name} {type_}")


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in sorted(zip(names, values, strict=True)))


def _histogram(name: str, labels: str, series: Series) -> Iterator[str]:
    reached = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), series.buckets, strict=True):
        reached += count
        yield f'{name}_bucket{{{labels},le="{bound.removesuffix(".0")}"}} {reached}'
    yield f"{name}_sum{{{labels}}} {series.total:.9f}"
    yield f"{name}_count{{{labels}}} {reached}"


class TimedStore:
    """A store whose reads and writes are timed; all else is the store's own."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)  # FastReads, of stores that have them

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def compacted(self) -> int:
        return self._store.compacted

    @property
    def failures(self) -> Counter[str]:
        return self._store.failures

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        begun = time.perf_counter()
        try:
            return await self._store.get(key, revision=revision)
        finally:
            self._metrics.stored("get", key, time.perf_counter() - begun)

    async def range(
        self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0
    ) -> RangeResult:
        begun = time.perf_counter()
        try:
            return await self._store.range(
                prefix, start_after=start_after, limit=limit, revision=revision
            )
        finally:
            self._metrics.stored("list", prefix, time.perf_counter() - begun)

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> KeyValue:
        return (await self.transact((Put(key, value, expect),)))[0]

    async def delete(self, key: str, *, expect: int | None = None) -> KeyValue:
        return (await self.transact((Delete(key, expect),)))[0]

    async def transact(self, ops: Sequence[Op]) -> list[KeyValue]:
        begun = time.perf_counter()
        try:
            return await self._store.transact(ops)
        finally:
            if ops:
                self._metrics.stored(_operation(ops[0]), ops[0].key, time.perf_counter() - begun)

    def watch(self, prefix: str, *, after: int) -> Watcher:
        return self._store.watch(prefix, after=after)

    async def compact(self, revision: int) -> None:
        await self._store.compact(revision)

    async def wait_for(self, revision: int) -> None:
        await self._store.wait_for(revision)

    async def check(self) -> None:
        await self._store.check()

    async def close(self) -> None:
        await self._store.close()


def _operation(op: Op) -> str:
    if isinstance(op, Delete):
        return "delete"
    return "create" if op.expect == 0 else "update"
