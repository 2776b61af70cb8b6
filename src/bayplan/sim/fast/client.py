"""The client of a fast world: pods and nodes from memory, everything else from the API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import msgspec

from bayplan.api.labels import parse_selector
from bayplan.api.meta import with_condition
from bayplan.client import Client, NotFound, Resource
from bayplan.client.resources import NODES, PODS
from bayplan.client.rest import Body, DeleteOptions, PatchOptions, Query
from bayplan.sim.errors import ScenarioError
from bayplan.sim.fast.admission import Admission
from bayplan.sim.fast.budgets import allow_eviction
from bayplan.sim.fast.cluster import FastCluster, Json

HERE = {PODS: PODS, NODES: NODES}
"""The resources in memory; others may name them by an equal value."""
REFUSED = {"resourcequotas": "quotas count what the API server stores"}
_encode = msgspec.json.Encoder().encode


class FastClient(Client):
    """A client whose pods and nodes are in memory."""

    def __init__(
        self,
        inner: Client,
        cluster: FastCluster,
        suffix: Callable[[], str],
        wrote: Callable[[str], None],
    ) -> None:
        """`wrote` is told the plural of each kind that an object is created of."""
        super().__init__(inner.transport, timeout=None)
        self._inner = inner
        self._cluster = cluster
        self._suffix = suffix
        self._wrote = wrote
        self._admission = Admission(inner)

    @property
    def asked(self) -> int:
        """How often the API server was asked what a new pod or node looks like."""
        return self._admission.asked

    async def create(
        self, resource: Resource, body: Body, namespace: str = "", *, query: Query | None = None
    ) -> bytes:
        here = HERE.get(resource)
        if here is None:
            refuse(resource)
            made = await self._inner.create(resource, body, namespace, query=query)
            self._admission.forget()
            self._wrote(resource.plural)
            return made
        return _encode(await self.add(here, body, namespace))

    async def add(
        self, resource: Resource, body: object, namespace: str = "", alike: object = None
    ) -> Json:
        """Create a pod or node and return it, without encoding it.

        `alike`: something that all are made from that differ from this one in nothing but the name.
        """
        assert isinstance(body, Mapping)
        meta: Mapping[str, Any] = body.get("metadata") or {}
        name = meta.get("name") or ""
        if not name and meta.get("generateName"):
            suffix = self._suffix()
            name = str(meta["generateName"])[: 63 - len(suffix)] + suffix
            body = {**body, "metadata": {**meta, "name": name}}
        made, typed = await self._admission.admit(resource, namespace, name, body, alike)
        key = f"{namespace}/{name}" if namespace else name
        if meta.get("ownerReferences"):
            self._wrote("dependents")
        return self._cluster.add(resource, key, made, typed).body

    def add_another(self, resource: Resource, name: str, namespace: str, alike: object) -> bool:
        """Create one more that is `alike`; False if it is not known what it would look like."""
        found = self._admission.another(alike, name)
        if found is not None:
            self._cluster.add(resource, _key(namespace, name), *found)
        return found is not None

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> bytes:
        here = HERE.get(resource)
        if here is None:
            return await self._inner.get(resource, name, namespace, subresource=subresource)
        return _encode(self._cluster.get(here, _key(namespace, name)).body)

    async def list(self, resource: Resource, namespace: str = "", **query: Any) -> bytes:
        here = HERE.get(resource)
        if here is None:
            return await self._inner.list(resource, namespace, **query)
        selector = parse_selector(query.get("label_selector") or "")
        field = query.get("field_selector") or ""
        items = [
            entry.body
            for entry in self._cluster.all(here)
            if (not namespace or entry.typed.metadata.namespace == namespace)
            and selector.matches(entry.typed.metadata.labels)
            and _matches(entry.body, field)
        ]
        version = str(self._cluster.version)
        return _encode({"metadata": {"resourceVersion": version}, "items": items})

    async def update(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> bytes:
        if resource in HERE:
            raise ScenarioError("replacing pods or nodes needs the whole API server: --faithful")
        return await self._inner.update(resource, name, body, namespace, subresource=subresource)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str = "",
        **options: Unpack[PatchOptions],
    ) -> bytes:
        here = HERE.get(resource)
        if here is None:
            refuse(resource)
            done = await self._inner.patch(resource, name, body, namespace, **options)
            if options.get("subresource") != "status":
                self._admission.forget()
            return done
        return _encode(self.change(here, _key(namespace, name), body, options))

    def change(self, resource: Resource, key: str, patch: Any, options: PatchOptions) -> Json:
        """Patch a pod or node and return it, without encoding it."""
        kind, subresource = options.get("kind", "merge"), options.get("subresource", "")
        return self._cluster.patch(resource, key, patch, kind, subresource).body

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> bytes:
        here = HERE.get(resource)
        if here is None:
            self._admission.forget()
            return await self._inner.delete(resource, name, namespace, **options)
        self._cluster.delete(here, _key(namespace, name), **options)
        return b"{}"  # what was deleted nobody reads here; encoding takes as long as deleting

    def remove(self, resource: Resource, key: str) -> None:
        """Delete a pod or node at once; one that is gone already is fine."""
        try:
            self._cluster.delete(resource, key)
        except NotFound:
            return

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        self._cluster.bind(f"{namespace}/{name}", uid, node)

    async def evict(
        self, namespace: str, name: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        key = f"{namespace}/{name}"
        await allow_eviction(self._inner, self._cluster, key)
        entry = self._cluster.get(PODS, key)
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status = entry.body["status"]
        conditions = with_condition(status.get("conditions"), target, self._cluster.stamp())
        self._cluster.put_status(entry, {**status, "conditions": conditions})
        self._cluster.delete(PODS, key, uid=uid, grace_period=grace_period)

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        """Other requests, discovery above all, are the API server's to answer."""
        words = path.split("?")[0].split("/")
        if "pods" in words or words[-1] == "nodes" or "nodes" in words[:-1]:
            raise ScenarioError(f"{method} {path} needs the whole API server: --faithful")
        return await self._inner.request(method, path, **more)


def refuse(resource: Resource) -> None:
    """Raise for kinds that only the whole world has."""
    if resource.plural in REFUSED:
        why = REFUSED[resource.plural]
        raise ScenarioError(f"{resource.kind} needs --faithful: {why}")


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _matches(body: Json, field: str) -> bool:
    for rule in filter(None, field.split(",")):
        path, _, wanted = rule.partition("=")
        value: Any = body
        for part in path.removesuffix("!").split("."):
            value = (value or {}).get(part)
        if (str(value or "") == wanted) == path.endswith("!"):
            return False
    return True
