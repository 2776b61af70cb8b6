"""Gives every namespace its `default` service account."""

from __future__ import annotations

from contextlib import suppress

from bayplan.client import AlreadyExists, Change
from bayplan.client.resources import NAMESPACES, SERVICE_ACCOUNTS
from bayplan.controllers.objects import Object
from bayplan.controllers.runtime import Kit, OneWorker, Worker


class ServiceAccountController(OneWorker):
    """Creates the account, also when somebody deletes it."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._namespaces = kit.cache(NAMESPACES)
        self._accounts = kit.cache(SERVICE_ACCOUNTS)
        caches = (self._namespaces, self._accounts)
        self._worker = Worker(kit, "serviceaccount", self._sync, caches)
        self._namespaces.listen(lambda change: self._worker.queue.add(change.new.metadata.name))
        self._accounts.listen(self._account_changed)

    def _account_changed(self, change: Change[Object]) -> None:
        if change.type == "DELETED" and change.new.metadata.name == "default":
            self._worker.queue.add(change.new.metadata.namespace)

    async def _sync(self, name: str) -> float | None:
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.deleted or self._accounts.get(f"{name}/default"):
            return None
        with suppress(AlreadyExists):
            await self._kit.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, name)
        return None
