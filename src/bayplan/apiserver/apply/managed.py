"""The managedFields of an object: who set which fields, how and when.

An entry is known by manager, operation, subresource and, for updates, API version. In between the
calls of this package they are kept as a dict of `Owner` by that identity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayplan.apiserver.apply.fieldset import Node, union_of_all

APPLY = "Apply"
UPDATE = "Update"
MAX_UPDATERS = 10  # older ones are merged into one entry
ANCIENT = "ancient-changes"
STRIPPED = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
    "managedFields", "resourceVersion",
)  # fmt: skip


class Identity(NamedTuple):
    """What makes two entries the same. `version` is empty for Apply."""

    manager: str
    operation: str
    version: str
    subresource: str


class Owner(NamedTuple):
    """The fields that one identity owns."""

    fields: Node
    version: str
    time: str | None


Owners = dict[Identity, Owner]


def identity(manager: str, operation: str, version: str, subresource: str) -> Identity:
    return Identity(
        manager or "unknown", operation, "" if operation == APPLY else version, subresource
    )


def read(entries: Any) -> Owners | None:
    """Decode managedFields; None if an entry is not valid."""
    owners: Owners = {}
    if not isinstance(entries, list):
        return owners if entries is None else None
    for entry in entries:
        if not isinstance(entry, dict):
            return None
        operation, version = entry.get("operation"), entry.get("apiVersion")
        fields = entry.get("fieldsV1")
        if operation not in (APPLY, UPDATE) or not version or entry.get("fieldsType") != "FieldsV1":
            return None
        if not isinstance(fields if fields is not None else {}, dict):
            return None
        manager = Identity(
            str(entry.get("manager", "")),
            operation,
            "" if operation == APPLY else str(version),
            str(entry.get("subresource", "")),
        )
        owners[manager] = Owner(fields or {}, str(version), entry.get("time"))
    return owners


def write(owners: Owners) -> list[dict[str, Any]]:
    """Encode managedFields in the order of the real API server."""
    entries = []
    for key, owner in owners.items():
        entry = {"manager": key.manager, "operation": key.operation, "apiVersion": owner.version}
        if owner.time is not None:
            entry["time"] = owner.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = owner.fields  # type: ignore[assignment]  # the one value that is a dict
        if key.subresource:
            entry["subresource"] = key.subresource
        entries.append(entry)
    if len(entries) > 1:
        entries.sort(key=_rank)
    return entries


def _rank(entry: dict[str, Any]) -> tuple[str, str, str, str, str]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry["manager"],
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def strip_meta(fields: Node) -> Node:
    """Without the fields that no one owns: type, identity and bookkeeping."""
    metadata = fields.get("f:metadata")
    result = {k: v for k, v in fields.items() if k not in ("f:apiVersion", "f:kind", "f:metadata")}
    if metadata:
        stripped = {"f:" + name for name in STRIPPED}
        rest = {k: v for k, v in metadata.items() if k not in stripped and k != "."}
        if rest:
            result["f:metadata"] = rest
    return result


def cap_updaters(owners: Owners) -> Owners:
    """Merge the oldest update entries, so that no more than ten are kept."""
    updaters = [key for key in owners if key.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return owners
    result = dict(owners)
    updaters.sort(key=lambda key: (owners[key].time or "", key))
    first: dict[str, Identity] = {}
    merged: dict[Identity, list[Node]] = {}  # oldest first
    for key in updaters:
        if excess <= 0:
            break
        owner = result[key]
        if owner.version not in first:
            first[owner.version] = key
            continue
        bucket = Identity(ANCIENT, UPDATE, owner.version, "")
        older = result.pop(bucket, None) or result.pop(first[owner.version])
        merged.setdefault(bucket, [older.fields]).append(owner.fields)
        result[bucket] = owner
        result.pop(key)
        if key == bucket:
            del merged[bucket]
        excess -= 1
    for bucket, sets in merged.items():
        result[bucket] = result[bucket]._replace(fields=union_of_all(sets[::-1]))
    return result
