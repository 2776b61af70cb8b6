"""Scale: the number of replicas of any workload, in one form.

Reading makes a Scale out of the stored object; writing changes `spec.replicas` and goes on as an
ordinary update of the object, so validation, admission and versions are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bayplan.api.patch import PatchError, apply_json_patch, apply_merge_patch, apply_strategic_merge
from bayplan.api.schema import FieldTypeError, decode, type_for
from bayplan.apiserver import crd
from bayplan.apiserver.aside import aside_of, decoded
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import identify, parse, parse_body, read_as
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, bad_request, invalid
from bayplan.apiserver.kinds import Kind, kind_of
from bayplan.apiserver.negotiate import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    TABLE,
    patch_type,
)
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, plain_answer
from bayplan.apiserver.validation.causes import invalid as invalid_value
from bayplan.apiserver.verbs.update import rewrite

API_VERSION = "autoscaling/v1"
SCALE = kind_of("autoscaling/v1", "scales Scale namespaced")


class Paths(NamedTuple):
    """Where a kind keeps what a Scale shows; each a tuple of keys."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")


def paths_of(kind: Kind) -> Paths:
    if not kind.custom:
        return Paths()
    found = crd.scale_paths(kind)
    return Paths(*found)


async def scale(backend: Backend, request: Request) -> Answer:
    """Handle GET, PUT and PATCH of a scale."""
    codec = backend.codec(request.kind)
    paths = paths_of(request.kind)
    kv = await backend.must_get(codec, request.namespace, request.name)
    if request.verb == "get":
        return _answer(request, scale_of(await decoded(request, codec, kv), paths))
    change = _change_of(request)

    def compute(old: Object) -> Object:
        before = scale_of(old, paths)
        wanted = change(before)
        _write(request, old, wanted, paths)
        return old

    request.subresource = ""  # what follows is an update of the object itself
    inner = request.output
    request.output = type(inner)()
    answer = await rewrite(backend, request, compute)
    request.output = inner
    obj = await aside_of(len(answer.body), parse, JSON, answer.body)
    return _answer(request, scale_of(obj, paths))


def _answer(request: Request, shown: Object) -> Answer:
    """Answer with a Scale, as a table if one was asked for."""
    if request.output.form == TABLE:
        from bayplan.apiserver import tables

        metadata = {"resourceVersion": shown["metadata"]["resourceVersion"]}
        shown = tables.render(SCALE, [shown], metadata, version=request.output.version)
    return plain_answer(request, shown)


def _change_of(request: Request) -> Callable[[Object], Object]:
    """Return a function from the present Scale to the wanted one."""
    if request.verb == "update":
        given = read_as(request, API_VERSION, "Scale")
        return lambda before: given
    media = patch_type(request.content_type, strategic=True)
    body = parse_body(request, APPLY_PATCH if media == APPLY_PATCH else JSON)
    type_ = type_for(API_VERSION, "Scale")
    assert type_ is not None

    def change(before: Object) -> Object:
        try:
            if media == JSON_PATCH:
                patched = apply_json_patch(before, body)
            elif media in (MERGE_PATCH, APPLY_PATCH):
                patched = apply_merge_patch(before, body)
            else:
                patched = apply_strategic_merge(before, body, type_)
            out, _ = decode(identify(patched, API_VERSION, "Scale", defaulted=True), type_)
        except PatchError as error:
            reason = "BadRequest" if error.status == 400 else "Invalid"
            raise ApiError(error.status, reason, str(error)) from error
        except FieldTypeError as error:
            raise bad_request(str(error)) from error
        return out

    return change


def _write(request: Request, obj: Object, wanted: Object, paths: Paths) -> None:
    """Put the wanted number into the object, or say what is wrong with it."""
    metadata = wanted.get("metadata") or {}
    if metadata.get("name", request.name) != request.name:
        raise bad_request(
            f"the name of the object ({metadata.get('name')}) does not match "
            f"the name on the URL ({request.name})"
        )
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", request.name, [cause])
    for key in ("resourceVersion", "uid"):
        if metadata.get(key):
            obj["metadata"][key] = metadata[key]
    node = obj
    for key in paths.replicas[:-1]:
        node = node.setdefault(key, {})
    node[paths.replicas[-1]] = replicas


def scale_of(obj: Object, paths: Paths) -> Object:
    """Make the Scale of an object."""
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec: Object = {}
    if replicas := _at(obj, paths.replicas):
        spec["replicas"] = replicas
    status: Object = {"replicas": _at(obj, paths.status) or 0}
    if selector := selector_text(_at(obj, paths.selector) if paths.selector else None):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": spec,
        "status": status,
    }


def _at(obj: Object, path: tuple[str, ...]) -> object:
    value: object = obj
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def selector_text(selector: object) -> str:
    """Write a label selector, or a plain map, as text."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        key, values = item["key"], ",".join(sorted(item.get("values") or ()))
        text = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(item["operator"], "")
        parts.append((key, text))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))
