"""What the verbs share: the store, the kinds with their codecs, the clock and the name generators.

Everything that is not a function of the request is injected here, so a simulation with its own
clock, uids and name endings is repeatable byte for byte.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from bayplan.apiserver.admission import OPTIONAL, Chain
from bayplan.apiserver.authorization import AlwaysAllow, Authorizer, Rbac
from bayplan.apiserver.codec import Codec
from bayplan.apiserver.containers import Containers
from bayplan.apiserver.dynamic import DynamicAdmission
from bayplan.apiserver.errors import ApiError, not_found
from bayplan.apiserver.kinds import Kind, Registry
from bayplan.apiserver.kinds import metrics as metrics_kinds
from bayplan.apiserver.metrics import Metrics
from bayplan.apiserver.reader import CachedReader
from bayplan.apiserver.remotes import Remotes
from bayplan.apiserver.turns import Turns
from bayplan.apiserver.version_kinds import version_kinds
from bayplan.apiserver.versions import Cache, Versions
from bayplan.apiserver.watchdog import Watchdog
from bayplan.config import DEFAULT_GATES, FeatureGates
from bayplan.store import Compacted, Event, KeyValue, Store, Watcher

if TYPE_CHECKING:
    from bayplan.apiserver.calling import Caller
    from bayplan.apiserver.indexed import Indexed

# The letters of generated name endings: no vowels and no look-alikes, so no words come out.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


ENTRY_BYTES = 200  # of a place in an event's cache, beside what stands there


def random_suffix() -> str:
    return "".join(random.choices(SUFFIX_LETTERS, k=5))


def random_uid() -> str:
    """Return a UUID of version 4; several times cheaper than the standard library's objects."""
    h = os.urandom(16).hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{'89ab'[int(h[16], 16) & 3]}{h[17:20]}-{h[20:]}"


class Clock(Protocol):
    """Returns the time in seconds since 1970."""

    def __call__(self) -> float: ...


class Backend:
    """The parts that verbs work on. One per server."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock = time.time,
        uid: Callable[[], str] = random_uid,
        suffix: Callable[[], str] = random_suffix,
        check_capacity: bool = False,
        track_managers: bool = True,
        rbac: bool = False,
        disabled_plugins: Iterable[str] = OPTIONAL,
        gates: FeatureGates = DEFAULT_GATES,
        metrics: Metrics | None = None,
    ) -> None:
        self.store = store
        self.versions = Versions(store, lambda: self.caller)
        self._indexed: Indexed | None = None
        self._caller: Caller | None = None
        self.registry = Registry(version_kinds(gates))
        self.release = gates.release
        self.clock = clock
        self.new_uid = uid
        self.new_suffix = suffix
        self.check_capacity = check_capacity
        self.track_managers = track_managers
        """Whether ordinary writes keep `metadata.managedFields`; only simulations do without."""
        self._codecs: dict[tuple[str, str, str], Codec] = {}
        self.registers_services = False
        """Whether an APIService is kept for each version of a group that is served."""
        self.whole_cluster = False
        """Whether controllers and nodes run in this process, and so nobody else does."""
        self._containers: Containers | None = None
        self._second = (0, "")
        # The newest events that watchers have encoded; older ones drop what they had shared.
        self.encoded_events: deque[Event] = deque(maxlen=1024)
        self.encoded_bytes = 0
        self.watchdog = Watchdog()
        self.metrics = Metrics() if metrics is None else metrics
        self.started = self.ending = False
        """Whether all that is mirrored has been read, and whether the server is about to end."""
        self.watchers: set[Watcher] = set()  # of open watches
        self.opened_watches = 0
        self.terminating: set[tuple[str, str]] = set()  # storage of definitions that are to go
        self.remotes = Remotes()
        self.background_failures: Counter[str] = Counter()  # by work that was begun again
        self.reader = CachedReader(store, self.codec_of, self.background_failures)
        self.turns = Turns(store, self.reader)
        self.authorizer: Authorizer = Rbac(self.reader) if rbac else AlwaysAllow()
        self.admission = Chain(disabled_plugins, suffix)
        self.dynamic = DynamicAdmission(self, disabled_plugins)

    @property
    def containers(self) -> Containers | None:
        """Who runs containers in this process, if anybody does; serves metrics.k8s.io as well."""
        return self._containers

    @containers.setter
    def containers(self, containers: Containers | None) -> None:
        self._containers = containers
        for kind in metrics_kinds() if containers is not None else ():
            self.registry.add(kind)

    @property
    def caller(self) -> Caller:
        """Who calls webhooks; what that needs is only loaded when there is one to call."""
        if self._caller is None:
            from bayplan.apiserver.calling import Caller

            self._caller = Caller(self.reader)
        return self._caller

    @property
    def indexed(self) -> Indexed:
        """Collections by the value of a field; nothing is kept until somebody asks."""
        if self._indexed is None:
            from bayplan.apiserver.indexed import Indexed

            self._indexed = Indexed(self.store)
        return self._indexed

    async def close(self) -> None:
        self.dynamic.close()
        if self._caller is not None:
            await self._caller.close()
        if self._indexed is not None:
            self._indexed.close()
        await self.reader.close()

    def remember_encoded(self, line: bytes, limit: int) -> None:
        """Count an encoded event; the oldest ones drop what they shared beyond the limit."""
        self.encoded_bytes += len(line) + ENTRY_BYTES
        while self.encoded_bytes > limit and self.encoded_events:
            self._forget_encoded()

    def cache_of(self, event: Event) -> Cache:
        """Return an event's shared results; only the newest events keep theirs."""
        if event.cache is None:
            event.cache = {}
            if len(self.encoded_events) == self.encoded_events.maxlen:
                self._forget_encoded()
            self.encoded_events.append(event)
        return event.cache

    def _forget_encoded(self) -> None:
        """Drop what the oldest event shares."""
        event = self.encoded_events.popleft()
        cache, event.cache = event.cache, None
        for shared in cache.values() if cache else ():
            if type(shared) is bytes:
                self.encoded_bytes -= len(shared) + ENTRY_BYTES

    def codec(self, kind: Kind) -> Codec:
        found = self._codecs.get((kind.group, kind.version, kind.resource))
        if found is None or found.kind is not kind:
            found = Codec(kind)
            self._codecs[kind.group, kind.version, kind.resource] = found
        return found

    def codec_of(self, group: str, resource: str) -> Codec | None:
        """Return the codec of a resource in whichever version is served."""
        kind = self.registry.by_resource(group, resource)
        return self.codec(kind) if kind else None

    def now(self) -> str:
        """Return the present second as Kubernetes writes it."""
        second = int(self.clock())
        if second != self._second[0]:
            self._second = (second, timestamp(second))
        return self._second[1]

    async def get(self, codec: Codec, namespace: str, name: str) -> KeyValue | None:
        return await self.versions.get(codec, codec.key(namespace, name))

    async def must_get(self, codec: Codec, namespace: str, name: str) -> KeyValue:
        """Read one object. Raises the 404 of its kind."""
        found = await self.versions.get(codec, codec.key(namespace, name))
        if found is None:
            raise not_found(codec.kind.group, codec.kind.resource, name)
        return found


def timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def gone(error: Compacted) -> ApiError:
    text = f"too old resource version: {error.asked} ({error.compacted})"
    return ApiError(410, "Expired", text)
