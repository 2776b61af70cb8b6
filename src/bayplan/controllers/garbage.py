"""Deletes objects whose owners are gone, and carries out foreground and orphan deletion.

The metadata of every resource that discovery names, also custom ones, is followed; owners and
dependents are kept as a graph by uid. That an owner is absent is only believed when the server says
so, because caches of different resources are not equally fresh.

    an object all of whose owners are gone or wait for it    is deleted
    an object with some owners gone                          loses those references
    a deleted owner with the finalizer foregroundDeletion    waits for its blocking dependents
    a deleted owner with the finalizer orphan                lets its dependents go first

Options, by key `garbagecollector`: discover-seconds 120 (0: only when a kind is defined), resources
(plural names, all of them: what is followed instead of every resource).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import structlog

from bayplan.client import Change, ClientError, Conflict, NotFound, Resource
from bayplan.client.resources import CORE_EVENTS, CUSTOM_KINDS, LEASES
from bayplan.controllers.namespace import discover
from bayplan.controllers.objects import Bare, Json, Meta, Owner
from bayplan.controllers.runtime import RETRY_FIRST, RETRY_LAST, Kit, Worker

log = structlog.get_logger(__name__)

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
IGNORED = {CORE_EVENTS.plural, LEASES.plural, "componentstatuses"}
REDISCOVER_SECONDS = 120.0


class _Node(msgspec.Struct, frozen=True):
    resource: Resource
    meta: Meta


class GarbageCollector:
    """The graph of owners and dependents, by uid."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._nodes: dict[str, _Node] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # owner to dependents, in order
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._followed: set[Resource] = set()
        self._worker = Worker(kit, "garbagecollector", self._sync)
        options: Json = kit.options.get("garbagecollector", {})
        self._rediscover = float(options.get("discover-seconds", REDISCOVER_SECONDS)) or None
        self._only = frozenset(options.get("resources", ()))
        self._again = asyncio.Event()
        kit.bare(CUSTOM_KINDS).listen(lambda change: self._again.set())

    async def run(self) -> None:
        await self._discover()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._keep_discovering())

    async def _keep_discovering(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rediscover):
                    await self._again.wait()
                self._again.clear()
                # The definition is known before the kind is served.
                await asyncio.sleep(0.2)
            await self._discover()

    async def _resources(self) -> list[Resource]:
        """Ask until the server says what there is: an outage must not stop the worker."""
        pause = RETRY_FIRST
        while True:
            try:
                return await discover(self._kit)
            except ClientError as problem:
                log.warning("what is served cannot be read", err=str(problem))
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_LAST)

    async def _discover(self) -> None:
        for resource in await self._resources():
            self._kinds[resource.group, resource.kind] = resource
            if resource in self._followed or not self._follows(resource.plural):
                continue
            self._followed.add(resource)
            cache = self._kit.bare(resource)

            def listener(change: Change[Bare], r: Resource = resource) -> None:
                self._changed(r, change)

            cache.listen(listener)

    def _follows(self, plural: str) -> bool:
        return plural in self._only if self._only else plural not in IGNORED

    def _changed(self, resource: Resource, change: Change[Bare]) -> None:
        meta = change.new.metadata
        uid = meta.uid
        if change.old is not None:
            for owner in change.old.metadata.owner_references:
                self._dependents.get(owner.uid, {}).pop(uid, None)
                if not self._dependents.get(owner.uid):
                    self._dependents.pop(owner.uid, None)
                if change.type == "DELETED" or owner not in meta.owner_references:
                    self._wake_owner(owner.uid)
        if change.type == "DELETED":
            self._nodes.pop(uid, None)
            for dependent in self._dependents.get(uid, {}):
                self._worker.queue.add(dependent)
            return
        self._nodes[uid] = _Node(resource, meta)
        for owner in meta.owner_references:
            self._dependents.setdefault(owner.uid, {})[uid] = None
        changed = change.old is None or (
            change.old.metadata.owner_references != meta.owner_references
            or change.old.metadata.deletion_timestamp != meta.deletion_timestamp
            or change.old.metadata.finalizers != meta.finalizers
        )
        waits = meta.deletion_timestamp and {ORPHAN, FOREGROUND} & set(meta.finalizers)
        if changed and (meta.owner_references or waits):
            self._worker.queue.add(uid)

    def _wake_owner(self, uid: str) -> None:
        node = self._nodes.get(uid)
        if node is not None and node.meta.deletion_timestamp:
            self._worker.queue.add(uid)

    async def _sync(self, uid: str) -> float | None:
        node = self._nodes.get(uid)
        if node is None:
            return None
        meta = node.meta
        if meta.deletion_timestamp:
            if ORPHAN in meta.finalizers:
                await self._orphan(node)
            elif FOREGROUND in meta.finalizers:
                await self._foreground(node)
            return None
        if meta.owner_references:
            await self._judge(node)
        return None

    async def _orphan(self, node: _Node) -> None:
        """Take the owner off its dependents, then let it go."""
        for dependent in self._dependents_of(node):
            left = [o for o in dependent.meta.owner_references if o.uid != node.meta.uid]
            await self._set_owners(dependent, left)
        await self._lift(node, ORPHAN)

    async def _foreground(self, node: _Node) -> None:
        """Delete dependents; when none blocks any more, let the owner go."""
        blocking = 0
        for dependent in self._dependents_of(node):
            reference = next(o for o in dependent.meta.owner_references if o.uid == node.meta.uid)
            blocking += reference.block_owner_deletion
            if not _is_waiting(dependent.meta):  # one that waits itself has been told already
                self._worker.queue.add(dependent.meta.uid)
        if not blocking:
            await self._lift(node, FOREGROUND)

    def _dependents_of(self, node: _Node) -> list[_Node]:
        found = self._dependents.get(node.meta.uid, {})
        return [self._nodes[uid] for uid in found if uid in self._nodes]

    async def _judge(self, node: _Node) -> None:
        """Keep, trim or delete an object by the state of its owners."""
        solid: list[Owner] = []
        waiting: list[Owner] = []
        for owner in node.meta.owner_references:
            state = await self._state(owner, node.meta.namespace)
            if state == "solid":
                solid.append(owner)
            elif state == "waiting":
                waiting.append(owner)
        if solid:
            if len(solid) < len(node.meta.owner_references):
                await self._set_owners(node, solid)
            return
        policy = "Background"
        if waiting and (below := self._dependents_of(node)):
            policy = "Foreground"  # the owner waits until all below this one is gone too
            if any(_is_waiting(dependent.meta) for dependent in below):
                await self._unblock(node)  # perhaps a circle, in which each waits for the next
        if ORPHAN in node.meta.finalizers:
            policy = "Orphan"
        elif FOREGROUND in node.meta.finalizers:
            policy = "Foreground"
        # another object of that name: this one is gone
        with suppress(Conflict):
            await self._kit.delete(
                node.resource, node.meta.key, uid=node.meta.uid, propagation=policy
            )

    async def _unblock(self, node: _Node) -> None:
        """Let the owners of an object go before it."""
        free = [
            msgspec.structs.replace(owner, block_owner_deletion=False)
            for owner in node.meta.owner_references
        ]
        if free != node.meta.owner_references:
            await self._set_owners(node, free)

    async def _state(self, owner: Owner, namespace: str) -> str:
        """Say whether an owner is solid, absent, or deleted and waiting for its dependents."""
        found = self._nodes.get(owner.uid)
        meta = found.meta if found is not None else await self._ask(owner, namespace)
        if meta is None:
            return "absent"
        return "waiting" if _is_waiting(meta) else "solid"

    async def _ask(self, owner: Owner, namespace: str) -> Meta | None:
        group = owner.api_version.rpartition("/")[0]
        resource = self._kinds.get((group, owner.kind))
        if resource is None:
            # An unknown kind may be served later: never delete because of it.
            return Meta(name=owner.name, uid=owner.uid)
        where = namespace if resource.namespaced else ""
        try:
            raw = await self._kit.client.get(resource, owner.name, where)
        except NotFound:
            return None
        meta = msgspec.json.decode(raw, type=Bare).metadata
        return meta if meta.uid == owner.uid else None

    async def _set_owners(self, node: _Node, owners: list[Owner]) -> None:
        kept: list[Json] = [msgspec.to_builtins(owner) for owner in owners]
        for item in kept:
            for name in ("controller", "blockOwnerDeletion"):
                if not item[name]:
                    del item[name]
        metadata: Json = {
            "ownerReferences": kept or None,
            "resourceVersion": node.meta.resource_version,
            "uid": node.meta.uid,
        }
        with suppress(NotFound):
            await self._kit.patch(node.resource, node.meta.key, {"metadata": metadata})

    async def _lift(self, node: _Node, finalizer: str) -> None:
        left = [item for item in node.meta.finalizers if item != finalizer]
        metadata = {"finalizers": left or None, "resourceVersion": node.meta.resource_version}
        with suppress(NotFound):
            await self._kit.patch(node.resource, node.meta.key, {"metadata": metadata})


def _is_waiting(meta: Meta) -> bool:
    """Whether an object is deleted and waits for its dependents."""
    return bool(meta.deletion_timestamp) and FOREGROUND in meta.finalizers
