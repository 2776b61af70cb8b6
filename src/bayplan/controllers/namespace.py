"""Empties a namespace that is being deleted, then lets it go.

Asks discovery for every namespaced resource that can be deleted in bulk, so custom kinds are
emptied too. Pods that take their time to stop, and objects with finalizers, make it look again.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from bayplan.client import ApiError, Change, NotFound, Resource
from bayplan.client.resources import NAMESPACES
from bayplan.controllers.objects import Json, Object
from bayplan.controllers.runtime import Kit, Worker

AGAIN_SECONDS = 0.5
FINALIZER = "kubernetes"


class NamespaceController:
    """Deletes what is in a Terminating namespace, then its finalizer."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._namespaces = kit.cache(NAMESPACES)
        self._worker = Worker(kit, "namespace", self._sync, (self._namespaces,))
        self._namespaces.listen(self._changed)

    async def run(self) -> None:
        await self._worker.run()

    def _changed(self, change: Change[Object]) -> None:
        if change.type != "DELETED" and change.new.deleted:
            self._worker.queue.add(change.new.metadata.name)

    async def _sync(self, name: str) -> float | None:
        namespace = self._namespaces.get(name)
        if namespace is None or not namespace.deleted:
            return None
        left = 0
        for resource in await discover(self._kit, namespaced=True):
            left += await self._empty(resource, name)
        if left:
            return AGAIN_SECONDS
        await self._finalize(name)
        return None

    async def _empty(self, resource: Resource, namespace: str) -> int:
        """Delete all objects of a kind; return how many are still there."""
        try:
            items = _items(await self._kit.client.list(resource, namespace))
            if items:
                await self._kit.client.delete_collection(resource, namespace)
                items = _items(await self._kit.client.list(resource, namespace))
        except ApiError as error:
            if error.code in (404, 405):
                return 0  # the kind went, or cannot be listed
            raise
        return len(items)

    async def _finalize(self, name: str) -> None:
        with suppress(NotFound):
            obj: Json = msgspec.json.decode(await self._kit.client.get(NAMESPACES, name))
            held = (obj.get("spec") or {}).get("finalizers") or []
            obj["spec"] = {"finalizers": [item for item in held if item != FINALIZER]}
            await self._kit.client.update(NAMESPACES, name, obj, subresource="finalize")


def _items(raw: bytes) -> list[Json]:
    items: list[Json] = msgspec.json.decode(raw).get("items") or []
    return items


async def discover(kit: Kit, *, namespaced: bool | None = None) -> list[Resource]:
    """Ask the server for the resources that can be listed and deleted, one version of each."""
    found: list[Resource] = []
    groups: Json = msgspec.json.decode(await kit.client.request("GET", "/apis"))
    versions = [("", "v1")]
    for group in groups.get("groups") or []:
        version = group["preferredVersion"]["version"]
        versions.append((group["name"], version))
    for group, version in versions:
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        listing: Json = msgspec.json.decode(await kit.client.request("GET", root))
        for item in listing.get("resources") or []:
            usable = {"list", "delete"} <= set(item.get("verbs") or [])
            wanted = namespaced is None or item["namespaced"] == namespaced
            if usable and wanted and "/" not in item["name"]:
                found.append(
                    Resource(group, version, item["name"], item["kind"], item["namespaced"])
                )
    # One object, two views: emptying one is enough.
    return [r for r in found if (r.group, r.plural) != ("events.k8s.io", "events")]
