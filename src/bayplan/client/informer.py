"""A local copy of one resource, kept up to date by list and watch.

The informer lists once, then watches from the list's version. A watch that ends is resumed from
the last version seen (an object's or a bookmark's); when the server no longer knows that version
(410) the resource is listed again, and the difference to the copy becomes updates and deletes, so
handlers never miss that an object went. An event that is not newer than what the copy holds, or
than the deletion of that object, is dropped: duplicates and late arrivals do no harm.

Handlers are called with batches: all changes of one network read (or of a list) in one call,
because the cost per call, not per change, is what a busy scheduler feels. They must not block; what
they raise is logged and counted, and stops nothing.

Decoding goes straight into the given msgspec struct; fields it lacks (managedFields) are skipped by
the parser without being built. Retry delays grow from 0.8 s to 30 s as in client-go, on the
running loop's clock; `jitter` is injected so that simulations can be exact.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec
import structlog

from bayplan.api import strip_nulls
from bayplan.client.errors import (
    ApiError,
    ClientError,
    Gone,
    RequestTimeout,
    TransportError,
    Unauthorized,
    error_from,
)
from bayplan.client.outage import Outage
from bayplan.client.resources import Resource
from bayplan.client.rest import UNREADABLE, Client, Paging

log = structlog.get_logger(__name__)


class Meta(Protocol):
    """What an informer reads of an object's metadata."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class HasMeta(Protocol):
    """An API object."""

    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=HasMeta)
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Change(NamedTuple, Generic[T]):
    """One change of the copy: `old` is None for ADDED; for DELETED `new` is the last state seen."""

    type: ChangeType
    new: T
    old: T | None


Handler = Callable[[Sequence[Change[T]]], None]

BACKOFF_FIRST = 0.8
BACKOFF_LIMIT = 30.0
TOMBSTONES = 10_000
PAGE = 500
LATE = 30  # seconds that a server may be late with the end of a watch; then nothing comes from it
BREATH = 256 * 1024  # bytes of events after which others have their turn
TOO_NEW = "Too large resource version"
CONTROL = ("BOOKMARK", "ERROR")  # types of events that bring no object of the kind


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _BareMeta(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()


class _Bookmark(msgspec.Struct, frozen=True):
    object: _BareMeta


class _ErrorEvent(msgspec.Struct, frozen=True):
    object: msgspec.Raw


class _TypeOnly(msgspec.Struct, frozen=True):
    type: str


class _NameMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _NameMeta = _NameMeta()


class _RawList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None  # what has none is no list
    metadata: _ListMeta = _ListMeta()


_raw_list_decoder = msgspec.json.Decoder(_RawList)
_named_decoder = msgspec.json.Decoder(_Named)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)
_error_decoder = msgspec.json.Decoder(_ErrorEvent)
_type_decoder = msgspec.json.Decoder(_TypeOnly)


class _Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    type: str
    object: T


class _List(msgspec.Struct, Generic[T], frozen=True):
    items: list[T] | None
    metadata: _ListMeta = _ListMeta()


class Informer(Generic[T]):
    """Keeps `store` (key `namespace/name`, or `name`) equal to the server's objects."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type_: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        jitter: Callable[[], float] = lambda: 0.0,
        optional: bool = False,
        keep_texts: bool = False,
        transform: Callable[[T], T] | None = None,
        outage: Outage | None = None,
    ) -> None:
        """`optional`: a server without this resource (404, 403) counts as synced and empty.

        `keep_texts`: also keep the JSON of each object, for those who pass whole objects on.
        `transform`: what is kept and told instead of an object, to save memory, say; it must keep
        name, namespace and version.
        `outage`: shared by informers of one server, so that its absence is told once.
        """
        self._outage = outage or Outage()
        self._transform = transform
        self.texts: dict[str, bytes] | None = {} if keep_texts else None
        self.resource = resource
        self.store: dict[str, T] = {}
        self.has_synced = False
        self.relists = 0
        self.handler_errors = 0
        self.decode_errors = 0
        self.last_version = ""
        self.heard = 0
        """How often a watch brought something, be it a bookmark: the server was there then."""
        self._client = client
        self._type = type_
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._jitter = jitter
        self._optional = optional
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._watching = asyncio.Event()
        self.broken = asyncio.Event()
        """Set while no watch is open."""
        self.broken.set()
        self._graves: OrderedDict[str, int] = OrderedDict()
        self._fresh_list = False
        self._decode_event = msgspec.json.Decoder(_Event[type_]).decode  # type: ignore[valid-type]
        self._decode_list = msgspec.json.Decoder(_List[type_]).decode  # type: ignore[valid-type]

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler` with every batch of changes; one added late first gets the whole copy."""
        self._handlers.append(handler)
        if self.store:
            self._notify([Change("ADDED", item, None) for item in self.store.values()], [handler])

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return an object of the copy."""
        return self.store.get(f"{namespace}/{name}" if namespace else name)

    async def wait_synced(self) -> None:
        """Return once the first list has been handed to the handlers."""
        await self._synced.wait()

    async def wait_watching(self) -> None:
        """Return once a watch has been accepted: from then on changes come without delay."""
        await self._watching.wait()

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        backoff, expired = 0.0, -1
        while True:
            try:
                if not self.last_version:
                    await self._relist()
                version = self.last_version
                await self._follow()
                backoff = 0.0 if self.last_version != version else BACKOFF_FIRST
            except Gone:
                log.debug("watch expired, listing again", resource=self.resource.plural)
                # A second 410 in a row waits: the list itself may be too old for a watch.
                backoff = BACKOFF_FIRST if self.relists == expired else 0.0
                self.last_version, self._fresh_list, expired = "", True, self.relists + 1
            except (ClientError, *UNREADABLE) as problem:
                if self._absent(problem):
                    self.mark_synced()
                    self._watching.set()
                if isinstance(problem, UNREADABLE) or TOO_NEW in str(problem):
                    # What was lost, or the past of a restored server, is found by a list.
                    self.last_version, self._fresh_list = "", True
                self._tell(problem, again=backoff > 0)
                backoff = min(max(backoff * 2, BACKOFF_FIRST), BACKOFF_LIMIT)
            if backoff:
                await asyncio.sleep(backoff * (1.0 + self._jitter()))

    def _tell(self, problem: Exception, *, again: bool) -> None:
        """Log a failure; what the next attempt mends is worth no line, what all share one."""
        if isinstance(problem, TransportError | Unauthorized):
            if again or not self.has_synced:
                self._outage.failed(problem)
            return
        tell = log.debug if self.has_synced else log.warning
        tell("list or watch failed", resource=self.resource.plural, err=str(problem))

    def _absent(self, problem: Exception) -> bool:
        return self._optional and isinstance(problem, ApiError) and problem.code in (403, 404)

    # -- list

    async def _relist(self) -> None:
        """List all objects and turn the difference to the copy into changes."""
        fresh: dict[str, T] = {}
        version = token = ""
        paging = Paging()
        while True:
            raw = await self._client.list(
                self.resource,
                self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                # Version 0 lets the server answer from its cache; after a 410 that could be the
                # very state that has expired.
                resource_version=None if self._fresh_list or token else "0",
                limit=PAGE if self._fresh_list or token else 0,
                continue_=token,
            )
            self._outage.over()
            paging.check(raw)
            meta, items = self._read_list(raw)
            for item in items:
                fresh[_key(item)] = item if self._transform is None else self._transform(item)
            version = version or meta.resource_version
            token = meta.continue_
            if not token:
                break
        self._replace(fresh, version)

    def _read_list(self, raw: bytes) -> tuple[_ListMeta, list[T]]:
        if self.texts is not None:
            self._keep_listed(raw)
        try:
            page = self._decode_list(raw)
        except msgspec.ValidationError:
            rough = _raw_list_decoder.decode(raw)
            found = [self._lenient(bytes(item)) for item in rough.items or ()]
            return rough.metadata, [item for item in found if item is not None]
        return page.metadata, page.items or []

    def _keep_listed(self, raw: bytes) -> None:
        assert self.texts is not None
        for text in _raw_list_decoder.decode(raw).items or ():
            self.texts[_key(_named_decoder.decode(text))] = bytes(text)

    def text_of(self, item: HasMeta) -> bytes | None:
        """The JSON of an object at its newest version, None when texts are not kept."""
        return None if self.texts is None else self.texts.get(_key(item))

    def _lenient(self, raw: bytes) -> T | None:
        """Decode an object that holds nulls, as Go programs write them; None if that fails too."""
        try:
            return msgspec.convert(strip_nulls(msgspec.json.decode(raw)), self._type)
        except msgspec.ValidationError as problem:
            self.decode_errors += 1
            log.warning("object left out", resource=self.resource.plural, err=str(problem))
            return None

    def _replace(self, fresh: dict[str, T], version: str) -> None:
        changes: list[Change[T]] = []
        for key, item in fresh.items():
            old = self.store.get(key)
            if old is None:
                changes.append(Change("ADDED", item, None))
            elif old.metadata.uid != item.metadata.uid:
                changes.append(Change("DELETED", old, old))
                changes.append(Change("ADDED", item, None))
            elif old.metadata.resource_version != item.metadata.resource_version:
                changes.append(Change("MODIFIED", item, old))
            else:
                fresh[key] = old
        changes += [
            Change("DELETED", old, old) for key, old in self.store.items() if key not in fresh
        ]
        self.store = fresh
        if self.texts is not None:
            self.texts = {key: text for key, text in self.texts.items() if key in fresh}
        self._graves.clear()
        self.last_version = version
        self._fresh_list = False
        self.relists += 1
        self._notify(changes, self._handlers)
        self.mark_synced()

    def mark_synced(self) -> None:
        """Say that the copy is complete, for one that is filled by other means."""
        self.has_synced = True
        self._synced.set()

    # -- watch

    async def _follow(self) -> None:
        """Apply watch events until the stream ends."""
        # Between five and ten minutes, as client-go: spreads the load of many watchers.
        timeout = int(300 * (1.0 + min(self._jitter(), 1.0)))
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self.last_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=timeout,
            straight=self._take,
        )
        applied = 0
        limit = None if self._client.timeout is None else timeout + LATE
        try:
            async with asyncio.timeout(limit), aclosing(events):
                async for lines in events:
                    self._watching.set()
                    self.broken.clear()
                    self._outage.over()
                    if lines:
                        self.heard += 1
                        self._apply(lines)
                        applied += sum(map(len, lines))
                    if applied > BREATH:  # large ones that wait already must not hold the loop
                        applied = 0
                        await asyncio.sleep(0)
        except TimeoutError as late:
            what = self.resource.plural
            raise RequestTimeout(f"watching {what}: no end, {LATE} s after its time") from late
        finally:
            self.broken.set()

    def _take(self, lines: list[bytes]) -> bool:
        """Apply events between two turns; those that cannot be are left to `_follow`."""
        try:
            self._apply(lines)
        except (ClientError, msgspec.DecodeError, UnicodeDecodeError):
            return False
        self.heard += 1
        return True

    def _apply(self, lines: list[bytes]) -> None:
        changes: list[Change[T]] = []
        try:
            for line in lines:
                try:
                    event = self._decode_event(line)
                except msgspec.ValidationError:
                    self._apply_rough(line, changes)
                    continue
                if event.type in CONTROL:
                    self._control(line)
                else:
                    self._change(event.type, event.object, line, changes)
        finally:
            if changes:
                self._notify(changes, self._handlers)

    def _apply_rough(self, line: bytes, changes: list[Change[T]]) -> None:
        """Apply an event that did not decode at once."""
        type_ = _type_decoder.decode(line).type
        if type_ in CONTROL:
            self._control(line)
            return
        item = self._lenient(bytes(_error_decoder.decode(line).object))
        if item is not None:
            self._change(type_, item, line, changes)

    def _control(self, line: bytes) -> None:
        if _type_decoder.decode(line).type == "BOOKMARK":
            self.last_version = _bookmark_decoder.decode(line).object.metadata.resource_version
            return
        failure = error_from(500, bytes(_error_decoder.decode(line).object))
        raise failure

    def _change(self, type_: str, item: T, line: bytes, changes: list[Change[T]]) -> None:
        """Apply one event to the copy, unless it tells nothing new, and note what changed."""
        key = _key(item)
        version = _number(item.metadata.resource_version)
        old = self.store.get(key)
        if old is not None and version <= _number(old.metadata.resource_version):
            # A deletion can carry the version of the last write on servers other than Kubernetes'.
            if type_ != "DELETED" or version < _number(old.metadata.resource_version):
                return
        elif old is None and version <= self._graves.get(key, -1):
            return
        if version > _number(self.last_version):
            self.last_version = item.metadata.resource_version
        if self._transform is not None:
            item = self._transform(item)
        if type_ == "DELETED":
            self._bury(key, version)
            if self.texts is not None:
                self.texts.pop(key, None)
            if old is not None:
                del self.store[key]
                changes.append(Change("DELETED", item, old))
            return
        self.store[key] = item
        if self.texts is not None:
            self.texts[key] = bytes(_error_decoder.decode(line).object)
        if old is not None and old.metadata.uid != item.metadata.uid:
            changes.append(Change("DELETED", old, old))  # its own event was lost
            old = None
        changes.append(Change("ADDED" if old is None else "MODIFIED", item, old))

    def _bury(self, key: str, version: int) -> None:
        self._graves[key] = version
        if len(self._graves) > TOMBSTONES:
            self._graves.popitem(last=False)

    def _notify(self, changes: list[Change[T]], handlers: Sequence[Handler[T]]) -> None:
        if not changes:
            return
        for handler in handlers:
            try:
                handler(changes)
            except Exception:  # one handler's bug must not starve the others of changes
                self.handler_errors += 1
                log.exception("informer handler failed", resource=self.resource.plural)


def _key(item: HasMeta) -> str:
    meta = item.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _number(version: str) -> int:
    return int(version) if version else 0
