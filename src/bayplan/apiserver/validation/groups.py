"""What pod groups, workloads and conditions must meet besides the declared rules."""

from __future__ import annotations

import re

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import (
    Cause,
    Causes,
    duplicate,
    invalid,
    missing,
    once,
    one_of,
    required,
    too_long,
    too_many,
)
from bayplan.apiserver.validation.declared import validate_declared
from bayplan.apiserver.validation.labels import validate_label_name

_MAX_CONDITIONS = 8
_MAX_DEPTH = 4
_MAX_REASON, _MAX_MESSAGE = 1024, 32 * 1024
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
    "regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
_STATUSES = ("False", "True", "Unknown")


def validate_pod_group(obj: Object) -> Causes:
    """A new pod group: one that is part of a composite one was made from a template."""
    spec, causes = obj.get("spec") or {}, list[Cause]()
    if spec.get("parentCompositePodGroupName") is not None and spec.get("workloadRef") is None:
        text = "must be set when parentCompositePodGroupName is set"
        causes.append(required("spec.workloadRef", text))
    return causes + validate_declared(obj)


def validate_workload(obj: Object, old: Object | None = None) -> Causes:
    """A workload: in 1.37 all its templates have one priority, and different names."""
    spec = obj.get("spec") or {}
    if not obj["apiVersion"].endswith("/v1beta1"):
        return validate_declared(obj, old)
    composite = spec.get("compositePodGroupTemplates") or []
    plain = spec.get("podGroupTemplates") or []
    causes = _names_twice("spec", composite, {each.get("name", "") for each in plain})
    for i, template in enumerate(composite):
        if _depth(template) >= _MAX_DEPTH:
            path = f"spec.compositePodGroupTemplates[{i}]"
            text = f"maximum template hierarchy depth is {_MAX_DEPTH}"
            shown = template.get("compositePodGroupTemplates") or []
            causes.append(invalid(path, shown, text))
    causes += _priorities(plain, composite)
    for i, template in enumerate(composite):
        causes += _childless(f"spec.compositePodGroupTemplates[{i}]", template)
    return causes + validate_declared(obj, old)


def _names_twice(path: str, templates: list[Object], names: set[str]) -> Causes:
    """Names that a template of another list has; `names` grows."""
    causes: Causes = []
    paths = [f"{path}.compositePodGroupTemplates[{i}]" for i in range(len(templates))]
    for where, template in zip(paths, templates, strict=True):
        if template.get("name", "") in names:
            causes.append(duplicate(f"{where}.name", template.get("name", "")))
    names |= {each.get("name", "") for each in templates}
    for where, template in zip(paths, templates, strict=True):
        plain = template.get("podGroupTemplates") or []
        for j, child in enumerate(plain):
            if child.get("name", "") in names:
                causes.append(
                    duplicate(f"{where}.podGroupTemplates[{j}].name", child.get("name", ""))
                )
        names |= {each.get("name", "") for each in plain}
        causes += _names_twice(where, template.get("compositePodGroupTemplates") or [], names)
    return causes


def _depth(template: Object) -> int:
    children = template.get("compositePodGroupTemplates") or []
    return 1 + max((_depth(child) for child in children), default=0)


def _priorities(plain: list[Object], composite: list[Object]) -> Causes:
    def of(templates: list[Object]) -> set[tuple[str, int | None]]:
        found = {(each.get("priorityClassName", ""), each.get("priority")) for each in templates}
        for each in templates:
            for kind in ("podGroupTemplates", "compositePodGroupTemplates"):
                found |= of(each.get(kind) or [])
        return found

    if len(of(plain)) > 1:
        return [invalid("spec", None, "detected multiple priority configurations")]
    if len(of(plain) | of(composite)) > 1:
        text = "all priority and priorityClassName values must be identical"
        return [invalid("spec", None, f"{text}, detected multiple values")]
    return []


def _childless(path: str, template: Object) -> Causes:
    children = template.get("compositePodGroupTemplates") or []
    causes: Causes = []
    if not children and not template.get("podGroupTemplates"):
        text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        causes.append(invalid(path, template.get("name", ""), text))
    for i, child in enumerate(children):
        causes += _childless(f"{path}.compositePodGroupTemplates[{i}]", child)
    return causes


def validate_pod_group_status(obj: Object, old: Object) -> Causes:
    status = obj.get("status") or {}
    causes = validate_conditions("status.conditions", status.get("conditions") or [])
    known = {claim.get("name") for claim in (obj.get("spec") or {}).get("resourceClaims") or ()}
    for i, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        if claim.get("name") not in known:
            path, text = (
                f"status.resourceClaimStatuses[{i}].name",
                "must match the name of an entry in `spec.resourceClaims`",
            )
            causes.append(invalid(path, claim.get("name", ""), text))
    return causes + validate_declared(obj, old)


def validate_conditions_of_status(obj: Object, _old: Object) -> Causes:
    found = (obj.get("status") or {}).get("conditions") or []
    causes = validate_conditions("status.conditions", found)
    if len(found) > _MAX_CONDITIONS:
        causes.append(too_many("status.conditions", len(found), _MAX_CONDITIONS))
    return causes


def validate_conditions(path: str, conditions: list[Object]) -> Causes:
    """Conditions of the form that all kinds share (`metav1.Condition`)."""
    causes: Causes = []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind = condition.get("type", "")
        causes += once(f"{path}[{i}]", kind, seen)
        causes += _validate_condition(f"{path}[{i}]", condition)
    return causes


def _validate_condition(path: str, condition: Object) -> Causes:
    kind, status = condition.get("type", ""), condition.get("status", "")
    causes = (
        validate_label_name(f"{path}.type", kind)
        if kind
        else [required(f"{path}.type", "is required")]
    )
    causes += one_of(f"{path}.status", status, _STATUSES)
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        text = "must be greater than or equal to zero"
        causes.append(invalid(f"{path}.observedGeneration", generation, text))
    causes += missing(path, condition, "lastTransitionTime")
    reason = condition.get("reason", "")
    if not reason:
        causes.append(required(f"{path}.reason"))
    else:
        if not _REASON.fullmatch(reason):
            causes.append(invalid(f"{path}.reason", reason, _REASON_TEXT))
        if len(reason.encode()) > _MAX_REASON:
            causes.append(too_long(f"{path}.reason", _MAX_REASON))
    if len(condition.get("message", "").encode()) > _MAX_MESSAGE:
        causes.append(too_long(f"{path}.message", _MAX_MESSAGE))
    return causes
