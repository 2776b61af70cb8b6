"""What controllers stand on: shared caches, a work queue, writes that caches are held to.

A `Cache` is one informer a resource for all controllers, with indexes. After a controller has
written, `fresh` waits until the cache has seen that write: so a controller that looks at its cache
never repeats what it has just done, which upstream solves with expectations.

A `Worker` calls `reconcile(key)`, each key once however often it was added meanwhile. What fails
is tried again later, alone. Queues and indexes keep the order of arrival, so a run on a
virtual-time loop is repeatable. Delays are the loop's; the time of day is an injected clock.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack, cast

import msgspec
import structlog

from bayplan.client import Change, Client, ClientError, Informer, NotFound, Resource
from bayplan.client.rest import DeleteOptions, PatchOptions
from bayplan.controllers.objects import Bare, Json, Meta, Object, StorageClass, timestamp
from bayplan.controllers.recorder import Recorder

if TYPE_CHECKING:
    from bayplan.apiserver.signs import SignsOfLife

log = structlog.get_logger(__name__)


class Item(Protocol):
    """An object whose metadata is typed."""

    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=Item)
Reconcile = Callable[[str], Awaitable[float | None]]
RETRY_FIRST, RETRY_LAST = 0.05, 30.0
CATCH_UP_SECONDS = 10.0
GATHER_SECONDS = 0.02
TURN = 16  # keys worked on before others have their turn


class Cache(Generic[T]):
    """The objects of one resource, as far as this process has heard of them."""

    def __init__(self, client: Client, resource: Resource, type_: type[T]) -> None:
        self.resource = resource
        self.informer = Informer(client, resource, type_, optional=True)
        self.informer.add_handler(self._changed)
        self.written = 0
        self._listeners: list[Callable[[Change[T]], None]] = []
        self._indexes: dict[str, tuple[Callable[[T], Iterable[str]], dict[str, dict[str, T]]]] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def get(self, key: str) -> T | None:
        return self.informer.store.get(key)

    def all(self) -> list[T]:
        return list(self.informer.store.values())

    def listen(self, listener: Callable[[Change[T]], None]) -> None:
        """Call `listener` for each change, after indexes were brought up to date."""
        self._listeners.append(listener)
        for item in self.informer.store.values():
            listener(Change("ADDED", item, None))

    def add_index(self, name: str, keys_of: Callable[[T], Iterable[str]]) -> None:
        """Keep objects by other keys; adding one that is there already changes nothing."""
        if name in self._indexes:
            return
        index: dict[str, dict[str, T]] = {}
        self._indexes[name] = (keys_of, index)
        for item in self.informer.store.values():
            _enter(index, keys_of(item), item)

    def by(self, index: str, value: str) -> list[T]:
        """Return the objects of an index's entry, in the order they came."""
        return list(self._indexes[index][1].get(value, {}).values())

    async def fresh(self) -> None:
        """Wait until this cache has what this process wrote. Raises TimeoutError."""
        if self._version() >= self.written:
            return
        async with asyncio.timeout(CATCH_UP_SECONDS):
            while self._version() < self.written:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                await future

    def _version(self) -> int:
        return int(self.informer.last_version or 0)

    def _changed(self, changes: Sequence[Change[T]]) -> None:
        for type_, new, old in changes:
            key = new.metadata.key
            for keys_of, index in self._indexes.values():
                before = keys_of(old) if old is not None else ()
                after = keys_of(new) if type_ != "DELETED" else ()
                if before == after:
                    for value in after:  # as the newest of its entry, like any that comes
                        del index[value][key]
                        index[value][key] = new
                    continue
                if old is not None:
                    _leave(index, before, old)
                _enter(index, after, new)
        for change in changes:
            for listener in self._listeners:
                listener(change)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)


def _enter(index: dict[str, dict[str, T]], keys: Iterable[str], item: T) -> None:
    for key in keys:
        index.setdefault(key, {})[item.metadata.key] = item


def _leave(index: dict[str, dict[str, T]], keys: Iterable[str], item: T) -> None:
    for key in keys:
        entry = index.get(key)
        if entry is not None:
            entry.pop(item.metadata.key, None)
            if not entry:
                del index[key]


class Kit:
    """What a controller is built with."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], float],
        seed: int = 0,
        options: Json | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.rng = random.Random(seed)
        self.options = options or {}
        self.events = Recorder(client, clock, enabled=bool(self.options.get("events")))
        self.signs: SignsOfLife | None = None
        """Where simulated kubelets give signs of life without a request each."""
        self.errors: dict[str, int] = {}
        self._caches: dict[Resource, Cache[Any]] = {}  # of whatever type was asked for first
        self.on_cache: Callable[[Informer[Any]], None] = lambda informer: None

    def cache(self, resource: Resource) -> Cache[Object]:
        """Return the shared cache of a resource's whole objects."""
        return self._cache(resource, Object)

    def classes(self, resource: Resource) -> Cache[StorageClass]:
        return self._cache(resource, StorageClass)

    def typed(self, resource: Resource, type_: type[T]) -> Cache[T]:
        """Return the cache of a resource whose objects have no spec, as a type of their own."""
        return self._cache(resource, type_)

    def bare(self, resource: Resource) -> Cache[Bare]:
        """Return a cache with at least the metadata: the whole objects' if there is one."""
        return self._cache(resource, Bare)

    def _cache(self, resource: Resource, type_: type[T]) -> Cache[T]:
        found = self._caches.get(resource)
        if found is None:
            found = self._caches[resource] = Cache(self.client, resource, type_)
            self.on_cache(found.informer)
        # Whoever wants whole objects asks before the garbage collector, which asks for metadata.
        return cast("Cache[T]", found)

    def informers(self) -> list[Informer[Any]]:
        return [cache.informer for cache in self._caches.values()]

    def now(self) -> str:
        return timestamp(self.clock())

    def failed(self, name: str) -> None:
        self.errors[name] = self.errors.get(name, 0) + 1

    # -- writes that the caches are held to

    async def create(self, resource: Resource, body: Json, namespace: str = "") -> Json:
        return self._note(resource, await self.client.create(resource, body, namespace))

    async def patch(
        self, resource: Resource, key: str, body: Json, **options: Unpack[PatchOptions]
    ) -> Json:
        namespace, _, name = key.rpartition("/")
        raw = await self.client.patch(resource, name, body, namespace, **options)
        return self._note(resource, raw)

    async def set_status(self, resource: Resource, obj: Object, status: Json) -> None:
        """Write the given fields of a status, if one of them differs."""
        # What a server leaves out because it is zero or empty counts as such.
        if any((obj.status.get(name) or None) != (v or None) for name, v in status.items()):
            await self.patch(resource, obj.key, {"status": status}, subresource="status")

    async def report_status(self, resource: Resource, key: str, status: Json) -> None:
        """Write what a kubelet says; conditions of others (the scheduler's) are left alone.

        It holds no nulls and no directives of patches.
        """
        body = {"status": status}
        await self.patch(resource, key, body, kind="strategic", subresource="status")

    async def delete(self, resource: Resource, key: str, **options: Unpack[DeleteOptions]) -> None:
        """Delete an object; one that is gone already is fine."""
        namespace, _, name = key.rpartition("/")
        try:
            raw = await self.client.delete(resource, name, namespace, **options)
        except NotFound:
            return
        self._note(resource, raw)

    def _note(self, resource: Resource, raw: bytes) -> Json:
        """Return what names the object that was answered; the rest may be large."""
        found = msgspec.json.decode(raw, type=_Answered).metadata or _Names()
        cache = self._caches.get(resource)
        if cache is not None and found.resource_version:
            cache.written = max(cache.written, int(found.resource_version))
        return {"metadata": msgspec.to_builtins(found)}


class _Names(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Answered(msgspec.Struct):
    metadata: _Names | None = None


class WorkQueue:
    """Keys to look at: each once, in the order of arrival, never two at work with the same key."""

    def __init__(self) -> None:
        self._queue: deque[str] = deque()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._planned: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._idle: deque[asyncio.Future[None]] = deque()  # one waker for each who waits

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, key: str) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            if key not in self._busy:
                self._put(key)

    def _put(self, key: str) -> None:
        self._queue.append(key)
        self._wake()

    def _wake(self) -> None:
        while self._idle:
            waker = self._idle.popleft()
            if not waker.done():
                waker.set_result(None)
                return

    def add_soon(self, key: str) -> None:
        """Add a key so that a flood of changes becomes few calls."""
        if key not in self._waiting:
            self.add_after(key, GATHER_SECONDS)

    def add_after(self, key: str, delay: float) -> None:
        """Add a key later; of several plans the earliest counts."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max(delay, 0.0)
        planned = self._planned.get(key)
        if planned is not None:
            if planned[0] <= when:
                return
            planned[1].cancel()
        self._planned[key] = (when, loop.call_at(when, self._due, key))

    def _due(self, key: str) -> None:
        self._planned.pop(key, None)
        self.add(key)

    def retry(self, key: str) -> None:
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self.add_after(key, min(RETRY_FIRST * 2 ** min(count, 30), RETRY_LAST))

    def forget(self, key: str) -> None:
        self._failures.pop(key, None)

    async def get(self) -> str:
        while not self._queue:
            waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waker)
            try:
                await waker
            except asyncio.CancelledError:
                if waker in self._idle:
                    self._idle.remove(waker)
                elif self._queue:  # it was woken for work that it will not do
                    self._wake()
                raise
        key = self._queue.popleft()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        self._busy.discard(key)
        if key in self._waiting:
            self._put(key)

    def close(self) -> None:
        for _, handle in self._planned.values():
            handle.cancel()
        self._planned.clear()


class Worker:
    """Calls `reconcile` for keys. It returns seconds after which to look again, or None.

    `at_once` keys are worked on together, so that their writes share one sync to disk. Where doing
    a thing twice does no harm, `fresh` may be False: then caches are not waited for.
    """

    def __init__(
        self,
        kit: Kit,
        name: str,
        reconcile: Reconcile,
        caches: Sequence[Cache[Object]] = (),
        *,
        at_once: int = 1,
        fresh: bool = True,
    ) -> None:
        self.queue = WorkQueue()
        self.name = name
        self._kit = kit
        self._reconcile = reconcile
        self._caches = caches
        self._at_once = at_once
        self._fresh = fresh

    def use(self, caches: Sequence[Cache[Object]]) -> None:
        """Wait for these caches before each call."""
        self._caches = caches

    async def run(self) -> None:
        """Work until cancelled."""
        for cache in self._caches:
            await cache.informer.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._at_once):
                    group.create_task(self._work())
        finally:
            self.queue.close()

    async def _work(self) -> None:
        steps = 0
        while True:
            await self.step()
            steps += 1
            if steps % TURN == 0:  # keys that need no waiting must not keep everybody waiting
                await asyncio.sleep(0)

    async def step(self) -> None:
        key = await self.queue.get()
        try:
            if self._fresh:
                for cache in self._caches:
                    await cache.fresh()
            again = await self._reconcile(key)
        except (ClientError, TimeoutError) as error:
            # Somebody else wrote first, the server was busy: the normal life of a controller.
            log.debug("reconciling failed, retrying", controller=self.name, key=key, err=str(error))
            self.queue.retry(key)
        except Exception:
            self._kit.failed(self.name)
            log.exception("reconciling failed", controller=self.name, key=key)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)
        finally:
            self.queue.done(key)


class OneWorker:
    """A controller whose one worker does all its work."""

    _worker: Worker

    async def run(self) -> None:
        await self._worker.run()


async def together(calls: Iterable[Callable[[], Awaitable[object]]], at_once: int = 16) -> None:
    """Make calls, some at once; raises the first failure after all of its group have ended."""
    waiting = list(calls)
    for at in range(0, len(waiting), at_once):
        group = [call() for call in waiting[at : at + at_once]]
        for result in await asyncio.gather(*group, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result


def owner_index(obj: Item) -> tuple[str, ...]:
    """Index by the uid of the controlling owner."""
    owner = obj.metadata.controller
    return (owner.uid,) if owner is not None else ()


def namespace_index(obj: Item) -> tuple[str, ...]:
    return (obj.metadata.namespace,)


def node_index(pod: Object) -> tuple[str, ...]:
    node = pod.spec.get("nodeName")
    return (node,) if node else ()
