"""ControllerRevisions: the templates that a DaemonSet or StatefulSet has had.

`kubectl rollout history` shows them and `rollout undo` writes one back; its template then gets the
highest number again. Revisions that no pod has any more go beyond `revisionHistoryLimit`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from bayplan.client import AlreadyExists, Resource
from bayplan.controllers.objects import Json, Meta, Object, owner_reference
from bayplan.controllers.pods import template_hash
from bayplan.controllers.runtime import Kit, owner_index

CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
HASH_LABEL = "controller-revision-hash"


class Revision(msgspec.Struct, frozen=True):
    """What is read of a ControllerRevision."""

    metadata: Meta
    revision: int = 0
    data: Any = None

    @property
    def template(self) -> Json:
        spec: Json = (self.data or {}).get("spec") or {}
        template: Json = spec.get("template") or {}
        return {key: value for key, value in template.items() if key != "$patch"}


class Revisions:
    """The revisions of one kind of owner."""

    def __init__(self, kit: Kit, resource: Resource) -> None:
        self._kit = kit
        self._resource = resource
        self.cache = kit.typed(CONTROLLER_REVISIONS, Revision)
        self.cache.add_index("owner", owner_index)

    async def update(self, owner: Object) -> Revision:
        """Return the revision of the owner's template, made or renumbered if need be."""
        await self.cache.fresh()
        there = self.cache.by("owner", owner.metadata.uid)
        newest = max((r.revision for r in there), default=0)
        template: Json = owner.spec.get("template") or {}
        found = next((r for r in there if r.template == template), None)
        if found is None:
            return await self._create(owner, template, newest + 1)
        if found.revision < newest:
            body = {"revision": newest + 1}
            await self._kit.patch(CONTROLLER_REVISIONS, found.metadata.key, body)
        return found

    async def _create(self, owner: Object, template: Json, number: int) -> Revision:
        meta = owner.metadata
        hash_ = template_hash(template, str(owner.status.get("collisionCount") or ""))
        labels = (template.get("metadata") or {}).get("labels") or {}
        metadata: Json = {
            "name": f"{meta.name}-{hash_}",
            "labels": {**labels, HASH_LABEL: hash_},
            "annotations": meta.annotations,
            "ownerReferences": [owner_reference(self._resource, meta)],
        }
        # In the order of the names: upstream compares revisions with templates as text.
        data = _sorted({"spec": {"template": {**template, "$patch": "replace"}}})
        body = {"metadata": metadata, "data": data, "revision": number}
        with suppress(AlreadyExists):
            await self._kit.create(CONTROLLER_REVISIONS, body, meta.namespace)
        made = msgspec.convert({**metadata, "namespace": meta.namespace}, Meta)
        return Revision(made, number, data)

    def named(self, owner: Object, name: str) -> Revision | None:
        return self.cache.get(f"{owner.metadata.namespace}/{name}")

    async def trim(self, owner: Object, live: set[str]) -> None:
        """Delete the oldest beyond the limit, but none that a pod still has (by name or hash)."""
        unused = [
            r
            for r in self.cache.by("owner", owner.metadata.uid)
            if r.metadata.name not in live and r.metadata.labels.get(HASH_LABEL) not in live
        ]
        unused.sort(key=lambda r: r.revision)
        limit = owner.spec.get("revisionHistoryLimit", 10)
        for revision in unused[: max(len(unused) - limit, 0)]:
            key, uid = revision.metadata.key, revision.metadata.uid
            await self._kit.delete(CONTROLLER_REVISIONS, key, uid=uid)


def _sorted(value: Json) -> Json:
    ordered: Json = msgspec.json.decode(msgspec.json.encode(value, order="sorted"))
    return ordered
