"""The end of a CustomResourceDefinition: its objects go first, and their finalizers are respected.

Deleting a definition marks it. Its objects are then deleted as if each had been asked for; only
when none is left does the definition itself go. Until then nothing new can be created.
"""

from __future__ import annotations

import asyncio

from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.request import Request
from bayplan.apiserver.verbs.delete import CLEANUP, DeleteOptions, delete_object
from bayplan.store import Conflict, KeyValue, NotFound


async def finish(backend: Backend, codec: Codec, kv: KeyValue, kinds: list[Kind]) -> bool:
    """Delete the objects of a definition that is to go; say whether it could go itself."""
    # All versions share one collection; what is in the storage version needs no conversion.
    stored = min(kinds, key=lambda kind: kind.version != kind.storage_version, default=None)
    if stored is not None and not await _delete_all(backend, stored):
        return False
    return await _release(backend, codec, kv)


async def _delete_all(backend: Backend, kind: Kind) -> bool:
    codec = backend.codec(kind)
    for kv in (await backend.store.range(codec.prefix)).items:
        await asyncio.sleep(0)  # others have their turn
        metadata: Object = codec.decode(kv)["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        where, name = metadata.get("namespace", ""), metadata["name"]
        request = Request("delete", kind, where, name, "")
        try:
            await delete_object(backend, request, where, name, DeleteOptions())
        except ApiError as error:
            if error.code not in (404, 409):
                raise
    return not (await backend.store.range(codec.prefix, limit=1)).items


async def _release(backend: Backend, codec: Codec, kv: KeyValue) -> bool:
    """Take our finalizer away; return whether that was the last one and the definition went."""
    obj = codec.decode(kv)
    held = obj["metadata"].get("finalizers") or []
    left = [name for name in held if name != CLEANUP]
    try:
        if not left:
            await backend.store.delete(kv.key, expect=kv.mod_revision)
        elif left != held:  # a write each time would be heard, and lead to the next one
            obj["metadata"]["finalizers"] = left
            await backend.store.put(kv.key, codec.encode(obj), expect=kv.mod_revision)
    except (Conflict, NotFound):
        return False  # changed meanwhile: the next round sees it
    return not left
