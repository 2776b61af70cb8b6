"""Kubernetes' strategic merge patch.

Like a merge patch, but lists whose field has the patch strategy "merge" are merged: objects by
their merge key, scalars as a set. Directives inside the patch change that:

    $patch: replace | delete          in an object, or in an item of a merging list
    $deleteFromPrimitiveList/FIELD    values to take out of a list of scalars
    $setElementOrder/FIELD            the order that the merged list must have
    $retainKeys                       the only keys that stay (unions such as volumes, strategies)

Order matters to users: items the patch names keep the patch's order, the others the server's, and
new items come first unless `$setElementOrder` says otherwise. Merge keys come from the schema.
Custom resources have no merge keys; the server refuses this patch type for them.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import Any

from bayplan.api.patch.errors import BadPatch, PatchNotApplicable, not_a_map
from bayplan.api.patch.values import clone, identity, same
from bayplan.api.schema import Field, Type

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_PREFIX = "$deleteFromPrimitiveList/"
ORDER_PREFIX = "$setElementOrder/"
BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
BAD_ELEMENT_ORDER = "invalid patch format of setElementOrder list"

Map = dict[str, Any]
Items = list[Any]


def apply_strategic_merge(doc: Map, patch: Any, schema_type: Type, *, own: bool = False) -> Map:
    """Return the object with the patch applied; neither argument is changed.

    `own`: the object is the caller's alone, and may be changed.
    """
    if not isinstance(patch, dict):
        raise not_a_map(patch)
    return _merge_map(doc if own else clone(doc), patch, schema_type)


def _field(type_: Type | None, key: str) -> Field | None:
    if type_ is None or type_.kind != "struct":
        return None
    return type_.fields.get(key)


def _child(type_: Type | None, key: str) -> Type | None:
    if type_ is not None and type_.kind == "map":
        return type_.elem
    field = _field(type_, key)
    return field.type if field is not None else None


def _strategy(field: Field | None) -> str:
    if field is None:
        return ""
    return next((word for word in field.strategy if word != "retainKeys"), "")


def _merge_map(original: Map, patch: Map, type_: Type | None) -> Map:
    """Change the original as the patch says; it shares nothing with the patch afterwards."""
    if DIRECTIVE in patch:
        return _directive(patch)
    if any(key[:1] == "$" for key in patch):
        patch = dict(patch)
        _retain_keys(original, patch)
        _ordered_lists(original, patch, type_)
    for key, value in patch.items():
        deletes = key[:1] == "$" and key.startswith(DELETE_PREFIX)
        if deletes:
            key = key.removeprefix(DELETE_PREFIX)
        if value is None:
            original.pop(key, None)
            continue
        current = original.get(key)
        if type(current) is dict and type(value) is dict:
            if _strategy(_field(type_, key)) == "replace":
                original[key] = clone(value)
            else:
                original[key] = _merge_map(current, value, _child(type_, key))
        elif type(current) is list and type(value) is list:
            original[key] = _merge_field(current, value, type_, key, deletes)
        elif not deletes:
            _take(original, key, value)
    return original


def _directive(patch: Map) -> Map:
    word = patch[DIRECTIVE]
    if word == "replace":
        return {k: clone(v) for k, v in patch.items() if k != DIRECTIVE}
    if word == "delete":
        return {}
    raise PatchNotApplicable(f"unknown patch type {word!r}; use replace or delete")


def _take(original: Map, key: str, value: Any) -> None:
    """Put a value where there was none (or one of another type)."""
    kept = _plain(value)
    if kept is _LEFT_OUT:
        original.pop(key, None)
    else:
        original[key] = kept


_LEFT_OUT = object()


def _plain(value: Any, *, nulls: bool = False) -> Any:
    """Copy a value without maps that have a directive, and (unless `nulls`) null members."""
    if type(value) is dict:
        if DIRECTIVE in value and (nulls or value[DIRECTIVE] is not None):
            return _LEFT_OUT
        pairs: Map = {}
        for key, item in value.items():
            if type(item) is dict or type(item) is list:
                item = _plain(item, nulls=nulls)
                if item is _LEFT_OUT:
                    continue
            elif item is None and not nulls:
                continue
            pairs[key] = item
        return pairs
    if type(value) is list:
        items = [_plain(v, nulls=nulls) if type(v) in (dict, list) else v for v in value]
        return [item for item in items if item is not _LEFT_OUT]
    return value


def _retain_keys(original: Map, patch: Map) -> None:
    if RETAIN_KEYS not in patch:
        return
    keys = patch.pop(RETAIN_KEYS)
    if not isinstance(keys, list):
        raise BadPatch(BAD_RETAIN_KEYS)
    for key, value in patch.items():
        if (
            value is not None
            and not key.startswith((DELETE_PREFIX, ORDER_PREFIX))
            and key not in keys
        ):
            raise BadPatch(BAD_RETAIN_KEYS)
    for key in [key for key in original if key not in keys]:
        del original[key]


def _ordered_lists(original: Map, patch: Map, type_: Type | None) -> None:
    """Merge the lists that have a `$setElementOrder`, and take both out of the patch."""
    for directive in [key for key in patch if key.startswith(ORDER_PREFIX)]:
        order = patch.pop(directive)
        key = directive.removeprefix(ORDER_PREFIX)
        ours, theirs = original.get(key, []), patch.get(key, [])
        if not all(isinstance(items, list) for items in (order, ours, theirs)):
            raise BadPatch(BAD_ELEMENT_ORDER)
        field = _field(type_, key)
        if field is None:
            raise PatchNotApplicable(f'unable to find api field for the json field "{key}"')
        _check_order(theirs, order, field.merge_key)
        if key not in original and key not in patch:
            continue
        if key not in patch:
            merged = list(ours)
        elif key not in original:
            merged = _plain(theirs, nulls=True)
        else:
            merged = _merge_field(list(ours), theirs, type_, key, False)
        _element_kind(ours, theirs, demand=True)
        patch.pop(key, None)
        original[key] = _arrange(merged, order, _server_order(ours, theirs, field), field.merge_key)


def _server_order(ours: Items, theirs: Items, field: Field) -> Items:
    """The server's list as it is after deletes; what is added takes the freed places at its end.

    Upstream deletes and adds in place and then compares with that list, so an item that replaces
    another comes after the items that only the server has, an additional one before them.
    """
    key = field.merge_key
    gone = {identity(item[key]) for item in theirs if _deletes(item) and key in item}
    left = [item for item in ours if identity(_key_of(item, key)) not in gone]
    if len(left) == len(ours):
        return ours
    known = {identity(_key_of(item, key)) for item in left}
    new = [i for i in theirs if DIRECTIVE not in i and identity(_key_of(i, key)) not in known]
    return [*left, *new][: len(ours)]


def _deletes(item: Any) -> bool:
    return isinstance(item, dict) and item.get(DIRECTIVE) == "delete"


def _check_order(theirs: Items, order: Items, merge_key: str) -> None:
    """Every item of the patch list must appear in the order list, in the same sequence."""
    if not theirs or not order:
        return
    position = 0
    for item in theirs:
        if isinstance(item, dict) and DIRECTIVE in item:
            continue
        wanted = _key_of(item, merge_key)
        while position < len(order) and not same(_key_of(order[position], merge_key), wanted):
            position += 1
        if position == len(order):
            raise PatchNotApplicable(
                f"The order in patch list:\n{theirs}\n"
                f" doesn't match {ORDER_PREFIX} list:\n{order}\n"
            )
        position += 1


def _merge_field(ours: Items, theirs: Items, type_: Type | None, key: str, deletes: bool) -> Items:
    field = _field(type_, key)
    if _strategy(field) != "merge" and not deletes:
        return list(map(clone, theirs))
    elem = field.type.elem if field is not None else None
    return _merge_list(ours, theirs, elem, field.merge_key if field is not None else "", deletes)


def _merge_list(
    ours: Items, theirs: Items, elem: Type | None, merge_key: str, deletes: bool
) -> Items:
    if not ours and not theirs:
        return ours
    if _element_kind(ours, theirs) is not dict:
        if deletes:
            gone = {identity(item) for item in theirs}
            return [item for item in ours if identity(item) not in gone]
        return _arrange(_first_of_each(ours, theirs), theirs, ours, "")
    if not merge_key:
        raise PatchNotApplicable("cannot merge lists without merge key")
    ours, theirs = _special_items(ours, theirs, merge_key)
    merged = list(ours)
    places: Positions = {}
    for index, other in enumerate(merged):
        places.setdefault(identity(other.get(merge_key)), index)
    for item in theirs:
        wanted = identity(_key_of(item, merge_key))
        at = places.get(wanted)
        if at is None:
            places[wanted] = len(merged)
            merged.append(clone(item))
        else:
            merged[at] = _merge_map(merged[at], item, elem)
    return _arrange(merged, theirs, ours, merge_key)


def _first_of_each(ours: Items, theirs: Items) -> Items:
    seen: dict[object, Any] = {}
    for item in (*ours, *theirs):
        seen.setdefault(identity(item), item)
    return list(seen.values())


def _special_items(ours: Items, theirs: Items, merge_key: str) -> tuple[Items, Items]:
    plain: Items = []
    gone: set[object] = set()
    replace = False
    for item in theirs:
        word = item.get(DIRECTIVE)
        if word is None:
            plain.append(item)
        elif word == "delete":
            gone.add(identity(_key_of(item, merge_key)))
        elif word == "replace":
            replace = True
        else:
            raise PatchNotApplicable(
                f"unknown patch type {word!r} in a list; use replace or delete"
            )
    if gone:
        ours = [other for other in ours if identity(other.get(merge_key)) not in gone]
    return (clone(plain), []) if replace else (ours, plain)


def _key_of(item: Any, merge_key: str) -> Any:
    if not merge_key:
        return item
    if not isinstance(item, dict) or merge_key not in item:
        raise PatchNotApplicable(f"map: {item} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _element_kind(ours: Items, theirs: Items, *, demand: bool = False) -> type | None:
    kinds = {type(item) for item in (*ours, *theirs)}
    if list in kinds:
        raise PatchNotApplicable("lists of lists are not supported")
    if len(kinds) > 1:
        raise PatchNotApplicable("list element types are not identical")
    if not kinds and demand:
        raise PatchNotApplicable("no elements in any of the given slices")
    return next(iter(kinds), None)


def _arrange(merged: Items, order: Items, server_order: Items, merge_key: str) -> Items:
    """Sort named items by `order`, the rest by the server's order, and weave both together."""
    wanted, server = _positions(order, merge_key), _positions(server_order, merge_key)
    named: list[tuple[int, int, Any]] = []  # place in `order`, place on the server, item
    others: list[tuple[int, int, Any]] = []
    for key, item in zip(_keys(merged, merge_key), merged, strict=True):
        place = server.get(key, -1)
        if key in wanted:
            named.append((wanted[key], place, item))
        else:
            others.append((place, place, item))
    named, others = _sorted(named), _sorted(others)
    result: Items = []
    at = beside = 0
    while at < len(named) and beside < len(others):
        if 0 <= others[beside][1] < named[at][1]:
            result.append(others[beside][2])
            beside += 1
        else:
            result.append(named[at][2])
            at += 1
    return result + [entry[2] for entry in (*named[at:], *others[beside:])]


Positions = dict[object, int]


def _positions(items: Items, merge_key: str) -> Positions:
    """Return the first place of every key."""
    found: Positions = {}
    for index, key in enumerate(_keys(items, merge_key)):
        found.setdefault(key, index)
    return found


def _keys(items: Items, merge_key: str) -> list[object]:
    """Return the identity of every item's key."""
    found: list[object] = []
    for item in items:
        if merge_key:
            known = type(item) is dict and merge_key in item
            item = item[merge_key] if known else _key_of(item, merge_key)
        found.append(item if type(item) is str else identity(item))
    return found


_PLACE = itemgetter(0)


def _sorted(entries: list[tuple[int, int, Any]]) -> list[tuple[int, int, Any]]:
    """Sort by place as upstream's insertion does, in a time that does not grow with the square.

    One by one, an entry without a place (negative) goes to the front, and one with a place goes
    right behind the last that does not come after it: clients have come to see these orders.
    """
    if not entries or min(entries, key=_PLACE)[0] >= 0:
        return sorted(entries, key=_PLACE)
    first: int | None = None
    after: dict[int, int | None] = {}
    places: list[tuple[int, int]] = []  # (place, index) of those that have one, sorted
    for index, entry in enumerate(entries):
        at = bisect_right(places, (entry[0], index)) if entry[0] >= 0 else 0
        if entry[0] >= 0:
            places.insert(at, (entry[0], index))
        if at:
            before = places[at - 1][1]
            after[index], after[before] = after[before], index
        else:
            after[index], first = first, index
    result = []
    while first is not None:
        result.append(entries[first])
        first = after[first]
    return result
