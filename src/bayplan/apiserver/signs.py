"""Signs of life of many nodes at once: the renewTime of leases, the heartbeats of nodes' status.

Kubelets that are simulated in the server's own process write them here. A request each, with all
that judges a write, made thousands of idle nodes cost a fifth of a core. Only times move here, in
objects that exist and that the kubelet made itself, so there is nothing left to default, validate
or own. Whatever is not so, and every write that a webhook or policy might want to see, is left to
an ordinary request: the caller is told which signs were written.

Each object is a write of its own (two keys of one collection may not share a revision); those
of one call reach the disk together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bayplan.apiserver.admission import UPDATE, Attributes
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Object
from bayplan.store import KeyValue, StoreError

LEASE_NAMESPACE = "kube-node-lease"
Change = Callable[[str, Object], bool]


class SignsOfLife:
    """Writes signs of life to the store of this process's API server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def renew(self, nodes: Sequence[str], now: str) -> set[str]:
        """Renew the leases that these nodes hold; return the names of those that are renewed."""

        def change(node: str, lease: Object) -> bool:
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") != node or "renewTime" not in spec:
                return False
            spec["renewTime"] = now
            return True

        return await self._move("coordination.k8s.io", "leases", LEASE_NAMESPACE, nodes, change)

    async def beat(self, nodes: Sequence[str], now: str) -> set[str]:
        """Move the heartbeats of these nodes' conditions; return those that have one now."""

        def change(node: str, obj: Object) -> bool:
            beating = [
                item
                for item in (obj.get("status") or {}).get("conditions") or ()
                if "lastHeartbeatTime" in item
            ]
            for item in beating:
                item["lastHeartbeatTime"] = now
            return bool(beating)

        return await self._move("", "nodes", "", nodes, change)

    async def _move(
        self, group: str, resource: str, namespace: str, names: Sequence[str], change: Change
    ) -> set[str]:
        codec = self._backend.codec_of(group, resource)
        if codec is None or await self._judged(codec, namespace):
            return set()
        calls = [self._write(codec, namespace, name, change) for name in names]
        done = await asyncio.gather(*calls)
        return {name for name, written in zip(names, done, strict=True) if written}

    async def _judged(self, codec: Codec, namespace: str) -> bool:
        """Tell whether somebody may want to see such a write."""
        kind, dynamic = codec.kind, self._backend.dynamic
        attrs = Attributes(
            UPDATE, kind.group, kind.version, kind.resource, "", namespace, "", {}, {}, False
        )
        return await dynamic.mutates(attrs) or await dynamic.validates(attrs)

    async def _write(self, codec: Codec, namespace: str, name: str, change: Change) -> bool:
        store = self._backend.store
        found: KeyValue | None = await store.get(codec.key(namespace, name))
        if found is None:
            return False
        obj = codec.decode(found)
        if obj["metadata"].get("deletionTimestamp") or not change(name, obj):
            return False
        try:
            await store.put(found.key, codec.encode(obj), expect=found.mod_revision)
        except StoreError:
            return False  # somebody else wrote meanwhile, or nobody can: a request is told which
        return True
