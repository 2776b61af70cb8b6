"""A custom object on its way to the store: pruning, defaulting, preparing, validating.

Pruning drops what the structural schema does not name. Defaulting fills in its `default`s.
Preparing keeps the main path and the status path apart and counts generations. Conversion between
versions is "None": all versions share one stored form, only apiVersion changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.patch import clone
from bayplan.api.schema import decode, duplicate_fields, struct, unknown_fields
from bayplan.apiserver.crd.defaults import fill
from bayplan.apiserver.crd.kinds import PRESERVE, CustomKind, Object, custom
from bayplan.apiserver.crd.values import validate_value
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.validation.errors import Cause, invalid

Schema = Mapping[str, Any]
EMBEDDED = "x-kubernetes-embedded-resource"
TYPE_META = ("apiVersion", "kind", "metadata")


def prune(kind: Kind, obj: Object, body: bytes | None) -> tuple[Object, list[str]]:
    """Return the object without unknown fields, and what strict field validation says about it.

    Raises FieldTypeError (a 400) if metadata is not what it must be.
    """
    schema = custom(kind).schema
    found: list[str] = []
    result = _prune_root(obj, schema, "", found)
    duplicates = duplicate_fields(body, obj) if body is not None else []
    texts = [f'unknown field "{path}"' for path in sorted(found)]
    return result, texts + [f'duplicate field "{path}"' for path in dict.fromkeys(duplicates)]


def _prune_root(obj: Object, schema: Schema, path: str, found: list[str]) -> Object:
    rest = {key: value for key, value in obj.items() if key not in TYPE_META}
    result: Object = {key: obj[key] for key in TYPE_META[:2] if key in obj}
    if isinstance(obj.get("metadata"), dict):
        prefix = f"{path}." if path else ""
        meta_type = struct("meta.v1.ObjectMeta")
        metadata, dropped = decode(obj["metadata"], meta_type)
        if dropped:
            unknown = unknown_fields(meta_type, obj["metadata"])
            found.extend(f"{prefix}metadata.{name}" for name in unknown)
        result["metadata"] = metadata
    return {**result, **_prune_object(rest, schema, path, found)}


def _prune_object(value: Object, schema: Schema, path: str, found: list[str]) -> Object:
    properties = schema.get("properties") or {}
    other = schema.get("additionalProperties")
    result: Object = {}
    for key, item in value.items():
        inner = f"{path}.{key}" if path else key
        if key in properties:
            result[key] = _prune(item, properties[key], inner, found)
        elif isinstance(other, Mapping):
            result[key] = _prune(item, other, inner, found)
        elif other or schema.get(PRESERVE):
            result[key] = item
        else:
            found.append(inner)
    return result


def _prune(value: Any, schema: Schema, path: str, found: list[str]) -> Any:
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            return _prune_root(value, schema, path, found)
        return _prune_object(value, schema, path, found)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, Mapping):
        return [_prune(v, items, f"{path}[{i}]", found) for i, v in enumerate(value)]
    return value


def default(kind: Kind, obj: Object) -> None:
    """Write the schema's defaults into the object, in place."""
    fill(obj, custom(kind).schema)


def prepare_for_create(kind: Kind, obj: Object) -> None:
    """Set the first generation, and drop the status where it has a path of its own."""
    if "status" in kind.subresources:
        obj.pop("status", None)
    obj["metadata"]["generation"] = 1
    _prune_to_stored(custom(kind), obj)


def _prune_to_stored(kind: CustomKind, obj: Object) -> None:
    """What the storage version does not have cannot be kept, whichever version wrote it."""
    if kind.stored_schema is not None:
        kept = _prune_root(obj, kind.stored_schema, "", [])
        obj.clear()
        obj.update(kept)


def prepare_for_update(kind: Kind, obj: Object, old: Object, subresource: str = "") -> None:
    """Keep of the stored object what this path may not write; count the generation up."""
    if subresource == "status":
        _keep_all_but_status(obj, old)
        return _prune_to_stored(custom(kind), obj)
    has_status = "status" in kind.subresources
    if has_status:
        _copy_status(obj, old)
    ignored = {"metadata", "apiVersion"} | ({"status"} if has_status else set())
    before = {key: value for key, value in old.items() if key not in ignored}
    after = {key: value for key, value in obj.items() if key not in ignored}
    generation = old["metadata"].get("generation", 1)
    obj["metadata"]["generation"] = generation + (before != after)
    return _prune_to_stored(custom(kind), obj)


def _copy_status(obj: Object, old: Object) -> None:
    if "status" in old:
        obj["status"] = old["status"]
    else:
        obj.pop("status", None)


def _keep_all_but_status(obj: Object, old: Object) -> None:
    status = obj.get("status")
    managed = obj["metadata"].get("managedFields")
    version = obj["metadata"].get("resourceVersion")
    obj.clear()
    obj.update(clone(old))
    if status is None:
        obj.pop("status", None)
    else:
        obj["status"] = status
    if managed is not None:
        obj["metadata"]["managedFields"] = managed
    if version is not None:
        obj["metadata"]["resourceVersion"] = version


def validate_create(kind: Kind, obj: Object) -> list[Cause]:
    """Every way in which a new object does not fit its schema."""
    return _validate(custom(kind), obj, None)


def validate_update(kind: Kind, obj: Object, old: Object, subresource: str = "") -> list[Cause]:
    """Every way in which a changed object does not fit; unchanged parts are not judged."""
    causes = _validate(custom(kind), obj, old)
    if not causes:
        return []
    unchanged = {(c.field, c.reason) for c in _validate(custom(kind), old, old)}
    return [
        c for c in causes if (c.field, c.reason) not in unchanged or _changed(c.field, obj, old)
    ]


def _validate(kind: CustomKind, obj: Object, old: Object | None) -> list[Cause]:
    causes = [*validate_value(obj, kind.schema), *_validate_scale(kind, obj)]
    if causes or kind.rules is None:
        return causes
    return list(kind.rules.validate(obj, old))


def _validate_scale(kind: CustomKind, obj: Object) -> list[Cause]:
    """The paths of the scale subresource must lead to replica counts, where they lead anywhere."""
    path = kind.scale.get("specReplicasPath")
    if not path:
        return []
    value: Any = obj
    for key in path.strip(".").split("."):
        value = value.get(key) if isinstance(value, dict) else value
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int):
        kinds = {str: "string", bool: "bool", float: "float64", list: "[]interface {}"}
        name = kinds.get(type(value), "map[string]interface {}")
        text = f"{path} accessor error: {value} is of the type {name}, expected int64"
        return [invalid(path, 0, text)]
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    if value >= 2**31:
        return [invalid(path, value, "should be less than or equal to 2147483647")]
    return []


def _changed(path: str, obj: Any, old: Any) -> bool:
    """Whether the value at a path differs between two objects."""
    for part in path.replace("[", ".").replace("]", "").split("."):
        obj, old = _step(obj, part), _step(old, part)
    return bool(obj != old)


def _step(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return None
