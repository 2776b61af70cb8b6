"""From a request's body to an object in canonical form.

JSON, YAML and protobuf become a plain dict, are checked against what the path expects, and are
brought into the form in which the real server would print them (`bayplan.api.schema`). Unknown and
duplicate fields are refused, reported as warnings or ignored, as `fieldValidation` asks.
"""

from __future__ import annotations

from typing import Any, cast

from bayplan.api import json, yaml
from bayplan.api.schema import (
    FieldTypeError,
    Type,
    decode,
    duplicate_fields,
    problems,
    strict_message,
    type_for,
)
from bayplan.apiserver import crd, protobuf
from bayplan.apiserver.aside import beside, turn
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, bad_request, internal, invalid
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.negotiate import APPLY_PATCH, JSON, PROTOBUF, YAML, body_type
from bayplan.apiserver.request import Request
from bayplan.apiserver.validation.causes import invalid as invalid_value
from bayplan.errors import DecodeError


def parse(media: str, body: bytes) -> Any:
    """Decode a body of a media type. Raises a 400 that says what is wrong."""
    try:
        if media == JSON:
            return json.load(body)
        value = protobuf.decode(body) if media == PROTOBUF else yaml.load(body.decode())
        json.check_depth(value)
        return value
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(_parse_error(media, error)) from error


PARSED_ASIDE = 8 * 1024  # bytes of YAML from which on a thread reads it: up to 3 µs each


async def parse_aside(request: Request) -> None:
    """Read YAML that is large, or may be in effect, beside the event loop. Raises a 400."""
    media = (request.content_type or "").partition(";")[0].strip().lower()
    dear = len(request.body) >= PARSED_ASIDE or b"*" in request.body  # which an alias begins with
    if dear and media in (YAML, APPLY_PATCH):
        await turn(request)
        request.parsed = await beside(parse, media, request.body)


def parse_body(request: Request, media: str) -> Any:
    """Return the decoded body of a request, which may be changed."""
    if media in (YAML, APPLY_PATCH) and request.parsed is not None:
        parsed, request.parsed = request.parsed, None
        return parsed
    return parse(media, request.body)


def _parse_error(media: str, error: Exception) -> str:
    if media == APPLY_PATCH:
        return f"error decoding YAML: {error}"
    if media != JSON:
        return str(error)
    return f"couldn't get version/kind; json parse error: {error}"


def read_object(request: Request, kind: Kind) -> Object:
    """Return the object in the body, canonical, with the kind that the path expects."""
    media = body_type(request.content_type)
    try:
        raw = parse_body(request, media)
    except ApiError as error:
        raise _unrecognized(kind.kind, error, request.body) from error
    if not isinstance(raw, dict | None):
        raise _unrecognized(kind.kind, _no_object(raw), request.body)
    if kind.custom:
        _check_custom_kind(kind, raw)
    obj = identify(raw, kind.api_version, kind.kind, defaulted=not kind.custom)
    body = request.body if media == JSON else None
    return canonical(request, kind, obj, None, body, len(obj) - len(raw or ()))


OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
SUMMARY = 30  # bytes of a body that an error shows


def _unrecognized(kind: str, error: ApiError, body: bytes) -> ApiError:
    shown = body[:SUMMARY]
    summary = shown.decode(errors="replace") if shown.startswith(b"{") else shown.hex()
    more = " ..." if len(body) > SUMMARY else ""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): "
        f"{error} ({summary or '<empty>'}{more})"
    )


def _check_custom_kind(kind: Kind, raw: Any) -> None:
    """Another kind in the right version is an invalid object, not a bad request."""
    if not isinstance(raw, dict) or raw.get("apiVersion") != kind.api_version:
        return
    given = raw.get("kind")
    if isinstance(given, str) and given and given != kind.kind:
        metadata = raw.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        cause = invalid_value("kind", given, f"must be {kind.kind}")
        raise invalid(kind.group, given, name, [cause])


def read_as(request: Request, api_version: str, kind_name: str, *, older: str = "") -> Object:
    """Return a body that is of another kind than the path's resource (a Scale, a Binding).

    `older` is an earlier version of the same shape that is still accepted.
    """
    media = body_type(request.content_type)
    raw = parse_body(request, media)
    if older and isinstance(raw, dict) and raw.get("apiVersion") == older:
        raw["apiVersion"] = api_version
    obj = identify(raw, api_version, kind_name, defaulted=True)
    type_ = type_for(api_version, kind_name)
    if type_ is None:
        return obj
    body = request.body if media == JSON else None
    return _checked(request, obj, type_, body, len(obj) - len(raw or ()))


def identify(raw: Any, api_version: str, kind: str, *, defaulted: bool) -> Object:
    """Check that a decoded body is an object of this kind; fill both in if that is allowed."""
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise _no_object(raw)
    found_version, found_kind = raw.get("apiVersion"), raw.get("kind")
    if not found_version or not found_kind:
        if not defaulted:
            missing = "Kind" if not found_kind else "apiVersion"
            raise bad_request(f"Object '{missing}' is missing in the body")
        raw = {**raw, "apiVersion": found_version or api_version, "kind": found_kind or kind}
    if raw["apiVersion"] != api_version or raw["kind"] != kind:
        raise _mismatch(raw, api_version, kind, built_in=defaulted)
    if not isinstance(metadata := raw.get("metadata", {}), dict | None):
        raise bad_request(
            f'{kind} in version "{_version(api_version)}" cannot be handled as a {kind}: '
            f"json: cannot unmarshal {json.go_name(metadata)} into Go struct field {kind}.metadata "
            "of type v1.ObjectMeta"
        )
    return cast("Object", raw)


def identify_applied(raw: Any, kind: Kind) -> Object:
    """Check that a configuration to apply is of the path's kind; it has to say so itself."""
    if isinstance(raw, dict):
        version, name = str(raw.get("apiVersion") or ""), str(raw.get("kind") or "")
        if (version, name) != (kind.api_version, kind.kind):
            group = version.rpartition("/")[0]
            raise bad_request(f"invalid object type: {group}/{_version(version)}, Kind={name}")
    return identify(raw, kind.api_version, kind.kind, defaulted=False)


# Where the real server's scheme is made, which its errors name; the same in 1.36 and 1.37.
SCHEME = "pkg/runtime/scheme.go:111"
# Go packages of internal types that are not called like the first part of their group.
_PACKAGES = {"": "core", "events": "core", "internal": "apiserverinternal"}


def _mismatch(raw: Object, api_version: str, kind: str, *, built_in: bool) -> Exception:
    given, name = str(raw["apiVersion"]), str(raw["kind"])
    if name == kind and (type_for(given, name) is not None or not built_in):
        return bad_request(
            f"the API version in the data ({given}) does not match "
            f"the expected API version ({api_version})"
        )
    why = _other(given, name, api_version, kind)
    return bad_request(
        f'{name} in version "{_version(given)}" cannot be handled as a {kind}: {why}'
    )


def _other(given: str, name: str, api_version: str, kind: str) -> str:
    """Say why one kind is not another, as the real server's scheme does."""
    if type_for(given, name) is None:
        return f'no kind "{name}" is registered for version "{given}" in scheme "{SCHEME}"'
    group = api_version.rpartition("/")[0].partition(".")[0]
    wanted = f"{_PACKAGES.get(group, group)}.{kind}"
    return f"converting ({_version(given)}.{name}) to ({wanted}): unknown conversion"


def changed(request: Request, kind: Kind, was: Object, made: Any) -> Object:
    """Return an object as admission made it; raises a 500 where it is no longer what it was."""
    if not isinstance(made, dict):
        raise internal(str(_no_object(made)))
    is_, now = (
        (str(each.get("apiVersion") or kind.api_version), str(each.get("kind") or kind.kind))
        for each in (was, made)
    )
    if now != is_:
        why = _other(*now, *is_)
        raise internal(why) if type_for(*now) is None else ApiError(500, "", why)
    made["apiVersion"], made["kind"] = now
    metadata = made.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    if kind.namespaced and namespace and namespace != request.namespace:
        raise bad_request(OTHER_NAMESPACE)
    try:
        return canonical(request, kind, made, None, None)
    except ApiError as error:
        if not isinstance(error.__cause__, FieldTypeError):
            raise
        why = error.message.partition(f"cannot be handled as a {kind.kind}: ")[2]
        raise internal(why or error.message) from error


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]


def _no_object(raw: Any) -> ApiError:
    return bad_request(
        "couldn't get version/kind; json parse error: json: cannot unmarshal "
        f"{json.go_name(raw)} into Go value of type "
        'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
        'Kind string "json:\\"kind,omitempty\\"" }'
    )


def canonical(
    request: Request,
    kind: Kind,
    obj: Object,
    type_: Type | None,
    body: bytes | None,
    added: int = 0,
) -> Object:
    """Bring an object into the form in which the real server would print it.

    `added` is how many fields it has that the body has not.
    """
    if kind.custom:
        return _custom(request, kind, obj, body)
    type_ = type_ or type_for(kind.api_version, kind.kind)
    if type_ is None:
        return obj
    return _checked(request, obj, type_, body, added)


def _checked(request: Request, obj: Object, type_: Type, body: bytes | None, added: int) -> Object:
    mode = request.field_validation
    try:
        out, dropped = decode(obj, type_)
    except FieldTypeError as error:
        raise bad_request(str(error)) from error
    if mode != "Ignore" and dropped:
        report(request, mode, obj, problems(type_, obj, body))
    elif mode != "Ignore" and body is not None:
        # Nothing was unknown, so only the cheap check for duplicates is left.
        doubled = dict.fromkeys(duplicate_fields(body, obj, added))
        report(request, mode, obj, [f'duplicate field "{path}"' for path in doubled])
    return out


def report(request: Request, mode: str, obj: Object, found: list[str]) -> None:
    """Refuse (Strict) or warn (Warn) because of unknown and duplicate fields."""
    if not found:
        return
    if mode == "Strict":
        raise bad_request(strict_message(obj, found))
    request.warnings.extend(found)


def _custom(request: Request, kind: Kind, obj: Object, body: bytes | None) -> Object:
    mode = request.field_validation
    try:
        out, found = crd.prune(kind, obj, body)
    except FieldTypeError as error:
        raise bad_request(str(error)) from error
    if mode != "Ignore":
        report(request, mode, obj, found)
    return out
