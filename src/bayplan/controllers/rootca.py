"""Publishes the cluster's certificate authority in every namespace, as `kube-root-ca.crt`.

Option, by key `root-ca`: the certificate in PEM; without one (plain HTTP) there is nothing to do.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from bayplan.client import AlreadyExists, ApiError, Change
from bayplan.client.resources import CONFIG_MAPS, NAMESPACES
from bayplan.controllers.objects import Json, Meta, Object
from bayplan.controllers.runtime import Kit, Worker

NAME = "kube-root-ca.crt"
WHY = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)


class ConfigMap(msgspec.Struct, frozen=True):
    """What is read of a ConfigMap."""

    metadata: Meta
    data: dict[str, str] = {}


class RootCaPublisher:
    """Writes the ConfigMap, also when somebody changes or deletes it."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._data = {"ca.crt": str(kit.options.get("root-ca") or "")}
        self._namespaces = kit.cache(NAMESPACES)
        self._maps = kit.typed(CONFIG_MAPS, ConfigMap)
        self._worker = Worker(kit, "root-ca-certificate-publisher", self._sync, (self._namespaces,))
        if self._data["ca.crt"]:
            self._namespaces.listen(lambda change: self._worker.queue.add(change.new.metadata.name))
            self._maps.listen(self._map_changed)

    async def run(self) -> None:
        await self._maps.informer.wait_synced()
        await self._worker.run()

    def _map_changed(self, change: Change[ConfigMap]) -> None:
        if change.new.metadata.name == NAME:
            self._worker.queue.add(change.new.metadata.namespace)

    async def _sync(self, name: str) -> float | None:
        namespace: Object | None = self._namespaces.get(name)
        if namespace is None or namespace.deleted:
            return None
        await self._maps.fresh()
        found = self._maps.get(f"{name}/{NAME}")
        if found is None:
            metadata = {"name": NAME, "annotations": {"kubernetes.io/description": WHY}}
            with suppress(AlreadyExists):
                await self._create({"metadata": metadata, "data": self._data}, name)
        elif found.data != self._data:
            gone: Json = dict.fromkeys(found.data)
            await self._kit.patch(CONFIG_MAPS, f"{name}/{NAME}", {"data": {**gone, **self._data}})
        return None

    async def _create(self, body: Json, namespace: str) -> None:
        try:
            await self._kit.create(CONFIG_MAPS, body, namespace)
        except ApiError as error:
            if error.code not in (403, 404):  # the namespace is going
                raise
