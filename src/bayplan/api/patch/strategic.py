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

from typing import Any

from bayplan.api.patch.errors import BadPatch, PatchNotApplicable
from bayplan.api.patch.values import clone, same
from bayplan.api.schema import Field, Type

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_PREFIX = "$deleteFromPrimitiveList/"
ORDER_PREFIX = "$setElementOrder/"
BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
BAD_ELEMENT_ORDER = "invalid patch format of setElementOrder list"

Map = dict[str, Any]
Items = list[Any]


def apply_strategic_merge(doc: Map, patch: Any, schema_type: Type) -> Map:
    """Return the object with the patch applied; neither argument is changed."""
    if not isinstance(patch, dict):
        raise BadPatch("json: cannot unmarshal into Go value of type map[string]interface {}")
    return _merge_map(clone(doc), clone(patch), schema_type)


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
    if DIRECTIVE in patch:
        return _directive(patch)
    _retain_keys(original, patch)
    _ordered_lists(original, patch, type_)
    for key, value in patch.items():
        deletes = key.startswith(DELETE_PREFIX)
        if deletes:
            key = key.removeprefix(DELETE_PREFIX)
        if value is None:
            original.pop(key, None)
            continue
        current = original.get(key)
        if type(current) is dict and type(value) is dict:
            if _strategy(_field(type_, key)) == "replace":
                original[key] = value
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
        return {k: v for k, v in patch.items() if k != DIRECTIVE}
    if word == "delete":
        return {}
    raise PatchNotApplicable(f"unknown patch type {word!r}; use replace or delete")


def _take(original: Map, key: str, value: Any) -> None:
    """Put a value where there was none (or one of another type)."""
    kept, keep = _without_directives(_without_nulls(value))
    if keep:
        original[key] = kept
    else:
        original.pop(key, None)


def _without_nulls(value: Any) -> Any:
    if type(value) is dict:
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if type(value) is list:
        return [_without_nulls(v) for v in value]
    return value


def _without_directives(value: Any) -> tuple[Any, bool]:
    if type(value) is dict:
        if DIRECTIVE in value:
            return None, False
        pairs = ((k, _without_directives(v)) for k, v in value.items())
        return {k: v for k, (v, keep) in pairs if keep}, True
    if type(value) is list:
        return [v for v, keep in map(_without_directives, value) if keep], True
    return value, True


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
            merged = _without_directives(theirs)[0]
        else:
            merged = _merge_field(list(ours), theirs, type_, key, False)
        _element_kind(ours, theirs, demand=True)
        patch.pop(key, None)
        original[key] = _arrange(merged, order, _not_deleted(ours, theirs, field), field.merge_key)


def _not_deleted(ours: Items, theirs: Items, field: Field) -> Items:
    """The server's items without those that the patch deletes, for what comes back is new."""
    key = field.merge_key
    gone = [item[key] for item in theirs if _deletes(item) and key in item]
    return [item for item in ours if not any(same(_key_of(item, key), other) for other in gone)]


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
        return theirs
    elem = field.type.elem if field is not None else None
    return _merge_list(ours, theirs, elem, field.merge_key if field is not None else "", deletes)


def _merge_list(
    ours: Items, theirs: Items, elem: Type | None, merge_key: str, deletes: bool
) -> Items:
    if not ours and not theirs:
        return ours
    if _element_kind(ours, theirs) is not dict:
        if deletes:
            return [item for item in ours if not any(same(item, other) for other in theirs)]
        merged: Items = []
        for item in [*ours, *theirs]:
            if not any(same(item, other) for other in merged):
                merged.append(item)
        return _arrange(merged, theirs, ours, "")
    if not merge_key:
        raise PatchNotApplicable("cannot merge lists without merge key")
    ours, theirs = _special_items(ours, theirs, merge_key)
    merged = list(ours)
    for item in theirs:
        wanted = _key_of(item, merge_key)
        at = next((i for i, other in enumerate(merged) if same(other.get(merge_key), wanted)), None)
        if at is None:
            merged.append(item)
        else:
            merged[at] = _merge_map(merged[at], item, elem)
    return _arrange(merged, theirs, ours, merge_key)


def _special_items(ours: Items, theirs: Items, merge_key: str) -> tuple[Items, Items]:
    plain: Items = []
    replace = False
    for item in theirs:
        word = item.get(DIRECTIVE)
        if word is None:
            plain.append(item)
        elif word == "delete":
            gone = _key_of(item, merge_key)
            ours = [other for other in ours if not same(other.get(merge_key), gone)]
        elif word == "replace":
            replace = True
        else:
            raise PatchNotApplicable(
                f"unknown patch type {word!r} in a list; use replace or delete"
            )
    return (plain, []) if replace else (ours, plain)


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
    wanted = [_key_of(item, merge_key) for item in order]
    server = [_key_of(item, merge_key) for item in server_order]
    named: Items = []
    others: Items = []
    for item in merged:
        key = _key_of(item, merge_key)
        (named if _position(wanted, key) >= 0 else others).append(item)
    _sort(named, wanted, merge_key)
    _sort(others, server, merge_key)
    result: Items = []
    while named and others:
        left = _position(server, _key_of(others[0], merge_key))
        right = _position(server, _key_of(named[0], merge_key))
        result.append(others.pop(0) if 0 <= left < right else named.pop(0))
    return result + named + others


def _position(keys: Items, key: Any) -> int:
    return next((index for index, other in enumerate(keys) if same(other, key)), -1)


def _sort(items: Items, order: Items, merge_key: str) -> None:
    """Insert each item before those it precedes in `order`.

    What `order` does not name goes to the end, and before it whatever comes later: that is what
    upstream's comparison amounts to, and clients have come to see these orders.
    """
    positions = [_position(order, _key_of(item, merge_key)) for item in items]
    for end in range(1, len(items)):
        at = end
        while at > 0 and (
            positions[at] < 0 or positions[at - 1] < 0 or positions[at] < positions[at - 1]
        ):
            items[at], items[at - 1] = items[at - 1], items[at]
            positions[at], positions[at - 1] = positions[at - 1], positions[at]
            at -= 1
