"""Empties a namespace that is being deleted, then lets it go.

Asks discovery for every namespaced resource that can be deleted in bulk, so custom kinds are
emptied too; pods go first, the rest when they are gone. What remains, pods that take their time to
stop and objects with finalizers, is said in the namespace's conditions. It is looked at again when
a pod has gone, and now and then.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import msgspec

from bayplan.client import ApiError, Change, NotFound, Resource
from bayplan.client.resources import NAMESPACES, PODS
from bayplan.controllers.objects import Json, Object, with_condition
from bayplan.controllers.runtime import Kit, OneWorker, Worker

AGAIN_FIRST, AGAIN_LAST = 0.25, 10.0
FINALIZER = "kubernetes"
_DELETED = "All content successfully deleted, may be waiting on finalization"
_PARSED = "All legacy kube types successfully parsed"
_FINISHED = "All content-preserving finalizers finished"
FINE = (
    ("DeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("DeletionGroupVersionParsingFailure", "ParsedGroupVersions", _PARSED),
    ("DeletionContentFailure", "ContentDeleted", _DELETED),
    ("ContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("FinalizersRemaining", "ContentHasNoFinalizers", _FINISHED),
)


class _Remaining:
    """What could not be removed yet."""

    def __init__(self) -> None:
        self.objects: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()

    def note(self, resource: Resource, items: list[Json]) -> None:
        if items:
            self.objects[f"{resource.plural}.{resource.group}"] += len(items)
            for item in items:
                self.finalizers.update(item["metadata"].get("finalizers") or ())

    def conditions(self, namespace: Object, now: str) -> list[Json]:
        """Return the namespace's conditions, in upstream's words."""
        trouble = {}
        if self.objects:
            each = sorted(f"{name} has {n} resource instances" for name, n in self.objects.items())
            text = f"Some resources are remaining: {', '.join(each)}"
            trouble["ContentRemaining"] = ("SomeResourcesRemain", text)
        if self.finalizers:
            each = sorted(
                f"{name} in {n} resource instances" for name, n in self.finalizers.items()
            )
            text = f"Some content in the namespace has finalizers remaining: {', '.join(each)}"
            trouble["FinalizersRemaining"] = ("SomeFinalizersRemain", text)
        found: Json = {"conditions": namespace.status.get("conditions") or []}
        for type_, reason, message in FINE:
            value = "True" if type_ in trouble else "False"
            why = trouble.get(type_, (reason, message))
            found["conditions"] = with_condition(found, f"Namespace{type_}", value, *why, now)
        conditions: list[Json] = found["conditions"]
        return conditions


class NamespaceController(OneWorker):
    """Deletes what is in a Terminating namespace, then its finalizer."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._namespaces = kit.cache(NAMESPACES)
        self._pods = kit.cache(PODS)
        self._worker = Worker(kit, "namespace", self._sync, (self._namespaces,), at_once=4)
        self._waits: dict[str, float] = {}
        self._namespaces.listen(self._changed)
        self._pods.listen(self._pod_changed)

    def _changed(self, change: Change[Object]) -> None:
        name = change.new.metadata.name
        if change.type == "DELETED":
            self._waits.pop(name, None)
        elif change.new.deleted and (change.old is None or not change.old.deleted):
            self._worker.queue.add(name)

    def _pod_changed(self, change: Change[Object]) -> None:
        name = change.new.metadata.namespace
        if change.type == "DELETED" and name in self._waits:
            self._worker.queue.add_soon(name)

    async def _sync(self, name: str) -> float | None:
        namespace = self._namespaces.get(name)
        if namespace is None or not namespace.deleted:
            return None
        remaining = await self._empty_all(name)
        with suppress(NotFound):
            status = {"conditions": remaining.conditions(namespace, self._kit.now())}
            await self._kit.set_status(NAMESPACES, namespace, status)
        if remaining.objects:
            wait = self._waits.get(name, AGAIN_FIRST)
            self._waits[name] = min(wait * 2, AGAIN_LAST)
            return wait
        await self._finalize(name)
        return None

    async def _empty_all(self, name: str) -> _Remaining:
        remaining = _Remaining()
        await self._empty(PODS, name, remaining)
        if not remaining.objects:
            for resource in await discover(self._kit, namespaced=True):
                await self._empty(resource, name, remaining)
        return remaining

    async def _empty(self, resource: Resource, namespace: str, remaining: _Remaining) -> None:
        """Delete all objects of a kind and note what is still there."""
        try:
            items = _items(await self._kit.client.list(resource, namespace))
            if items:
                await self._kit.client.delete_collection(resource, namespace)
                items = _items(await self._kit.client.list(resource, namespace))
        except ApiError as error:
            if error.code in (404, 405):
                return  # the kind went, or cannot be listed
            raise
        remaining.note(resource, items)

    async def _finalize(self, name: str) -> None:
        with suppress(NotFound):
            obj: Json = msgspec.json.decode(await self._kit.client.get(NAMESPACES, name))
            held = (obj.get("spec") or {}).get("finalizers") or []
            if FINALIZER in held:
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
