"""RFC 6902 JSON patch, with the liberties of the library that kube-apiserver uses.

Kept on purpose: negative indexes count from the end; `replace` of a missing object key adds it;
`test` against null passes where the key is missing; what stands before the first slash of a path
is ignored. The object given is never changed.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bayplan.api.json import check_depth
from bayplan.api.patch.errors import BadPatch, PatchNotApplicable, PatchTooLarge
from bayplan.api.patch.values import clone, same, size
from bayplan.errors import DecodeError

MAX_OPERATIONS: Final = 10_000
MAX_COPIED: Final = 3 * 1024 * 1024  # bytes that all copy operations together may add, as upstream
MAX_SHIFTED: Final = 20_000_000  # list items that insertions and removals may move
_INDEX = re.compile(r"[+-]?[0-9]+")


def apply_json_patch(doc: Any, ops: Any) -> Any:
    """Return the document with all operations applied; a PatchError says which one does not."""
    check_operations(ops)
    result = clone(doc)
    budget = _Budget()
    for op in ops:
        result = _apply(result, op, budget)
    try:
        check_depth(result)  # copies of copies into themselves nest as no body may
    except DecodeError as error:
        raise PatchNotApplicable(str(error)) from error
    return result


class _Budget:
    """What the operations of one patch may still cost."""

    def __init__(self) -> None:
        self.copied = MAX_COPIED
        self.shifted = MAX_SHIFTED

    def copy(self, value: Any) -> Any:
        self.copied -= size(value)
        if self.copied < 0:
            raise PatchNotApplicable(
                "Unable to complete the copy, the accumulated size increase of copy is more than "
                f"the limit {MAX_COPIED}"
            )
        return clone(value)

    def shift(self, items: Any) -> None:
        if isinstance(items, list):
            self.shifted -= len(items)
            if self.shifted < 0:
                raise PatchNotApplicable("the operations move too many list items")


def check_operations(ops: Any) -> None:
    """Refuse what is not a list of operations."""
    if not isinstance(ops, list):
        raise BadPatch(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp"
        )
    if len(ops) > MAX_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}"
        )
    for op in ops:
        if not isinstance(op, dict):
            raise BadPatch("error decoding patch: an operation must be an object")
        for key in ("op", "path", "from"):
            if not isinstance(op.get(key, ""), str):
                raise BadPatch(
                    f"error decoding patch: json: field {key} of an operation must be a string"
                )


def _apply(doc: Any, op: dict[str, Any], budget: _Budget) -> Any:
    kind = op.get("op", "unknown")
    if kind not in ("add", "remove", "replace", "move", "test", "copy"):
        raise PatchNotApplicable(f"Unexpected kind: {kind}")
    if kind in ("move", "copy"):
        return _transfer(doc, op, kind, budget)
    if "path" not in op:
        raise PatchNotApplicable(f"{kind} operation failed to decode path: missing value")
    path = op["path"]
    if path == "" and kind in ("replace", "test"):
        return _whole(doc, op.get("value"), kind)
    parent, key = _find(doc, path)
    if parent is None:
        raise PatchNotApplicable(
            f'{kind} operation does not apply: doc is missing path: "{path}": missing value'
        )
    if kind in ("add", "remove"):
        budget.shift(parent)
    if kind == "add":
        _add(parent, key, clone(op.get("value")), path)
    elif kind == "remove":
        _remove(parent, key, path)
    elif kind == "replace":
        _replace(parent, key, clone(op.get("value")), path)
    elif not same(_get(parent, key, path), op.get("value")):
        raise PatchNotApplicable(f"testing value {path} failed: test failed")
    return doc


def _whole(doc: Any, value: Any, kind: str) -> Any:
    if kind == "test":
        if same(doc, value):
            return doc
        raise PatchNotApplicable("testing value  failed: test failed")
    if not isinstance(value, dict | list):
        raise PatchNotApplicable("replace operation value must be object or array")
    return clone(value)


def _transfer(doc: Any, op: dict[str, Any], kind: str, budget: _Budget) -> Any:
    if "from" not in op:
        raise PatchNotApplicable(f"{kind} operation failed to decode from: missing value")
    source = op["from"]
    parent, key = _find(doc, source)
    if parent is None:
        raise PatchNotApplicable(
            f"{kind} operation does not apply: doc is missing from path: {source}: missing value"
        )
    value = _get(parent, key, source)
    if kind == "copy":
        value = budget.copy(value)
    else:
        budget.shift(parent)
        _remove(parent, key, source)
    if "path" not in op:
        raise PatchNotApplicable(f"{kind} operation failed to decode path: missing value")
    target, key = _find(doc, op["path"])
    if target is None:
        raise PatchNotApplicable(
            f"{kind} operation does not apply: doc is missing destination path: {op['path']}: "
            "missing value"
        )
    budget.shift(target)
    _add(target, key, value, op["path"])
    return doc


def _find(doc: Any, path: str) -> tuple[Any, str]:
    """The container that holds the last part of a path, and that part."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
    if len(parts) < 2:
        return None, ""
    for part in parts[1:-1]:
        if isinstance(doc, list):
            index = _index(part)
            if index is None or not -len(doc) <= index < len(doc):
                return None, ""
            doc = doc[index]
        else:
            doc = doc.get(part)
        if not isinstance(doc, dict | list):
            return None, ""
    return doc, parts[-1]


def _index(key: str) -> int | None:
    return int(key) if _INDEX.fullmatch(key) and len(key) < 12 else None


def _checked(key: str, path: str, limit: int) -> int:
    index = _index(key)
    if index is None:
        raise PatchNotApplicable(
            f"error for path: '{path}': value was not a proper array index: '{key}'"
        )
    if not -limit <= index < limit:
        raise PatchNotApplicable(
            f"error for path: '{path}': Unable to access invalid index: {index}: "
            "invalid index referenced"
        )
    return index + limit if index < 0 else index


def _get(parent: Any, key: str, path: str) -> Any:
    if isinstance(parent, list):
        return parent[_checked(key, path, len(parent))]
    return parent.get(key)


def _add(parent: Any, key: str, value: Any, path: str) -> None:
    if isinstance(parent, dict):
        parent[key] = value
    elif key == "-":
        parent.append(value)
    else:
        parent.insert(_checked(key, path, len(parent) + 1), value)


def _replace(parent: Any, key: str, value: Any, path: str) -> None:
    if isinstance(parent, dict):
        parent[key] = value
    else:
        parent[_checked(key, path, len(parent))] = value


def _remove(parent: Any, key: str, path: str) -> None:
    if isinstance(parent, dict):
        if key not in parent:
            raise PatchNotApplicable(
                f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: "
                "missing value"
            )
        del parent[key]
    else:
        del parent[_checked(key, path, len(parent))]
