"""PUT, and the compare-and-set loop that PUT, PATCH and subresources share.

`rewrite` reads the stored object, lets the caller compute the new one, runs it through the
pipeline and writes it if anything changed. A lost race is retried when the caller's change does
not depend on the version it had seen, and is a 409 otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from bayplan.api.patch import clone
from bayplan.apiserver import ownership, pipeline, validation
from bayplan.apiserver.aside import aside
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import read_object
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import (
    ApiError,
    conflict,
    invalid,
    not_found,
    precondition_failed,
)
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.permission import demand
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, object_answer, value_answer
from bayplan.apiserver.verbs.create import create_object
from bayplan.store import Conflict, KeyValue, NotFound

ATTEMPTS = 64

Compute = Callable[[Object], Object]


async def update(backend: Backend, request: Request) -> Answer:
    """Replace an object by the one in the body; some kinds are created by it."""
    obj = await aside(request, read_object, request, request.kind)
    obj.setdefault("metadata", {})
    pipeline.check_identity(request, obj)
    pipeline.check_name(request, obj)
    codec = backend.codec(request.kind)
    if await backend.get(codec, request.namespace, request.name) is None:
        return await _create_by_update(backend, request, obj)

    def replace(old: Object) -> Object:
        return cast("Object", clone(obj))

    return await rewrite(backend, request, replace)


async def _create_by_update(backend: Backend, request: Request, obj: Object) -> Answer:
    kind = request.kind
    if request.subresource or not validation.create_on_update(kind.group, kind.resource):
        raise not_found(kind.group, kind.resource, request.name)
    demand(backend.authorizer, request, "create")
    if obj["metadata"].get("uid"):
        uid = obj["metadata"]["uid"]
        place = {"namespace": request.namespace, "name": request.name}
        raise precondition_failed(kind.group, kind.resource, place, "UID", uid)
    obj["metadata"].pop("resourceVersion", None)  # of an object that is gone
    await pipeline.complete(request, obj)
    return await create_object(backend, request, obj)


async def rewrite(
    backend: Backend, request: Request, compute: Compute, *, track: bool = True
) -> Answer:
    """Change one stored object; `compute` gets a private copy and returns the new object.

    The resourceVersion in what it returns is the one that the client insists on; a lost race is
    then final if that came from the client and not from the stored object. `track` is false where
    compute already took care of managedFields (server-side apply).
    """
    codec = backend.codec(request.kind)
    kept = len(request.warnings)  # those of the body; an attempt's own must not come twice
    for _ in range(ATTEMPTS):
        del request.warnings[kept:]
        kv = await backend.must_get(codec, request.namespace, request.name)
        try:
            return await _attempt(backend, request, codec, kv, compute, track)
        except (Conflict, NotFound):
            continue  # someone was faster: read again; an insisted version is a 409 then
    raise conflict(request.kind.group, request.kind.resource, request.name)


async def _attempt(
    backend: Backend,
    request: Request,
    codec: Codec,
    kv: KeyValue,
    compute: Compute,
    track: bool,
) -> Answer:
    request.stored = len(kv.value)
    old, obj = await aside(request, _computed, codec, kv, compute)
    check_version(request.kind, obj, kv)
    if request.verb == "update":
        check_uid(request.kind, obj, old)
    attrs = await pipeline.before_update(backend, request, obj, old)
    async with backend.turns.of(codec, attrs) as also:
        await pipeline.settle(backend, attrs)
        if track:
            await aside(request, ownership.track, backend, request, obj, old)
        if ready_to_go(request.kind, obj):
            return await _remove(backend, request, obj, kv)
        value = await aside(request, _changed, codec, obj, old, kv)
        if value is None:
            return await value_answer(backend, request, kv)
        if request.dry_run:
            return await object_answer(request, obj)
        expect = kv.mod_revision
        written = await backend.versions.put(codec, kv.key, value, expect=expect, also=also)
    return await value_answer(backend, request, written)


def _computed(codec: Codec, kv: KeyValue, compute: Compute) -> tuple[Object, Object]:
    """Return the stored object and what is to become of it."""
    return codec.decode(kv), compute(codec.decode(kv))


def _changed(codec: Codec, obj: Object, old: Object, kv: KeyValue) -> bytes | None:
    """Return what to store; None for one equal but for the order of keys and the version."""
    value = codec.encode(obj)
    if value == kv.value:
        return None
    obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    return None if obj == old and not codec.stale(kv) else value


def check_version(kind: Kind, obj: Object, kv: KeyValue) -> None:
    """Refuse an update that was made from another version or another object."""
    metadata = obj["metadata"]
    version = metadata.get("resourceVersion") or ""
    if version and not is_version(version):
        raise _bad_version(kind, obj, version)
    if version and version != "0":
        if int(version) != kv.mod_revision:
            raise conflict(kind.group, kind.resource, metadata.get("name", ""))
    elif kind.custom or not validation.unconditional_update(kind.group, kind.resource):
        raise _bad_version(kind, obj, "")


def is_version(text: str) -> bool:
    """Say whether a text is a number that fits 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= 20


def check_uid(kind: Kind, obj: Object, old: Object) -> None:
    """Refuse an update of an object that was replaced by another of the same name."""
    given, found = obj["metadata"].get("uid"), old["metadata"]
    if given and given != found.get("uid"):
        raise precondition_failed(kind.group, kind.resource, found, "UID", given)


def _bad_version(kind: Kind, obj: Object, version: str) -> ApiError:
    name = obj["metadata"].get("name", "")
    detail = "must be specified for an update" if not version else "must be an integer"
    shown = version or "0"
    cause = validation.Cause(
        "FieldValueInvalid", "metadata.resourceVersion", f"Invalid value: {shown}: {detail}"
    )
    return invalid(kind.group, kind.resource, name, [cause])  # the resource here, as upstream


def ready_to_go(kind: Kind, obj: Object) -> bool:
    """Say whether the last thing that held a deleted object back is gone with this write."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    if kind.storage == ("", "namespaces"):
        return not (obj.get("spec") or {}).get("finalizers")
    return True


async def _remove(backend: Backend, request: Request, obj: Object, kv: KeyValue) -> Answer:
    """Delete an object whose last finalizer went; the answer is the object without it."""
    obj["metadata"]["resourceVersion"] = str(kv.mod_revision)
    if not request.dry_run:
        await backend.store.delete(kv.key, expect=kv.mod_revision)
    return await object_answer(request, obj)
