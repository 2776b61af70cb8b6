"""Validation as upstream declares it: rules that stand in the schema beside a field's type.

`hack/extract-schema` takes the rules from the tags of the Go types (`+k8s:maxItems=8`). Some come
first and end the look at a field when they fail: what may not change, what must or need not be
there, how long a list may be. Only then are format and bounds looked at, and what a value is made
of. On an update nothing is looked at that is as it was. Rules that hold if a gate is on always
hold here: a field behind a gate that is off is dropped before (`apiserver.version_kinds`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import Checker, dns1123_label, dns1123_subdomain, qualified_name
from bayplan.api.patch.values import without_nulls
from bayplan.api.schema import Field, Type, type_for
from bayplan.apiserver.validation.causes import (
    IMMUTABLE,
    Causes,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from bayplan.apiserver.validation.formats import check, path_segment

_FORMATS: dict[str, Checker] = {
    "k8s-short-name": dns1123_label,
    "k8s-long-name": dns1123_subdomain,
    "k8s-label-key": qualified_name,
    "k8s-path-segment-name": path_segment,
}
_PARTS = ("spec", "status")
_IF_ON = re.compile(r"^ifEnabled\(\w+\)=")
_MISSING: tuple[Any, ...] = (None, "", 0, [], {})


class Change(NamedTuple):
    """A value and what it was before; `known` says that there was something it can be told from."""

    new: Any
    old: Any
    known: bool
    update: bool


def validate_declared(obj: Object, old: Object | None = None) -> Causes:
    """Every declared rule that an object, or its change, breaks."""
    type_ = type_for(obj["apiVersion"], obj["kind"])
    assert type_ is not None
    causes: Causes = []
    for name in _PARTS:
        if name in type_.fields:
            now, before = (without_nulls((each or {}).get(name)) for each in (obj, old))
            change = Change(now, before, old is not None, old is not None)
            causes += _field(name, type_.fields[name], change)
    return causes


def _field(path: str, field: Field, change: Change) -> Causes:
    new, old = change.new, change.old
    absent, was_absent = _absent(field, new), _absent(field, old)
    same = absent if was_absent else new == old
    if change.known and change.update and same:
        return []
    rules = dict(_rules(field))
    causes = _first(path, rules, change, absent=absent)
    # a struct that is no pointer is there in any case, if only empty
    if causes or (absent and (field.type.kind != "struct" or field.pointer)):
        return causes
    if checker := _FORMATS.get(rules.get("format", "")):
        causes += check(path, new, checker)
    if "maximum" in rules and new > int(rules["maximum"]):
        causes.append(invalid(path, new, f"must be less than or equal to {rules['maximum']}"))
    if "minimum" in rules and new < int(rules["minimum"]):
        causes.append(invalid(path, new, f"must be greater than or equal to {rules['minimum']}"))
    if field.enum and new not in field.enum:
        causes.append(not_supported(path, new, field.enum))
    return causes + _inside(path, field.type, rules, change)


def _absent(field: Field, value: Any) -> bool:
    return value is None if field.pointer else value in _MISSING


def _rules(field: Field) -> Iterator[tuple[str, str]]:
    updates = []
    for rule in field.rules:
        name, _, value = _IF_ON.sub("", rule).partition("=")
        if name == "update":
            updates.append(value)
        elif "(" not in name:
            yield name, value
    if updates:
        yield "update", " ".join(updates)


def _first(path: str, rules: dict[str, str], change: Change, *, absent: bool) -> Causes:
    """The rules that come before all others."""
    new, old = change.new, change.old
    causes: Causes = []
    if "immutable" in rules and change.update:
        causes.append(invalid(path, None, IMMUTABLE))
    if "maxItems" in rules and len(new or ()) > int(rules["maxItems"]):
        causes.append(too_many(path, len(new), int(rules["maxItems"])))
    if "required" in rules and absent:
        causes.append(required(path))
    if change.update:
        for limit in rules.get("update", "").split():
            causes += _limited(path, limit, new, old, rules.get("listMapKey", ""))
    return causes


def _limited(path: str, limit: str, new: Any, old: Any, key: str) -> Causes:
    if limit == "NoSet":
        late = old is None and new is not None
        return [invalid(path, None, "field cannot be set once created")] if late else []
    if limit == "NoUnset":
        gone = old is not None and new is None
        return [invalid(path, None, "field cannot be cleared once set")] if gone else []
    now, before = ({item.get(key) for item in items or ()} for items in (new, old))
    if limit == "NoAddItem":
        return [
            forbidden(f"{path}[{i}]", "item may not be added")
            for i, item in enumerate(new or ())
            if item.get(key) not in before
        ]
    return [forbidden(path, "item may not be removed") for name in before if name not in now]


def _inside(path: str, type_: Type, rules: dict[str, str], change: Change) -> Causes:
    if type_.kind == "struct":
        return _struct(path, type_, change)
    if type_.kind != "list" or type_.elem is None or type_.elem.kind != "struct":
        return []
    key = rules.get("listMapKey", "")
    old = {item.get(key): item for item in change.old or ()} if key else {}
    causes: Causes = []
    seen = set()
    for i, item in enumerate(change.new):
        if key and item.get(key) in seen:
            causes.append(duplicate(f"{path}[{i}]", item))
        seen.add(item.get(key))
    for i, item in enumerate(change.new):
        before = old.get(item.get(key)) if key else None
        if before is None or before != item:
            each = Change(item, before, before is not None, change.update)
            causes += _struct(f"{path}[{i}]", type_.elem, each)
    return causes


def _struct(path: str, type_: Type, change: Change) -> Causes:
    new, old = change.new or {}, change.old or {}
    fields = sorted(type_.fields.values(), key=lambda field: field.number)
    causes = _union(path, fields, change)
    for field in fields:
        inner = Change(new.get(field.name), old.get(field.name), change.known, change.update)
        causes += _field(f"{path}.{field.name}", field, inner)
    return causes


def _union(path: str, fields: list[Field], change: Change) -> Causes:
    """Exactly one of the members is to be set; looked at when that changed."""
    members = [field.name for field in fields if "unionMember" in field.rules]
    if not members:
        return []
    now, before = (
        [name for name in members if (value or {}).get(name) not in (None, [])]
        for value in (change.new, change.old)
    )
    if len(now) == 1 or (change.update and change.known and now == before):
        return []
    names = ", ".join(f"`{name}`" for name in members)
    if not now:
        return [invalid(path, "", f"must specify one of: {names}")]
    shown = f"{{{', '.join(now)}}}"
    return [invalid(path, shown, f"must specify exactly one of: {names}")]


def show_absent(obj: Object) -> None:
    """Write `null` where Go does: pointers and lists that are absent but not left out then."""
    type_ = type_for(obj["apiVersion"], obj["kind"])
    assert type_ is not None
    _show_absent(type_.fields["spec"].type, obj.get("spec") or {})


def _show_absent(type_: Type, value: Object) -> None:
    for field in type_.fields.values():
        inner = value.get(field.name)
        if inner is None and not field.omitempty and (field.pointer or field.type.kind == "list"):
            value[field.name] = None
        elif inner and field.type.kind == "struct":
            _show_absent(field.type, inner)
        elif inner and field.type.elem is not None and field.type.elem.kind == "struct":
            for item in inner:
                _show_absent(field.type.elem, item)
