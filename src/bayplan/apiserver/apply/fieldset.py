"""Sets of field paths, in the form that managedFields stores them.

A set is a nested dict: `{"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}`. A key is a path
element (`f:` a field, `k:` a list item by its keys, `v:` a list item by value). An empty dict
below a key means that the path is in the set; with further elements below it, `"."` says so.
Because this *is* the stored form (FieldsV1), reading and writing managedFields costs nothing.

Sets are never changed in place: every function returns a new set, or one of its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.api.schema import Type

Node = dict[str, Any]
SELF = "."
LEAF: Node = {}


def node(children: Node, member: bool) -> Node | None:
    """A set node with these children; None if nothing is in it."""
    if member:
        return {SELF: LEAF, **children} if children else LEAF
    return children or None


def is_member(item: Node) -> bool:
    """Whether the path that leads to this node is itself in the set."""
    return not item or SELF in item


def union(left: Node, right: Node) -> Node:
    """Paths that are in either set."""
    if not right or left is right:
        return left
    if not left:
        return right
    result = dict(left)
    for key, theirs in right.items():
        ours = result.get(key)
        result[key] = theirs if ours is None else _union(ours, theirs)
    return result


def union_of_all(sets: Sequence[Node]) -> Node:
    """Paths that are in any set; two and two, as one after the other would copy all each time."""
    while len(sets) > 1:
        pairs = [union(left, right) for left, right in zip(sets[::2], sets[1::2], strict=False)]
        sets = [*pairs, sets[-1]] if len(sets) % 2 else pairs
    return sets[0]


def _union(ours: Node, theirs: Node) -> Node:
    if not ours or not theirs:
        other = ours or theirs
        return other if not other or SELF in other else {SELF: LEAF, **other}
    return union(ours, theirs)


def intersection(left: Node, right: Node) -> Node:
    """Paths that are in both sets."""
    result: Node = {}
    for key, ours in left.items():
        theirs = right.get(key)
        if key == SELF or theirs is None:
            continue
        children = intersection(ours, theirs) if ours and theirs else {}
        both = node(children, is_member(ours) and is_member(theirs))
        if both is not None:
            result[key] = both
    return result


def difference(left: Node, right: Node) -> Node:
    """Paths of the left set that are not in the right one. Children of a removed path stay."""
    if not right:
        return left
    result: Node = {}
    for key, ours in left.items():
        if key == SELF:
            continue
        theirs = right.get(key)
        if theirs is None:
            result[key] = ours
            continue
        children = difference({k: v for k, v in ours.items() if k != SELF}, theirs)
        rest = node(children, is_member(ours) and not is_member(theirs))
        if rest is not None:
            result[key] = rest
    return result


def without(left: Node, *path: str) -> Node:
    """The set without a path and everything below it."""
    key, *rest = path
    inner = left.get(key)
    if inner is None:
        return left
    result = dict(left)
    if rest and (smaller := without(inner, *rest)):
        result[key] = smaller
    elif not rest or inner:
        del result[key]
    return result


def ensure_named(items: Node, type_: Type | None) -> Node:
    """Also make members of the declared fields that only have members below them."""
    result: Node = {}
    for key, child in items.items():
        if key == SELF:
            result[key] = child
            continue
        inner, declared = _descend(key, type_)
        deeper = ensure_named(child, inner) if child else child
        if declared and deeper and SELF not in deeper:
            deeper = {SELF: LEAF, **deeper}
        result[key] = deeper
    return result


def _descend(key: str, type_: Type | None) -> tuple[Type | None, bool]:
    if type_ is None:
        return None, False
    if key.startswith("f:"):
        if type_.kind == "struct":
            field = type_.fields.get(key[2:])
            return (field.type, True) if field is not None else (None, False)
        return (type_.elem, False) if type_.kind == "map" else (None, False)
    return (type_.elem, False) if type_.kind == "list" else (None, False)


def paths(items: Node, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All paths of a set, members of one level before those below them."""
    keys = sorted(key for key in items if key != SELF)
    for key in keys:
        if is_member(items[key]):
            yield (*prefix, key)
    for key in keys:
        yield from paths(items[key], (*prefix, key))


def path_text(path: tuple[str, ...]) -> str:
    """A path as error messages write it: `.spec.containers[name="c"].image`."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        inner = text[1:-1]
        return f"[{_keys_text(inner)}]"
    return f"[={text}]" if kind == "v:" else f"[{text}]"


def _keys_text(inner: str) -> str:
    pairs = json.loads(f"{{{inner}}}").items()
    return ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in pairs)
