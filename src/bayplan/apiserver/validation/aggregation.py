"""APIServices: which server answers for a version of a group."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1035_label, dns1123_subdomain
from bayplan.apiserver.validation.causes import Causes, invalid, required
from bayplan.apiserver.validation.formats import check

LOCAL = {
    "type": "Available",
    "status": "True",
    "reason": "Local",
    "message": "Local APIServices are always available",
}


def prepare_api_service(obj: Object) -> None:
    """Say of what this server answers itself that it is there."""
    obj["status"] = {}
    if (obj.get("spec") or {}).get("service") is None:
        since = obj["metadata"].get("creationTimestamp")
        obj["status"] = {"conditions": [{**LOCAL, "lastTransitionTime": since}]}


def validate_api_service(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    group, version = spec.get("group", ""), spec.get("version", "")
    causes: Causes = []
    wanted = f"{version}.{group}"
    if obj["metadata"].get("name") != wanted:
        text = f'must be `spec.version+"."+spec.group`: "{wanted}"'
        causes.append(invalid("metadata.name", obj["metadata"].get("name", ""), text))
    if group:
        causes += check("spec.group", group, dns1123_subdomain)
    elif version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required("spec.group", text))
    causes += check("spec.version", version, dns1035_label)
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        number = spec.get(field, 0)
        if not 0 < number <= most:
            text = f"must be positive and less than {most}"
            causes.append(invalid(f"spec.{field}", number, text))
    return causes + (_remote(spec) if spec.get("service") is not None else _local(spec))


def _local(spec: Object) -> Causes:
    causes: Causes = []
    bundle = spec.get("caBundle") or ""
    if bundle:
        size = f"{len(bundle) * 3 // 4 - bundle.count('=')} bytes"
        text = "local APIServices may not have a caBundle"
        causes.append(invalid("spec.caBundle", size, text))
    if spec.get("insecureSkipTLSVerify"):
        text = "local APIServices may not have insecureSkipTLSVerify"
        causes.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return causes


def _remote(spec: Object) -> Causes:
    service = spec["service"]
    causes: Causes = [
        required(f"spec.service.{name}") for name in ("namespace", "name") if not service.get(name)
    ]
    port = service.get("port", 443)
    if not 0 < port < 65536:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid("spec.service.port", port, text))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        text = "may not be true if caBundle is present"
        causes.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return causes
