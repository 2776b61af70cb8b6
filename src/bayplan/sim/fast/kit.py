"""What controllers stand on in a fast world: caches of pods and nodes that are never behind."""

from __future__ import annotations

from typing import Any, TypeVar, Unpack, cast

import msgspec

from bayplan.client import Change, Informer, NotFound, Resource
from bayplan.client.resources import PODS
from bayplan.client.rest import DeleteOptions, PatchOptions
from bayplan.controllers.objects import Bare, Json, Meta, Object
from bayplan.controllers.runtime import Cache, Item, Kit
from bayplan.sim.fast.client import HERE, FastClient
from bayplan.sim.fast.cluster import Entry, FastCluster

T = TypeVar("T", bound=Item)


class FastCache(Cache[Object]):
    """The pods or nodes of a cluster in memory, as controllers read them."""

    def __init__(self, client: FastClient, cluster: FastCluster, resource: Resource) -> None:
        super().__init__(client, resource, Object)
        store = self.informer.store
        for key, entry in cluster.shelves[resource].items():
            store[key] = view(entry)
        self.informer.mark_synced()
        cluster.listen(resource, self._written)

    def _written(self, action: str, resource: Resource, entry: Entry, old: Entry | None) -> None:
        store = self.informer.store
        key = entry.key
        if action == "MARKED":
            return  # it is gone in a moment
        before = store.get(key)
        if action == "DELETED":
            store.pop(key, None)
            change = Change("DELETED", view(entry), before)
        else:
            new = store[key] = view(entry)
            change = Change("ADDED" if before is None else "MODIFIED", new, before)
        self._changed((change,))

    async def fresh(self) -> None:
        return


def view(entry: Entry) -> Object:
    """An object as controllers read it."""
    body = entry.body
    meta = msgspec.convert(body["metadata"], Meta)
    return Object(meta, body.get("spec") or {}, body.get("status") or {})


class FastKit(Kit):
    """A kit whose pods and nodes are in memory."""

    def __init__(self, client: FastClient, cluster: FastCluster, **more: Any) -> None:
        super().__init__(client, **more)
        self._fast = client
        self.cluster = cluster

    def _cache(self, resource: Resource, type_: type[T]) -> Cache[T]:
        here = HERE.get(resource)
        if here is None:
            return super()._cache(resource, type_)
        if here not in self._caches:
            self._caches[here] = FastCache(self._fast, self.cluster, here)
        return cast("Cache[T]", self._caches[here])

    def bare(self, resource: Resource) -> Cache[Bare]:
        """Whole objects always: a controller that wants them may begin later."""
        if resource.plural == "storageclasses":
            return cast("Cache[Bare]", self.classes(resource))
        return cast("Cache[Bare]", self.cache(resource))

    def informers(self) -> list[Informer[Any]]:
        return [
            cache.informer for cache in self._caches.values() if not isinstance(cache, FastCache)
        ]

    async def create(self, resource: Resource, body: Json, namespace: str = "") -> Json:
        if resource == PODS:
            return await self._fast.add(PODS, body, namespace)
        return await super().create(resource, body, namespace)

    async def patch(
        self, resource: Resource, key: str, body: Json, **options: Unpack[PatchOptions]
    ) -> Json:
        if (here := HERE.get(resource)) is not None:
            return self._fast.change(here, key, body, options)
        return await super().patch(resource, key, body, **options)

    async def report_status(self, resource: Resource, key: str, status: Json) -> None:
        if resource == PODS:
            self.cluster.report_status(key, status)
            return
        await super().report_status(resource, key, status)

    async def delete(self, resource: Resource, key: str, **options: Unpack[DeleteOptions]) -> None:
        here = HERE.get(resource)
        if here is None:
            await super().delete(resource, key, **options)
            return
        try:
            self.cluster.delete(here, key, **options)
        except NotFound:
            return
