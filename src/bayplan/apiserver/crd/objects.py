"""A custom object on its way to the store: pruning, defaulting, preparing, validating.

Pruning drops what the structural schema does not name. Defaulting fills in its `default`s.
Preparing keeps the main path and the status path apart and counts generations. Without a webhook
all versions share one stored form, only apiVersion changes; `crd.conversion` does the rest.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.json import go_type
from bayplan.api.patch import clone
from bayplan.api.place import Place, shown
from bayplan.api.schema import FieldTypeError, duplicate_fields
from bayplan.apiserver.crd.custom_kind import CustomKind, Object, custom
from bayplan.apiserver.crd.defaults import MOST_FILLED, fill
from bayplan.apiserver.crd.pruning import prune_root
from bayplan.apiserver.crd.values import validate_value
from bayplan.apiserver.errors import too_large
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.validation.causes import Cause, invalid


def prune(kind: Kind, obj: Object, body: bytes | None) -> tuple[Object, list[str]]:
    """Return the object without unknown fields, and what strict field validation says about it.

    Raises FieldTypeError (a 400) if metadata is not what it must be.
    """
    schema = custom(kind).schema
    found: list[Place] = []
    try:
        result = prune_root(obj, schema, "", found)
    except FieldTypeError as error:  # which knows only the metadata
        version = kind.api_version.rpartition("/")[2]
        why = f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: '
        raise FieldTypeError(why + str(error).partition(": ")[2]) from error
    duplicates = duplicate_fields(body, obj) if body is not None else []
    texts = [f'unknown field "{path}"' for path in sorted(shown(found))]
    return result, texts + [f'duplicate field "{path}"' for path in dict.fromkeys(duplicates)]


def default(kind: Kind, obj: Object) -> None:
    """Write the schema's defaults into the object, in place. Raises a 413."""
    if not fill(obj, custom(kind).schema):
        raise too_large(MOST_FILLED)


def prepare_for_create(kind: Kind, obj: Object) -> None:
    """Set the first generation, and drop the status where it has a path of its own."""
    if "status" in kind.subresources:
        obj.pop("status", None)
    obj["metadata"]["generation"] = 1
    _prune_to_stored(custom(kind), obj)


def _prune_to_stored(kind: CustomKind, obj: Object) -> None:
    """What the storage version does not have cannot be kept, whichever version wrote it."""
    if kind.stored_schema is not None and kind.converter is None:
        kept = prune_root(obj, kind.stored_schema, "", [])
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
    wanted = "int64"
    for key in path.strip(".").split("."):
        if not isinstance(value, dict):
            wanted = "map[string]interface{}"
            break
        value = value.get(key)
    if value is None:
        return []
    if wanted != "int64" or isinstance(value, bool) or not isinstance(value, int):
        text = f"{path} accessor error: {value} is of the type {go_type(value)}, expected {wanted}"
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
    if isinstance(value, list) and part.isdecimal() and len(part) < 10 and int(part) < len(value):
        return value[int(part)]
    return None
