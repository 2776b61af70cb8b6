"""Keeps the registry of kinds in step with the CustomResourceDefinitions in the store.

A definition written through this server counts at once; one written through another server on the
same store counts when the watch brings it. When a definition goes, so do its objects.
"""

from __future__ import annotations

import asyncio

from bayplan.apiserver import crd
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.kinds import Kind
from bayplan.store import Compacted, Conflict, NotFound

GROUP, RESOURCE = "apiextensions.k8s.io", "customresourcedefinitions"


def is_definition(kind: Kind) -> bool:
    return kind.resource == RESOURCE and kind.group == GROUP


class Definitions:
    """Serves what the stored definitions define."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._served: dict[str, tuple[int, list[Kind]]] = {}  # name → revision, kinds
        self._task: asyncio.Task[None] | None = None

    @property
    def _codec(self) -> Codec:
        codec = self._backend.codec_of(GROUP, RESOURCE)
        assert codec is not None
        return codec

    async def start(self) -> None:
        """Serve what is stored, and follow changes."""
        after = await self.sync()
        self._task = asyncio.create_task(self._follow(after))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, after: int) -> None:
        while True:
            try:
                async for _ in self._backend.store.watch(self._codec.prefix, after=after):
                    await self.sync()
                return  # the store was closed
            except Compacted:
                after = await self.sync()

    async def sync(self) -> int:
        """Read all definitions and bring the registry up to date; return the revision read."""
        codec = self._codec
        found = await self._backend.store.range(codec.prefix)
        present: set[str] = set()
        for kv in found.items:
            name = kv.key[len(codec.prefix) :]
            present.add(name)
            known = self._served.get(name)
            if known is None or known[0] != kv.mod_revision:
                self._serve(name, kv.mod_revision, codec.decode(kv))
        for name in set(self._served) - present:
            await self._retire(name)
        return found.revision

    def _serve(self, name: str, revision: int, definition: Object) -> None:
        registry = self._backend.registry
        kinds: list[Kind] = []
        if crd.definitions.is_established(definition):
            kinds = list(crd.kinds_of(definition))
        before = self._served.get(name, (0, []))[1]
        kept = {(kind.group, kind.version, kind.resource) for kind in kinds}
        for kind in before:
            if (kind.group, kind.version, kind.resource) not in kept:
                registry.remove(kind.group, kind.version, kind.resource)
        for kind in kinds:
            registry.add(kind)
        self._served[name] = (revision, kinds)

    async def _retire(self, name: str) -> None:
        _, kinds = self._served.pop(name)
        for kind in kinds:
            self._backend.registry.remove(kind.group, kind.version, kind.resource)
        if not kinds:
            return
        group, resource = kinds[0].storage
        left = await self._backend.store.range(f"{group}/{resource}/")
        for kv in left.items:
            try:
                await self._backend.store.delete(kv.key)
            except (Conflict, NotFound):
                continue  # another server on the same store is at it too


def establish(backend: Backend, definition: Object) -> None:
    """Accept a definition's names, or say why not, in its status."""
    others = backend.reader.list(GROUP, RESOURCE)
    accepted = crd.definitions.establish(definition, others, backend.now())
    definition["status"] = accepted["status"]
