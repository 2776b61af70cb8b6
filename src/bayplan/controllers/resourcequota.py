"""Writes what each ResourceQuota allows and what its namespace uses.

Admission refuses what a quota does not allow as soon as its `status.hard` is written here; it
counts by itself, so the numbers in `status.used` are for people. Pods, services and claims are
counted with their amounts, and those kinds are all that is watched.
"""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.apiserver.admission.quota import used_of
from bayplan.client import Change, Resource
from bayplan.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from bayplan.controllers.objects import Json, Object
from bayplan.controllers.runtime import Kit, Worker, namespace_index

RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
COUNTED = (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS)


class _Kind:
    """A kind as the quota's arithmetic names it."""

    def __init__(self, resource: Resource) -> None:
        self.group = resource.group
        self.resource = resource.plural


class ResourceQuotaController:
    """Keeps the status of quotas true."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._quotas = kit.cache(RESOURCE_QUOTAS)
        self._quotas.add_index("namespace", namespace_index)
        self._counted = {resource: kit.cache(resource) for resource in COUNTED}
        caches = (self._quotas, *self._counted.values())
        self._worker = Worker(kit, "resourcequota", self._sync, caches)
        self._quotas.listen(lambda change: self._worker.queue.add(change.new.key))
        for cache in self._counted.values():
            cache.add_index("namespace", namespace_index)
            cache.listen(self._changed)

    async def run(self) -> None:
        await self._worker.run()

    def _changed(self, change: Change[Object]) -> None:
        for quota in self._quotas.by("namespace", change.new.metadata.namespace):
            self._worker.queue.add_soon(quota.key)

    async def _sync(self, key: str) -> float | None:
        quota = self._quotas.get(key)
        if quota is None or quota.deleted:
            return None
        hard: Json = quota.spec.get("hard") or {}
        used: dict[str, int] = {}
        for resource, cache in self._counted.items():
            objects = [
                {"spec": obj.spec, "status": obj.status}
                for obj in cache.by("namespace", quota.metadata.namespace)
            ]
            used.update(used_of({"spec": quota.spec}, objects, _Kind(resource)))
        known = {name: quantity.format_nanos(used.get(name, 0)) for name in hard}
        if {"hard": hard, "used": known} != quota.status:
            # A merge patch removes what is null: names that the quota no longer bounds.
            gone = dict.fromkeys(
                name for name in quota.status.get("hard") or {} if name not in hard
            )
            status = {"hard": {**gone, **hard}, "used": {**gone, **known}}
            await self._kit.patch(RESOURCE_QUOTAS, key, {"status": status}, subresource="status")
        return None
