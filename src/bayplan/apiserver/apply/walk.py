"""Walks typed values: which fields differ, which are set, how two values merge, what to take out.

These are the four operations that server-side apply is made of, after the structured-merge-diff
library of Kubernetes. Lists are merged by key (`map`), by value (`set`) or as a whole (`atomic`),
structs and maps field by field unless they are atomic. MISSING stands for "not there", which is
not the same as null.

Values without a type (unknown fields of custom resources) are treated as their JSON form
suggests: objects field by field, lists as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.json import go_type
from bayplan.api.place import Place, shown
from bayplan.api.schema import Type
from bayplan.apiserver.apply.fieldset import LEAF, SELF, Node, is_member, node, path_text
from bayplan.errors import BayplanError


class TypedError(BayplanError):
    """An applied object does not fit its schema; the text starts with the path."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
DEDUCED: Final = Type("any")
_OBJECT_KINDS: Final = frozenset({"struct", "map", "any", "object"})


class Comparison(NamedTuple):
    """What changed between two values; each is a field set."""

    removed: Node
    modified: Node
    added: Node


# -- types ---------------------------------------------------------------------------------------


def _is_object(type_: Type, value: Any) -> bool:
    """Whether a value is to be treated as a map with separately owned entries."""
    if type_.kind in ("struct", "map"):
        return not type_.atomic and (value is None or isinstance(value, dict))
    return type_.kind in ("any", "object") and isinstance(value, dict)


def _is_associative(type_: Type, value: Any) -> bool:
    if type_.kind != "list" or type_.list_type == "atomic":
        return False
    return value is None or isinstance(value, list)


def child_type(type_: Type, key: str) -> Type:
    """The type of a field of a struct or map."""
    if type_.kind == "struct":
        field = type_.fields.get(key)
        return field.type if field is not None else DEDUCED
    if type_.kind == "map" and type_.elem is not None:
        return type_.elem
    return DEDUCED


def _declared(type_: Type, key: str) -> bool:
    return type_.kind == "struct" and key in type_.fields


_encoder = msgspec.json.Encoder(order="sorted")


def _is_plain(value: Any) -> bool:
    return type(value) is str or type(value) is int


def _json(value: Any) -> str:
    if _is_plain(value) or (type(value) is dict and all(map(_is_plain, value.values()))):
        text = _encoder.encode(value).decode()  # keys of list items, of which there are many
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    if "<" in text or ">" in text or "&" in text:  # Go escapes these in JSON
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


_NO_SCALARS: dict[type, str] = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}


def element(type_: Type, item: Any, index: int = 0) -> str:
    """The path element of one item of an associative list."""
    if not type_.keys:
        if (problem := _NO_SCALARS.get(type(item))) is not None:
            raise TypedError(f"element {index}: {problem}")
        return f"v:{_json(item)}"
    if not isinstance(item, dict):
        problem = "non-map elements" if item is not None else "a null element"
        raise TypedError(f"element {index}: associative list with keys may not have {problem}")
    keys = {}
    for name in type_.keys:
        if name in item:
            keys[name] = item[name]
        elif (default := _key_default(type_, name)) is not None:
            keys[name] = default
    if not keys:
        names = " ".join(f'"{name}"' for name in type_.keys)
        raise TypedError(
            f"element {index}: associative list with keys has an element that omits all key fields "
            f"[{names}] (and doesn't have default values for any key fields)"
        )
    return f"k:{_json(keys)}"


def _key_default(type_: Type, name: str) -> Any:
    if type_.elem is None or type_.elem.kind != "struct":
        return None
    field = type_.elem.fields.get(name)
    return field.default if field is not None else None


def _by_element(type_: Type, items: list[Any] | None) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items or ()):
        found.setdefault(element(type_, item, index), []).append(item)
    return found


# -- comparing -----------------------------------------------------------------------------------


def compare(old: Any, new: Any, type_: Type) -> Comparison:
    """The field sets that `new` removed, modified and added."""
    removed, modified, added = _compare(old, new, type_)
    return Comparison(removed or {}, modified or {}, added or {})


_Triple = tuple[Node | None, Node | None, Node | None]
_NOTHING: _Triple = (None, None, None)


def _compare(old: Any, new: Any, type_: Type) -> _Triple:
    if old is MISSING:
        return None, None, everything(new, type_)
    if new is MISSING:
        return everything(old, type_), None, None
    if old is new or (type(old) is type(new) and old == new):
        return _NOTHING
    if (old or new) and _is_object(type_, old) and _is_object(type_, new):
        return _compare_objects(old or {}, new or {}, type_)
    if (old or new) and _is_associative(type_, old) and _is_associative(type_, new):
        return _compare_lists(old, new, type_)
    return None, LEAF, None


def _compare_objects(old: dict[str, Any], new: dict[str, Any], type_: Type) -> _Triple:
    removed: Node = {}
    modified: Node = {}
    added: Node = {}
    for key, value in new.items():
        before = old.get(key, MISSING)
        if before is value:
            continue
        if before is MISSING:  # nearly all of a new object
            added[f"f:{key}"] = everything(value, child_type(type_, key))
            continue
        parts = _compare(before, value, child_type(type_, key))
        _collect(f"f:{key}", parts, removed, modified, added)
    for key, value in old.items():
        if key not in new:
            removed[f"f:{key}"] = everything(value, child_type(type_, key))
    return removed or None, modified or None, added or None


def _compare_lists(old: list[Any] | None, new: list[Any] | None, type_: Type) -> _Triple:
    removed: Node = {}
    modified: Node = {}
    added: Node = {}
    before, after = _by_element(type_, old), _by_element(type_, new)
    elem = type_.elem or DEDUCED
    for key in {**before, **after}:
        ours, theirs = before.get(key, []), after.get(key, [])
        if len(ours) <= 1 and len(theirs) <= 1:
            left = ours[0] if ours else MISSING
            right = theirs[0] if theirs else MISSING
            _collect(key, _compare(left, right, elem), removed, modified, added)
        elif len(ours) > 1 and len(theirs) > 1:
            if ours != theirs:
                modified[key] = LEAF
        elif len(ours) > 1:
            if theirs:
                added[key] = everything(theirs[0], elem)
            removed[key] = LEAF
        else:
            if ours:
                removed[key] = everything(ours[0], elem)
            added[key] = LEAF
    return removed or None, modified or None, added or None


def _collect(key: str, parts: _Triple, removed: Node, modified: Node, added: Node) -> None:
    if parts[0] is not None:
        removed[key] = parts[0]
    if parts[1] is not None:
        modified[key] = parts[1]
    if parts[2] is not None:
        added[key] = parts[2]


def everything(value: Any, type_: Type) -> Node:
    """The set of a value that is new (or gone) as a whole: it and all that is in it."""
    if not value:
        return LEAF
    if type(value) is dict:
        if type_.atomic or type_.kind not in _OBJECT_KINDS:
            return LEAF
        result: Node = {SELF: LEAF}
        if type_.kind == "struct":
            fields = type_.fields
            for key, item in value.items():
                field = fields.get(key)
                result[f"f:{key}"] = everything(item, field.type if field is not None else DEDUCED)
        else:
            elem = type_.elem or DEDUCED
            for key, item in value.items():
                result[f"f:{key}"] = everything(item, elem)
        return result
    if type(value) is list and _is_associative(type_, value):
        elem = type_.elem or DEDUCED
        items = _by_element(type_, value).items()
        inner = {k: everything(v[0], elem) if len(v) == 1 else LEAF for k, v in items}
        return {SELF: LEAF, **inner}
    return LEAF


# -- the fields that an applied object sets ------------------------------------------------------


def field_set(value: dict[str, Any], type_: Type) -> Node:
    """The paths that an applied configuration owns."""
    return _field_set(value, type_) or {}


def _field_set(value: Any, type_: Type) -> Node | None:
    if _is_object(type_, value):
        result: Node = {}
        for key, item in (value or {}).items():
            inner = _field_set(item, child_type(type_, key))
            if item is None or item == {} or not _declared(type_, key):
                inner = node(_children(inner), True)
            if inner is not None:
                result[f"f:{key}"] = inner
        return result or None
    if _is_associative(type_, value):
        found = _by_element(type_, value)
        elem = type_.elem or DEDUCED
        return {
            key: node(_children(_field_set(items[0], elem)), True) if len(items) == 1 else LEAF
            for key, items in found.items()
        } or None
    return LEAF


def _children(inner: Node | None) -> Node:
    return {key: value for key, value in (inner or {}).items() if key != SELF}


# -- merging -------------------------------------------------------------------------------------


def merge(old: Any, new: Any, type_: Type) -> Any:
    """Lay `new` over `old`; what only `old` has stays. MISSING if nothing is left."""
    if old is MISSING and new is MISSING:
        return MISSING
    present = old if new is MISSING else new
    either = (old if old is not MISSING else None) or (new if new is not MISSING else None)
    if either and _fits(_is_object, type_, old, new):
        return _merge_objects(_plain(old) or {}, _plain(new) or {}, type_)
    if either and _fits(_is_associative, type_, old, new):
        return _merge_lists(_plain(old) or [], _plain(new) or [], type_)
    return present


def _fits(test: Any, type_: Type, old: Any, new: Any) -> bool:
    return (old is MISSING or test(type_, old)) and (new is MISSING or test(type_, new))


def _plain(value: Any) -> Any:
    return None if value is MISSING else value


def _merge_objects(old: dict[str, Any], new: dict[str, Any], type_: Type) -> Any:
    result = {}
    for key in {**old, **new}:
        value = merge(old.get(key, MISSING), new.get(key, MISSING), child_type(type_, key))
        if value is not MISSING:
            result[key] = value
    return result or MISSING


def _merge_lists(old: list[Any], new: list[Any], type_: Type) -> Any:
    """Merge by element: items of `new` keep its order, others stay where they are among them."""
    elem = type_.elem or DEDUCED
    ours = [element(type_, item, index) for index, item in enumerate(old)]
    theirs = [element(type_, item, index) for index, item in enumerate(new)]
    mine: dict[str, Any] = {}
    for key, item in zip(ours, old, strict=True):
        mine[key] = MISSING if key in mine else item  # duplicates are not merged with
    wanted = dict(zip(theirs, new, strict=True))
    out = []
    for key, index in _woven(ours, theirs):
        left = old[index] if index is not None else mine.get(key, MISSING)
        value = merge(left, wanted.get(key, MISSING), elem)
        if value is not MISSING:
            out.append(value)
    return out or MISSING


def _woven(ours: list[str], theirs: list[str]) -> Iterator[tuple[str, int | None]]:
    """The keys of a merged list in order; with the index of the old item where only that is."""
    mine, wanted = set(ours), set(theirs)
    shared = [key for key in theirs if key in mine]
    at_old = at_new = turn = 0
    while at_old < len(ours) or at_new < len(theirs):
        key = ours[at_old] if at_old < len(ours) else None
        if key is not None and key not in wanted:
            yield key, at_old
            at_old += 1
        elif at_new == len(theirs):
            at_old += 1  # merged already
        elif key == theirs[at_new]:
            yield theirs[at_new], None
            at_old, at_new, turn = at_old + 1, at_new + 1, turn + 1
        elif key is not None and turn < len(shared) and shared[turn] != key:
            at_old += 1  # its turn comes later
        else:
            turn += turn < len(shared) and shared[turn] == theirs[at_new]
            yield theirs[at_new], None
            at_new += 1


# -- removing ------------------------------------------------------------------------------------


def remove(value: Any, items: Node, type_: Type) -> Any:
    """The value without the paths of a set; MISSING if nothing is left."""
    if _is_object(type_, value):
        result = {}
        for key, item in (value or {}).items():
            inner = items.get(f"f:{key}")
            if inner is None:
                result[key] = item
            elif not is_member(inner):
                rest = remove(item, inner, child_type(type_, key))
                result[key] = None if rest is MISSING else rest
        return result or MISSING
    if _is_associative(type_, value):
        elem = type_.elem or DEDUCED
        out = []
        for index, item in enumerate(value or ()):
            inner = items.get(element(type_, item, index))
            if inner is None:
                out.append(item)
            elif not is_member(inner):
                rest = remove(item, inner, elem)
                out.append(None if rest is MISSING else rest)
        return out or MISSING
    if type_.kind in ("list", "struct", "map"):
        return MISSING
    return value


# -- checking an applied object ------------------------------------------------------------------


def check(value: Any, type_: Type, path: str = "") -> list[str]:
    """Problems of an applied object: undeclared fields, wrong kinds, duplicate items."""
    return shown(_problems(value, type_, path))


def _problems(value: Any, type_: Type, path: Place | str) -> Iterator[str]:
    if value is None:
        return
    if type_.kind == "struct" or type_.kind == "map":
        if not isinstance(value, dict):
            yield f"{path}: expected map, got {_go_value(value)}"
            return
        for key, item in value.items():
            if type_.kind == "struct" and key not in type_.fields and not type_.preserve:
                yield f"{path}.{key}: field not declared in schema"
            else:
                yield from _problems(item, child_type(type_, key), Place(path, f".{key}"))
    elif type_.kind == "list":
        if not isinstance(value, list):
            yield f"{path}: expected list, got {_go_value(value)}"
        else:
            yield from _check_list(value, type_, path)
    elif (problem := _scalar_problem(value, type_)) is not None:
        yield f"{path}: {problem}"


def _scalar_problem(value: Any, type_: Type) -> str | None:
    wanted = _SCALAR_WORDS.get(type_.kind)
    if wanted is None or _fits_scalar(value, wanted):
        return None
    found = _go_value(value)
    if wanted == "string":
        found = f"&value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    elif wanted == _NUMERIC:
        found = go_type(value)
    return f"expected {wanted}, got {found}"


_NUMERIC = "numeric (int or float)"
_SCALAR_WORDS = {
    "string": "string",
    "bytes": "string",
    "time": "string",
    "microtime": "string",
    "duration": "string",
    "int32": _NUMERIC,
    "int64": _NUMERIC,
    "number": _NUMERIC,
    "boolean": "boolean",
    "quantity": "any scalar",
    "intorstring": "any scalar",
}


def _fits_scalar(value: Any, wanted: str) -> bool:
    if wanted == "string":
        return isinstance(value, str)
    if wanted == "boolean":
        return isinstance(value, bool)
    if wanted == "any scalar":
        return not isinstance(value, dict | list)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _go_value(value: Any) -> str:
    """As Go's `%v` of a value that Kubernetes has wrapped."""
    return f"&{{{_go_plain(value)}}}"


def _go_plain(value: Any) -> str:
    if isinstance(value, dict):
        inner = " ".join(f"{key}:{_go_plain(item)}" for key, item in sorted(value.items()))
        return f"map[{inner}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_plain, value))}]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else _go_syntax(value)


def _go_syntax(value: Any) -> str:
    """As Go's `%#v`."""
    if isinstance(value, dict | list):
        parts = (
            (f"{_go_syntax(key)}:{_go_syntax(item)}" for key, item in sorted(value.items()))
            if isinstance(value, dict)
            else map(_go_syntax, value)
        )
        return f"{go_type(value)}{{{', '.join(parts)}}}"
    if isinstance(value, float):
        from bayplan.cel.standard import show_double  # many modules, for a rare mistake

        return show_double(value)
    return "interface {}(nil)" if value is None else json.dumps(value, ensure_ascii=False)


def _check_list(value: list[Any], type_: Type, path: Place | str) -> Iterator[str]:
    seen: set[str] = set()
    elem = type_.elem or DEDUCED
    for index, item in enumerate(value):
        where = Place(path, index)
        if type_.list_type != "atomic":
            try:
                key = element(type_, item, index)
            except TypedError as error:
                yield f"{path}: {error}"
                return
            if key in seen:
                yield f"{path}: duplicate entries for key {_shown(key)}"
            seen.add(key)
            where = Place(path, _shown(key))
        yield from _problems(item, elem, where)


def _shown(key: str) -> str:
    return path_text((key,))
