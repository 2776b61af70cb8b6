"""Priority: a pod's class becomes its number and its preemption policy.

The two system classes exist before anybody created them, so that a fresh server admits what names
them.
"""

from __future__ import annotations

from typing import Any

from bayplan.apiserver.admission.types import CREATE, UPDATE, Attributes, Reader, forbidden

GROUP = "scheduling.k8s.io"
_PREEMPT = "PreemptLowerPriority"
_GROUPS = {"podgroups": "pod group", "compositepodgroups": "composite pod group"}
"""Kinds of groups that have a priority, as messages call them."""
_SYSTEM: dict[str, int] = {
    "system-node-critical": 2000001000,
    "system-cluster-critical": 2000000000,
}


def set_priority(attrs: Attributes, reader: Reader) -> None:
    """Write priority and preemptionPolicy into a new pod; keep them on update."""
    if attrs.resource in _GROUPS:
        _set_group_priority(attrs, reader)
    if not attrs.writes("pods"):
        return
    spec: dict[str, Any] = attrs.obj["spec"]
    if attrs.operation == UPDATE:
        old: dict[str, Any] = (attrs.old or {}).get("spec") or {}
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and old.get(field) is not None:
                spec[field] = old[field]
        return
    name, value, policy = _resolve(attrs, reader, spec.get("priorityClassName") or "")
    if name:
        spec["priorityClassName"] = name
    for field, what, computed in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        given = spec.get(field)
        if given is not None and given != computed:
            raise forbidden(
                attrs,
                f"the {what} ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {computed} from the given PriorityClass name",
            )
        spec[field] = computed


def _set_group_priority(attrs: Attributes, reader: Reader) -> None:
    """Write the priority into a new pod group; where it is behind a gate it is dropped later."""
    if attrs.group != GROUP or attrs.subresource or attrs.operation != CREATE:
        return
    spec: dict[str, Any] = attrs.obj.setdefault("spec", {})
    name, value, policy = _resolve(attrs, reader, spec.get("priorityClassName") or "")
    given = spec.get("priority")
    if given is not None and given != value:
        raise forbidden(
            attrs,
            f"priority set in the {_GROUPS[attrs.resource]} ({given}) must match the priority "
            f"computed ({value}) based on the priority class set in the spec",
        )
    spec["priority"] = value
    if name:
        spec["priorityClassName"] = name
    if "preemptionPolicy" in spec:
        spec["preemptionPolicy"] = policy


def _resolve(attrs: Attributes, reader: Reader, name: str) -> tuple[str, int, str]:
    if not name:
        default = _default_class(reader)
        if default is None:
            return "", 0, _PREEMPT
        return (
            default["metadata"]["name"],
            default.get("value", 0),
            default.get("preemptionPolicy") or _PREEMPT,
        )
    found: dict[str, Any] | None = reader.get(GROUP, "priorityclasses", "", name)
    if found is not None:
        return name, found.get("value", 0), found.get("preemptionPolicy") or _PREEMPT
    if name in _SYSTEM:
        return name, _SYSTEM[name], _PREEMPT
    raise forbidden(attrs, f"no PriorityClass with name {name} was found")


def _default_class(reader: Reader) -> dict[str, Any] | None:
    defaults: list[dict[str, Any]] = [
        each for each in reader.list(GROUP, "priorityclasses") if each.get("globalDefault")
    ]
    return min(defaults, key=lambda each: each.get("value", 0)) if defaults else None


def check_single_default(attrs: Attributes, reader: Reader) -> None:
    """Refuse a second class that wants to be the default."""
    if not attrs.writes("priorityclasses", GROUP) or not attrs.obj.get("globalDefault"):
        return
    default = _default_class(reader)
    if default is None:
        return
    name = default["metadata"]["name"]
    if attrs.operation == CREATE or name != attrs.name:
        why = f"PriorityClass {name} is already marked as default. Only one default can exist"
        raise forbidden(attrs, why)
