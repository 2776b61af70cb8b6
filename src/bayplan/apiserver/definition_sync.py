"""Keeps the registry of kinds in step with the CustomResourceDefinitions in the store.

A definition written through this server counts at once; one written through another server on the
same store counts when the watch brings it. Built-in names cannot be taken. A definition that is
deleted waits for its objects (`verbs.cleanup`); it is looked at again every second until they went.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from bayplan.apiserver import crd
from bayplan.apiserver.apiservices import write_services
from bayplan.apiserver.aside import aside_of
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.following import Following
from bayplan.apiserver.kinds import Kind
from bayplan.store import Event, KeyValue, StoreError
from bayplan.supervised import end, supervised

log = structlog.get_logger(__name__)
AGAIN_SECONDS = 1.0
Finish = Callable[[Backend, Codec, KeyValue, list[Kind]], Awaitable[bool]]

GROUP, RESOURCE = "apiextensions.k8s.io", "customresourcedefinitions"


def is_definition(kind: Kind) -> bool:
    return kind.resource == RESOURCE and kind.group == GROUP


class Definitions:
    """Serves what the stored definitions define."""

    def __init__(self, backend: Backend, finish: Finish) -> None:
        self._backend = backend
        self._finish = finish
        self._served: dict[str, tuple[int, list[Kind]]] = {}  # name → revision, kinds
        self._registered = -1  # for which generation of the registry services were written
        self._following: Following | None = None
        self._looking: asyncio.Task[None] | None = None
        self._syncing, self._ending = asyncio.Lock(), asyncio.Lock()
        self._some_go = asyncio.Event()
        """Set while a definition is to go; nobody is woken every second for nothing."""

    @property
    def _codec(self) -> Codec:
        codec = self._backend.codec_of(GROUP, RESOURCE)
        assert codec is not None
        return codec

    async def start(self) -> None:
        """Serve what is stored, and follow changes."""
        failures = self._backend.background_failures
        store = self._backend.store
        self._following = Following(store, self._codec.prefix, self.sync, self._heard, failures)
        await self._following.start()
        self._looking = supervised("definitions that go", self._look_again, failures)

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()
        await end(self._looking)

    async def _look_again(self) -> None:
        """Come back to definitions whose objects have not gone yet."""
        while True:
            await self._some_go.wait()
            await asyncio.sleep(AGAIN_SECONDS)
            if not self._backend.terminating:
                self._some_go.clear()
                continue
            try:
                await self.sync()
            except (ApiError, StoreError) as error:
                log.warning("definitions cannot be cleaned up", error=str(error))

    async def _heard(self, batch: list[Event]) -> None:
        await self.sync()

    async def sync(self) -> int:
        """Read all definitions and bring the registry up to date; return the revision read."""
        codec = self._codec
        async with self._syncing:
            found = await self._backend.store.range(codec.prefix)
            present: set[str] = set()
            for kv in found.items:
                name = kv.key[len(codec.prefix) :]
                present.add(name)
                known = self._served.get(name)
                if known is None or known[0] != kv.mod_revision:
                    definition, kinds = await aside_of(len(kv.value), _defined, codec, kv)
                    self._serve(name, kv.mod_revision, definition, kinds)
            for name in set(self._served) - present:
                self._retire(name)
        if self._backend.terminating:
            async with self._ending:
                for kv in found.items:
                    await self._end(codec, kv)
        generation = self._backend.registry.generation
        if self._backend.registers_services and generation != self._registered:
            self._registered = generation
            await write_services(self._backend)
        return found.revision

    async def _end(self, codec: Codec, kv: KeyValue) -> None:
        """Let a definition go that is marked, once its objects have gone."""
        name = kv.key[len(codec.prefix) :]
        definition = codec.decode(kv)
        if definition["metadata"].get("deletionTimestamp") is None or name not in self._served:
            return
        if await self._finish(self._backend, codec, kv, self._served[name][1]):
            self._retire(name)

    def _serve(self, name: str, revision: int, definition: Object, kinds: list[Kind]) -> None:
        registry = self._backend.registry
        before = self._served.get(name, (0, []))[1]
        kept = {(kind.group, kind.version, kind.resource) for kind in kinds}
        for kind in before:
            if (kind.group, kind.version, kind.resource) not in kept:
                registry.remove(kind.group, kind.version, kind.resource)
        for kind in kinds:
            registry.add(kind)
        if definition["metadata"].get("deletionTimestamp"):
            spec = definition["spec"]
            self._backend.terminating.add((spec["group"], spec["names"]["plural"]))
            self._some_go.set()
        self._served[name] = (revision, kinds)

    def _retire(self, name: str) -> None:
        known = self._served.pop(name, None)
        for kind in known[1] if known else ():
            self._backend.registry.remove(kind.group, kind.version, kind.resource)
        resource, _, group = name.partition(".")
        self._backend.terminating.discard((group, resource))


def _defined(codec: Codec, kv: KeyValue) -> tuple[Object, list[Kind]]:
    """Return a definition, and the kinds that it adds."""
    definition = codec.decode(kv)
    if not crd.definitions.is_established(definition):
        return definition, []
    return definition, list(crd.kinds_of(definition))


def establish(backend: Backend, definition: Object) -> None:
    """Accept a definition's names, or say why not, in its status."""
    others = backend.reader.list(GROUP, RESOURCE)
    group = definition["spec"]["group"]
    ours = [kind for kind in backend.registry if kind.group == group and not kind.custom]
    resources = {name for kind in ours for name in (kind.resource, kind.singular)}
    kinds = {name for kind in ours for name in (kind.kind, f"{kind.kind}List")}
    accepted = crd.definitions.establish(definition, others, backend.now(), (resources, kinds))
    definition["status"] = accepted["status"]
