"""POST on a collection."""

from __future__ import annotations

from typing import cast

from bayplan.api.patch import clone
from bayplan.apiserver import ownership, pipeline
from bayplan.apiserver.admission import CREATE, Attributes
from bayplan.apiserver.aside import aside
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import read_object
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import (
    ApiError,
    already_exists,
    bad_request,
    forbidden,
    not_unique,
)
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, object_answer, value_answer
from bayplan.store import Conflict, KeyValue, Op

GENERATED_NAME_ATTEMPTS = 8
CLAIM_ATTEMPTS = 64


async def create(backend: Backend, request: Request) -> Answer:
    """Create the object in the body."""
    obj = await aside(request, read_object, request, request.kind)
    obj.setdefault("metadata", {})
    pipeline.check_identity(request, obj)
    await pipeline.complete(request, obj)
    return await create_object(backend, request, obj)


async def create_object(
    backend: Backend, request: Request, obj: Object, *, track: bool = True
) -> Answer:
    """Create a decoded and defaulted object; also used by PUT and apply of a missing one."""
    if request.kind.storage in backend.terminating:
        why = "create not allowed while custom resource definition is terminating"
        name = str(obj["metadata"].get("name", ""))
        raise forbidden(request.kind.group, request.kind.resource, name, why)
    codec = backend.codec(request.kind)
    attrs = pipeline.attributes(request, CREATE, obj, None, obj["metadata"].get("name", ""))
    await pipeline.admit(backend, request, attrs)
    if track:
        await aside(request, ownership.track, backend, request, obj, None)
    generated = not obj["metadata"].get("name")
    for attempt in range(GENERATED_NAME_ATTEMPTS):
        await pipeline.before_create(backend, request, obj)
        attrs.name = obj["metadata"]["name"]
        await pipeline.admit_valid(backend, request, attrs)
        try:
            return await _settled(backend, codec, request, attrs)
        except Conflict:
            name = obj["metadata"]["name"]
            if not generated or attempt == GENERATED_NAME_ATTEMPTS - 1:
                taken = not_unique if obj["metadata"].get("generateName") else already_exists
                raise taken(request.kind.group, request.kind.resource, name) from None
            obj["metadata"].pop("name")
    raise AssertionError("the last attempt returns or raises")


async def _settled(backend: Backend, codec: Codec, request: Request, attrs: Attributes) -> Answer:
    """Count, hand out and store; again if another server handed out meanwhile."""
    obj = attrs.obj
    for _ in range(CLAIM_ATTEMPTS):
        async with backend.turns.of(codec, attrs) as also:
            attrs.obj = cast("Object", await aside(request, clone, obj)) if also else obj
            await pipeline.settle(backend, attrs)
            try:
                return await _store(backend, codec, request, attrs.obj, also)
            except Conflict as error:
                if error.key not in [op.key for op in also]:
                    raise
    raise ApiError(500, "InternalError", "Internal error occurred: others are always faster")


async def _store(
    backend: Backend, codec: Codec, request: Request, obj: Object, also: tuple[Op, ...]
) -> Answer:
    key = codec.key(request.namespace, obj["metadata"]["name"])
    if request.dry_run:
        found = await backend.store.get(key)
        if found is not None:
            raise Conflict(key, found, 0)
        return await object_answer(request, obj, 201)
    if obj["metadata"].get("resourceVersion"):  # the last to be looked at, as upstream's store does
        raise bad_request("resourceVersion should not be set on objects to be created")
    value = await aside(request, codec.encode, obj)
    kv: KeyValue = await backend.versions.put(codec, key, value, expect=0, also=also)
    return await value_answer(backend, request, kv, 201)
