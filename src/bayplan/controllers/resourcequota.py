"""Writes what each ResourceQuota allows and what its namespace uses.

Admission refuses what a quota does not allow as soon as its `status.hard` is written here; it
counts by itself, so the numbers in `status.used` are for people. Pods, services and claims are
counted with their amounts, every other kind by number; a kind is followed from the first quota on
that bounds it.
"""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.apiserver.admission.quota import kind_counted, used_of
from bayplan.client import Change
from bayplan.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES
from bayplan.controllers.namespace import discover
from bayplan.controllers.objects import Bare, Json, Object
from bayplan.controllers.runtime import Cache, Kit, OneWorker, Worker, namespace_index

AMOUNTS = (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS)


class _Kind:
    """A kind as the quota's arithmetic names it."""

    def __init__(self, group: str, plural: str) -> None:
        self.group = group
        self.resource = plural


class ResourceQuotaController(OneWorker):
    """Keeps the status of quotas true."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._quotas = kit.cache(RESOURCE_QUOTAS)
        self._quotas.add_index("namespace", namespace_index)
        self._amounts = {(r.group, r.plural): kit.cache(r) for r in AMOUNTS}
        self._numbers: dict[tuple[str, str], Cache[Bare] | None] = {}
        caches = (self._quotas, *self._amounts.values())
        self._worker = Worker(kit, "resourcequota", self._sync, caches)
        self._quotas.listen(self._quota_changed)
        for cache in self._amounts.values():
            cache.add_index("namespace", namespace_index)
            cache.listen(self._changed)

    def _quota_changed(self, change: Change[Object]) -> None:
        self._worker.queue.add(change.new.key)
        if change.old is None or change.type == "DELETED":  # quotas may bound quotas
            self._wake(change.new.metadata.namespace)

    def _changed(self, change: Change[Object]) -> None:
        self._wake(change.new.metadata.namespace)

    def _number_changed(self, change: Change[Bare]) -> None:
        if change.old is None or change.type == "DELETED":
            self._wake(change.new.metadata.namespace)

    def _wake(self, namespace: str) -> None:
        for quota in self._quotas.by("namespace", namespace):
            self._worker.queue.add_soon(quota.key)

    async def _sync(self, key: str) -> float | None:
        quota = self._quotas.get(key)
        if quota is None or quota.deleted:
            return None
        hard: Json = quota.spec.get("hard") or {}
        used: dict[str, int] = {}
        for kind in dict.fromkeys(kind_counted(name) for name in hard):
            used.update(
                used_of({"spec": quota.spec}, await self._objects(kind, quota), _Kind(*kind))
            )
        known = {name: quantity.format_nanos(used.get(name, 0)) for name in hard}
        if {"hard": hard, "used": known} != quota.status:
            # A merge patch removes what is null: names that the quota no longer bounds.
            gone = dict.fromkeys(
                name for name in quota.status.get("hard") or {} if name not in hard
            )
            status = {"hard": {**gone, **hard}, "used": {**gone, **known}}
            await self._kit.patch(RESOURCE_QUOTAS, key, {"status": status}, subresource="status")
        return None

    async def _objects(self, kind: tuple[str, str], quota: Object) -> list[Json]:
        """Return the objects of a kind in the quota's namespace, as far as amounts need them."""
        namespace = quota.metadata.namespace
        if kind in self._amounts:
            found = self._amounts[kind].by("namespace", namespace)
            return [{"spec": obj.spec, "status": obj.status} for obj in found]
        if self._numbers.get(kind) is None:
            await self._follow(kind)
        cache = self._numbers[kind]
        return [{}] * len(cache.by("namespace", namespace)) if cache is not None else []

    async def _follow(self, kind: tuple[str, str]) -> None:
        """Begin to count a kind; one that is not served counts as none."""
        self._numbers[kind] = None
        for resource in await discover(self._kit, namespaced=True):
            if (resource.group, resource.plural) == kind:
                cache = self._numbers[kind] = self._kit.bare(resource)
                await cache.informer.wait_synced()
                cache.add_index("namespace", namespace_index)
                cache.listen(self._number_changed)
