"""What pod groups, workloads and conditions must meet besides the declared rules."""

from __future__ import annotations

import re

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import (
    Causes,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from bayplan.apiserver.validation.declared import validate_declared
from bayplan.apiserver.validation.labels import validate_label_name

_MAX_CONDITIONS = 8
_MAX_REASON, _MAX_MESSAGE = 1024, 32 * 1024
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
    "regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
_STATUSES = ("False", "True", "Unknown")


def validate_workload(obj: Object, old: Object | None = None) -> Causes:
    """A workload: in 1.37 all its templates have one priority."""
    templates = (obj.get("spec") or {}).get("podGroupTemplates") or []
    causes: Causes = []
    priorities = {(each.get("priorityClassName", ""), each.get("priority")) for each in templates}
    if obj["apiVersion"].endswith("/v1beta1") and len(priorities) > 1:
        causes.append(invalid("spec", None, "detected multiple priority configurations"))
    return causes + validate_declared(obj, old)


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
        if kind in seen:
            causes.append(duplicate(f"{path}[{i}]", kind))
        seen.add(kind)
        causes += _validate_condition(f"{path}[{i}]", condition)
    return causes


def _validate_condition(path: str, condition: Object) -> Causes:
    kind, status = condition.get("type", ""), condition.get("status", "")
    causes = (
        validate_label_name(f"{path}.type", kind)
        if kind
        else [required(f"{path}.type", "is required")]
    )
    if not status:
        causes.append(required(f"{path}.status"))
    elif status not in _STATUSES:
        causes.append(not_supported(f"{path}.status", status, _STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        text = "must be greater than or equal to zero"
        causes.append(invalid(f"{path}.observedGeneration", generation, text))
    if not condition.get("lastTransitionTime"):
        causes.append(required(f"{path}.lastTransitionTime"))
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
