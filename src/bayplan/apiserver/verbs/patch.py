"""PATCH: JSON patch, merge patch, strategic merge patch, and server-side apply.

The first three compute a new object from the stored one and go on as an update. A patch that sets
`metadata.resourceVersion` thereby insists on that version. Apply also reads and writes field
ownership and may create the object; `bayplan.apiserver.apply` does that part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.patch import (
    PatchError,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_merge,
)
from bayplan.api.schema import FieldTypeError, decode, decode_fields, problems, type_for
from bayplan.apiserver import crd, pipeline
from bayplan.apiserver.aside import aside
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import identify, parse
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, bad_request, invalid
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.negotiate import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    patch_type,
)
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer
from bayplan.apiserver.validation.causes import Cause
from bayplan.apiserver.verbs.apply import apply
from bayplan.apiserver.verbs.update import Compute, rewrite


async def patch(backend: Backend, request: Request) -> Answer:
    """Change an object as the body says."""
    media = patch_type(request.content_type, strategic=not request.kind.custom)
    if media == APPLY_PATCH:
        return await apply(backend, request)
    return await rewrite(backend, request, await aside(request, read_patch, request))


def read_patch(request: Request) -> Compute:
    """Return what the patch in the body makes of an object. Raises a 400 or 422."""
    media = patch_type(request.content_type, strategic=not request.kind.custom)
    if "force" in request.query:
        cause = Cause(
            "FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch"
        )
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    body = _parse(media, request.body)
    change = _change(request.kind, media, body)
    if media == JSON_PATCH and isinstance(body, list):
        request.copies = sum(isinstance(op, dict) and op.get("op") == "copy" for op in body)

    def compute(old: Object) -> Object:
        obj = patched(request, old, change, body)
        pipeline.check_identity(request, obj)
        pipeline.check_name(request, obj)
        return obj

    return compute


def _parse(media: str, body: bytes) -> Any:
    try:
        return parse(JSON, body)
    except ApiError as error:
        text = str(error).rpartition("json parse error: ")[2]
        prefix = "" if media == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(prefix + text) from error


def _change(kind: Kind, media: str, body: Any) -> Callable[[Object], Any]:
    if media == JSON_PATCH:
        return lambda old: apply_json_patch(old, body)
    if media == MERGE_PATCH:
        return lambda old: apply_merge_patch(old, body)
    type_ = type_for(kind.api_version, kind.kind)
    assert type_ is not None
    # What such a patch says about the kind does not matter to the real server.
    identity = {"apiVersion": kind.api_version, "kind": kind.kind}
    return lambda old: {**apply_strategic_merge(old, body, type_, own=True), **identity}


def patched(request: Request, old: Object, change: Callable[[Object], Any], body: Any) -> Object:
    """Apply a patch to a stored object and bring the result into canonical form."""
    try:
        result = change(old)
    except PatchError as error:
        raise _patch_error(error) from error
    kind = request.kind
    _check_identity(request, result, body)
    obj = identify(result, kind.api_version, kind.kind, defaulted=True)
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    if kind.custom:
        return _custom(request, obj)
    type_ = type_for(kind.api_version, kind.kind)
    if type_ is None:
        return obj
    try:
        named = _named(body)
        out, dropped = decode(obj, type_) if named is None else decode_fields(obj, type_, named)
    except FieldTypeError as error:
        strategic = patch_type(request.content_type, strategic=True) == STRATEGIC_PATCH
        raise _invalid_patch(body, _restoring(str(error), strategic)) from error
    mode = request.field_validation
    if dropped and mode != "Ignore":
        _report(request, mode, problems(type_, obj), body)
    return out


def _named(body: Any) -> list[str] | None:
    """Return the fields that a patch can have changed, as it names them; None: any."""
    if type(body) is not dict or any(name[:1] == "$" for name in body):
        return None
    return [name for name in body if name not in ("kind", "apiVersion")]


def _check_identity(request: Request, result: Any, body: Any) -> None:
    """Refuse a patch that makes something else of the object, in the real server's ways."""
    kind = request.kind
    if not isinstance(result, dict):
        raise _invalid_patch(body, "couldn't get version/kind; the result is not an object")
    if result.get("kind") not in (None, "", kind.kind):
        raise _invalid_patch(body, f"the kind of a {kind.kind} cannot change")
    if result.get("apiVersion") in (None, ""):
        raise pipeline.nameless(request)
    if result["apiVersion"] != kind.api_version:
        raise _invalid_patch(body, f"the API version of a {kind.kind} cannot change")
    if not isinstance(result.get("metadata", {}), dict | None):
        raise _invalid_patch(body, "the metadata of the result is not an object")


def _report(request: Request, mode: str, found: list[str], body: Any) -> None:
    if found and mode == "Strict":
        raise _invalid_patch(body, f"strict decoding error: {', '.join(found)}")
    request.warnings.extend(found)


def _custom(request: Request, obj: Object) -> Object:
    mode = request.field_validation
    try:
        out, found = crd.prune(request.kind, obj, None)
    except FieldTypeError as error:
        raise _invalid_patch(obj, str(error)) from error
    if found and mode != "Ignore":
        _report(request, mode, found, obj)
    return out


_MISFIT = re.compile(r"json: cannot unmarshal (\w+) into Go .* of type (\S+)$")
_GO_KINDS = {"array": "slice", "object": "map", "number": "int64"}


def _restoring(text: str, strategic: bool) -> str:
    """Return what is said of a value that does not fit: a strategic patch never becomes JSON."""
    text = text[max(text.find("json: "), 0) :]  # the patch is named instead of the object
    found = _MISFIT.search(text) if strategic else None
    if found is None:
        return text
    given, wanted = _GO_KINDS.get(found[1], found[1]), found[2]
    for mark, name in (("map[", "map"), ("[]", "slice")):
        if wanted.startswith(mark):
            return f"cannot restore {name} from {given}"
    return f"cannot restore struct from: {given}" if "." in wanted else text


REJECTED = "the server rejected our request due to an error in our request"


def _patch_error(error: PatchError) -> ApiError:
    if error.status == 422:  # upstream keeps the reason to itself
        return ApiError(422, "Invalid", REJECTED)
    reason = {400: "BadRequest", 413: "RequestEntityTooLarge"}[error.status]
    return ApiError(error.status, reason, str(error))


def _invalid_patch(body: Any, text: str) -> ApiError:
    shown = msgspec.json.encode(body).decode()
    cause = Cause("FieldValueInvalid", "patch", f"Invalid value: {shown:.400}: {text}")
    return invalid("", "", "", [cause])
