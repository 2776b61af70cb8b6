"""Takes an object through the steps of a create or an update, without a server."""

from __future__ import annotations

import copy
from typing import Any

from bayplan.api.defaults import apply_defaults
from bayplan.apiserver import validation

Object = dict[str, Any]


def created(group: str, resource: str, body: Object) -> Object:
    """Return the object as a create would store it; AssertionError if it is not valid."""
    obj = prepared(group, resource, body)
    causes = validation.validate_create(group, resource, obj)
    assert [] == causes
    validation.canonicalize(group, resource, obj)
    return obj


def prepared(group: str, resource: str, body: Object) -> Object:
    obj = copy.deepcopy(body)
    meta = obj.setdefault("metadata", {})
    meta.setdefault("name", "it")
    meta.setdefault("uid", "u-1")
    meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    apply_defaults(group, resource, obj)
    validation.prepare_for_create(group, resource, obj)
    return obj


def create_causes(group: str, resource: str, body: Object) -> list[tuple[str, str]]:
    """Return reason (without its prefix) and field of every cause of a create."""
    obj = prepared(group, resource, body)
    return shortened(validation.validate_create(group, resource, obj))


def update_causes(
    group: str, resource: str, old: Object, change: Object, subresource: str = ""
) -> list[tuple[str, str]]:
    """Return the causes of changing a stored object; `change` is merged into it."""
    obj = merged(old, change)
    apply_defaults(group, resource, obj)
    validation.prepare_for_update(group, resource, obj, old, subresource)
    return shortened(validation.validate_update(group, resource, obj, old, subresource))


def merged(old: Any, change: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    out = copy.deepcopy(old)
    for key, value in change.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


def shortened(causes: list[validation.Cause]) -> list[tuple[str, str]]:
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in causes]


def pod(container: Object | None = None, **spec: Any) -> Object:
    main = {"name": "main", "image": "registry.example/app:1", **(container or {})}
    return {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [main], **spec}}
