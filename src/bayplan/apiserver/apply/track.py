"""Keeps managedFields right on ordinary writes: create, update and the other patch types.

Whoever changes a field owns it from then on, and everyone else loses it. Objects whose tracking
was switched off (an update that empties managedFields) stay untracked until the next apply. This
runs on every write, so it does one comparison and touches only the entries that lose something.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from bayplan.api.schema import Type, type_for
from bayplan.apiserver.apply import managed
from bayplan.apiserver.apply.fieldset import Node, difference, union, without
from bayplan.apiserver.apply.managed import Identity, Owner, Owners
from bayplan.apiserver.apply.walk import DEDUCED, TypedError, compare

Object = dict[str, Any]
_NULLS = frozenset({"list", "map", "time", "microtime", "object", "any", "bytes"})
_ZEROS: dict[str, Any] = {
    "string": "",
    "int32": 0,
    "int64": 0,
    "number": 0,
    "boolean": False,
    "quantity": "0",
    "intorstring": 0,
}


def object_type(obj: Object) -> Type:
    """The type of a built-in object; anything else is compared by its JSON form."""
    return type_for(str(obj.get("apiVersion")), str(obj.get("kind"))) or DEDUCED


@cache
def empty_object(type_: Type) -> Object:
    """What Go prints for a zero struct, nulls included: the live object of a create."""
    result: Object = {}
    for name, field in type_.fields.items():
        if field.pointer or field.omitzero:
            continue
        if field.type.kind == "struct" and field.number:
            result[name] = empty_object(field.type)
        elif not field.omitempty and field.number:
            result[name] = None if field.type.kind in _NULLS else _ZEROS.get(field.type.kind)
    return result


def reset_fields(fields: Node, subresource: str, has_status: bool) -> Node:
    """Without the part that this path of the API cannot write."""
    if subresource == "status":
        return without(fields, "f:spec")
    return without(fields, "f:status") if has_status and not subresource else fields


def track_update(
    live: Object | None,
    new: Object,
    manager: str,
    operation: str,
    now: str,
    subresource: str = "",
    *,
    kind: Type | None = None,
    has_status: bool = True,
) -> Object:
    """Return `new` with its managedFields brought up to date; `live` is None on create.

    `now` is RFC 3339 text. `kind` is needed for custom resources only. `has_status` says whether
    the resource has a status subresource, so that its main path does not own status.
    """
    owners = _owners_before(live, new, subresource)
    if live is not None and not owners:
        return with_entries(new, {})
    who = managed.identity(manager, operation, str(new.get("apiVersion")), subresource)
    type_ = kind if kind is not None else object_type(new)
    try:
        owners = own(live, new, owners, who, now, type_, has_status)
    except TypedError:
        return with_entries(new, {})
    return with_entries(new, managed.cap_updaters(owners))


def own(
    live: Object | None,
    new: Object,
    owners: Owners,
    who: Identity,
    now: str,
    type_: Type,
    has_status: bool,
) -> Owners:
    """Give every changed field to `who`; take changed and removed fields from everyone else."""
    before = empty_object(type_) if live is None else live
    comparison = compare(before, new, type_)
    changed = union(comparison.modified, comparison.added)
    changed = reset_fields(changed, who.subresource, has_status)
    removed = reset_fields(comparison.removed, who.subresource, has_status)
    result: Owners = {}
    for key, owner in owners.items():
        fields = difference(difference(owner.fields, changed), removed)
        if fields:
            result[key] = owner if fields is owner.fields else owner._replace(fields=fields)
    mine = managed.strip_meta(changed)
    if mine:
        previous = result.get(who)
        fields = union(mine, previous.fields) if previous is not None else mine
        result[who] = Owner(fields, str(new.get("apiVersion")), now)
    return result


def _owners_before(live: Object | None, new: Object, subresource: str) -> Owners:
    """The entries to start from: those sent along, else those of the live object."""
    stored = managed.read(((live or {}).get("metadata") or {}).get("managedFields")) or {}
    metadata = new.get("metadata") or {}
    if subresource or "managedFields" not in metadata:
        return stored
    sent = metadata["managedFields"]
    if sent in ([], [{}]):
        return {}
    return managed.read(sent) or stored


def with_entries(obj: Object, owners: Owners) -> Object:
    """The object with these managedFields; without the field if there are none."""
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("managedFields", None)
    if owners:
        metadata["managedFields"] = managed.write(owners)
    return {**obj, "metadata": metadata}
