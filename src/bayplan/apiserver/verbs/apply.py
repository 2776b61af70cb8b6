"""Server-side apply: PATCH with `application/apply-patch+yaml`."""

from __future__ import annotations

from bayplan.api.schema import Type, type_for
from bayplan.apiserver import ownership, pipeline
from bayplan.apiserver.apply import ApplyConflict, ApplyRejected, server_side_apply
from bayplan.apiserver.aside import aside
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import OTHER_NAMESPACE, canonical, identify_applied, parse_body
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, bad_request, invalid, not_found
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.negotiate import APPLY_PATCH
from bayplan.apiserver.permission import demand
from bayplan.apiserver.request import Request, flag
from bayplan.apiserver.responses import Answer
from bayplan.apiserver.validation.causes import required
from bayplan.apiserver.verbs.create import create_object
from bayplan.apiserver.verbs.update import rewrite


async def apply(backend: Backend, request: Request) -> Answer:
    """Merge the configuration in the body into an object, or create it."""
    manager = request.query.get("fieldManager", "")
    if not manager:
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    force = flag(request.query, "force")
    applied, named = await aside(request, _read, request)
    type_ = ownership.type_of(request.kind) or _built_in(request.kind)

    def merged(live: Object | None) -> Object:
        return _merge(backend, request, live, applied, manager, force, type_)

    codec = backend.codec(request.kind)
    if await backend.get(codec, request.namespace, request.name) is None:
        if request.subresource:
            raise not_found(request.kind.group, request.kind.resource, request.name)
        if not named:
            raise bad_request(
                f"the name of the object ({request.name} based on URL) was undeterminable: "
                "name must be provided"
            )
        demand(backend.authorizer, request, "create")
        obj = await aside(request, merged, None)
        pipeline.check_identity(request, obj)
        await pipeline.complete(request, obj)
        return await create_object(backend, request, obj, track=False)
    return await rewrite(backend, request, merged, track=False)


def _built_in(kind: Kind) -> Type:
    found = type_for(kind.api_version, kind.kind)
    assert found is not None
    return found


def _read(request: Request) -> tuple[Object, bool]:
    """Return the configuration, and whether it names the object itself."""
    kind = request.kind
    obj = identify_applied(parse_body(request, APPLY_PATCH), kind)
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        metadata = obj["metadata"] = {}
    named = bool(metadata.get("name"))
    name = metadata.setdefault("name", request.name)
    if name != request.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
    if kind.namespaced and metadata.setdefault("namespace", request.namespace) != request.namespace:
        raise bad_request(OTHER_NAMESPACE)
    return obj, named


def _merge(
    backend: Backend,
    request: Request,
    live: Object | None,
    applied: Object,
    manager: str,
    force: bool,
    type_: Type,
) -> Object:
    try:
        result, _ = server_side_apply(
            live,
            applied,
            manager=manager,
            force=force,
            kind=type_,
            now=backend.now(),
            subresource=request.subresource,
            has_status="status" in request.kind.subresources,
        )
    except ApplyConflict as error:
        raise ApiError(409, "Conflict", str(error), details={"causes": _causes(error)}) from error
    except ApplyRejected as error:
        raise bad_request(str(error)) from error
    version = (applied.get("metadata") or {}).get("resourceVersion")
    obj = canonical(request, request.kind, result, None, None)
    if version:
        obj["metadata"]["resourceVersion"] = version
    return obj


def _causes(error: ApplyConflict) -> list[Object]:
    return [
        {"reason": "FieldManagerConflict", "message": message, "field": field}
        for field, message in error.causes
    ]
