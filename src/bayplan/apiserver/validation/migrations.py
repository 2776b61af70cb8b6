"""StorageVersionMigrations (1.37): which resource is to be written anew, and how that ended."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1035_label, dns1123_subdomain
from bayplan.apiserver.validation.causes import Causes, invalid, required
from bayplan.apiserver.validation.groups import validate_conditions

ENDS = {"Succeeded": "Success", "Failed": "Failed"}


def validate_migration(obj: Object) -> Causes:
    resource = (obj.get("spec") or {}).get("resource") or {}
    name, group = resource.get("resource") or "", resource.get("group") or ""
    causes: Causes = []
    if not name:
        causes.append(required("spec.resource.resource", "resource is required to be set"))
    elif wrong := dns1035_label(name):
        causes.append(invalid("spec.resource.resource", name, ",".join(wrong)))
    if group and (wrong := dns1123_subdomain(group)):
        causes.append(invalid("spec.resource.group", group, ",".join(wrong)))
    return causes


def validate_progress(obj: Object, old: Object) -> Causes:
    """A version is written down once, and how it ended stays."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    version, known = status.get("resourceVersion") or "", before.get("resourceVersion") or ""
    conditions = status.get("conditions") or []
    causes: Causes = []
    if version and not _is_version(version):
        text = f"resource version is not well formed: {version}"
        causes.append(invalid("status.resourceVersion", version, text))
    causes += validate_conditions("status.conditions", conditions)
    if known and known != version:
        causes.append(invalid("status.resourceVersion", version, "field is immutable"))
    now, then = _ended(status), _ended(before)
    if len(now) == len(ENDS):
        text = "Both success and failed conditions cannot be true at the same time"
        causes.append(invalid("status.conditions", conditions, text))
    for kind in ENDS:
        if kind in then - now:
            text = f"{ENDS[kind]} condition cannot be set to false once it is true"
            causes.append(invalid("status.conditions", conditions, text))
    return causes


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _ended(status: Object) -> set[str]:
    return {
        each["type"]
        for each in status.get("conditions") or ()
        if each.get("type") in ENDS and each.get("status") == "True"
    }
