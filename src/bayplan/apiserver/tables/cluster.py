"""Tables of nodes, namespaces, services, volumes, events and the other kinds around pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bayplan.apiserver.tables.text import (
    NONE,
    UNKNOWN,
    UNSET,
    access_modes,
    age,
    labels,
    selector_or_none,
    shortened,
    since,
)

Object = Mapping[str, Any]
ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _status(obj: Object) -> Object:
    return obj.get("status") or {}


def node(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    info = status.get("nodeInfo") or {}
    ready = next(
        (c for c in reversed(status.get("conditions") or ()) if c.get("type") == "Ready"), None
    )
    words = [
        "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    ]
    if _spec(obj).get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(obj),
        ",".join(words),
        _roles(obj) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(obj: Object) -> str:
    roles = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(ROLE_PREFIX):
            roles.add(key.removeprefix(ROLE_PREFIX))
        elif key == ROLE_LABEL:
            roles.add(value)
    return ",".join(sorted(roles - {""}))


def _address(status: Object, kind: str) -> str:
    found = (a.get("address", "") for a in status.get("addresses") or () if a.get("type") == kind)
    return next(found, NONE)


def service(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    ports = ",".join(map(_port, spec.get("ports") or ()))
    return [
        _name(obj),
        spec.get("type", ""),
        (spec.get("clusterIPs") or [NONE])[0],
        _external_ip(obj),
        ports or NONE,
        age(obj, now),
        labels(spec.get("selector")),
    ]


def _port(port: Object) -> str:
    text = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else f"{port['port']}"
    return f"{text}/{port.get('protocol', '')}"


def _external_ip(obj: Object) -> str:
    spec = _spec(obj)
    external = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            ingress = (_status(obj).get("loadBalancer") or {}).get("ingress") or ()
            found = sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""})
            return ",".join(found + external) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def endpoints(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), _endpoints(obj.get("subsets") or ()), age(obj, now)]


def _endpoints(subsets: Any) -> str:
    if not subsets:
        return NONE
    found: list[str] = []
    for subset in subsets:
        addresses = [a.get("ip", "") for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += addresses
        for port in ports:
            found += [
                f"[{a}]:{port['port']}" if ":" in a else f"{a}:{port['port']}" for a in addresses
            ]
    text = ",".join(found[:3])
    return f"{text} + {len(found) - 3} more..." if len(found) > 3 else text


def endpoint_slice(obj: Object, now: datetime) -> list[Any]:
    ports = [str(p.get("port", p.get("name", "*"))) for p in obj.get("ports") or ()]
    found = [a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    return [
        _name(obj),
        obj.get("addressType", ""),
        shortened(ports, len(ports)),
        shortened(found, len(found)),
        age(obj, now),
    ]


def event(obj: Object, now: datetime) -> list[Any]:
    """Both views of an event: core v1, and events.k8s.io with its renamed fields."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    first_text = since(first or obj.get("eventTime"), now)
    last_text = since(last, now) if last else first_text
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series := obj.get("series"):
        last_text = since(series.get("lastObservedTime"), now)
        count = series.get("count", 0)
    kind = str(about.get("kind", "")).lower()
    return [
        last_text,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        _event_source(obj),
        str(obj.get("message") or obj.get("note") or "").strip(),
        first_text,
        count,
        _name(obj),
    ]


def _event_source(obj: Object) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
    component = source.get("component") or reporter
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else str(component)


def config_map(obj: Object, now: datetime) -> list[Any]:
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [_name(obj), count, age(obj, now)]


def secret(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def persistent_volume(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    claim = spec.get("claimRef")
    gone = obj["metadata"].get("deletionTimestamp")
    annotations = obj["metadata"].get("annotations") or {}
    return [
        _name(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if gone else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        annotations.get(CLASS_ANNOTATION) or spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def persistent_volume_claim(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    gone = obj["metadata"].get("deletionTimestamp")
    bound = bool(spec.get("volumeName"))
    annotations = obj["metadata"].get("annotations") or {}
    return [
        _name(obj),
        "Terminating" if gone else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        access_modes(status.get("accessModes")) if bound else "",
        annotations.get(CLASS_ANNOTATION) or spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def storage_class(obj: Object, now: datetime) -> list[Any]:
    annotations = obj["metadata"].get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in DEFAULT_CLASS)
    return [
        _name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        obj.get("allowVolumeExpansion", False),
        age(obj, now),
    ]


def csi_node(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), len(_spec(obj).get("drivers") or ()), age(obj, now)]


def csi_driver(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    tokens = spec.get("tokenRequests")
    return [
        _name(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if tokens is None else ",".join(token.get("audience", "") for token in tokens),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def resource_quota(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    used = status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted((status.get("hard") or {}).items()):
        column = limits if name.startswith("limits.") else requests
        column.append(f"{name}: {used.get(name, '0')}/{hard}")
    return [_name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def device_taint_rule(obj: Object, now: datetime) -> list[Any]:
    taint = _spec(obj).get("taint") or {}
    told = [taint.get(part, "") for part in ("key", "value", "effect")]
    added = since(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    return [_name(obj), *told, added, age(obj, now)]


def pod_group(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), "Pending"
    policy = "Gang" if (spec.get("schedulingPolicy") or {}).get("gang") is not None else "Basic"
    for found in _status(obj).get("conditions") or ():
        if found["type"] in ("PodGroupScheduled", "PodGroupInitiallyScheduled"):
            status = "Scheduled" if found["status"] == "True" else "Unschedulable"
    for found in _status(obj).get("conditions") or ():
        if found["type"] == "DisruptionTarget":
            status = found.get("reason", "")
    template = (spec.get("podGroupTemplateRef") or {}).get("workload")
    workload = (spec.get("workloadRef") or template or {}).get("workloadName", NONE)
    return [_name(obj), policy, workload, status, age(obj, now)]


def composite_pod_group(obj: Object, now: datetime) -> list[Any]:
    name, policy, workload, _, since_made = pod_group(obj, now)
    return [name, policy, workload, since_made]


def resource_claim(obj: Object, now: datetime) -> list[Any]:
    gone, status = obj["metadata"].get("deletionTimestamp"), _status(obj)
    states = ["deleted"] if gone else []
    if status.get("allocation") is not None:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not gone:
        states.append("pending")
    return [_name(obj), ",".join(states), age(obj, now)]


def role_binding(obj: Object, now: datetime) -> list[Any]:
    ref = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        if subject.get("kind") in by_kind:
            by_kind[subject["kind"]].append(name)
    cells = [_name(obj), f"{ref.get('kind', '')}/{ref.get('name', '')}", age(obj, now)]
    return cells + [", ".join(names) for names in by_kind.values()]


def network_policy(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), selector_or_none(_spec(obj).get("podSelector")), age(obj, now)]


def api_service(obj: Object, now: datetime) -> list[Any]:
    service = _spec(obj).get("service")
    where = "Local" if service is None else f"{service.get('namespace')}/{service.get('name')}"
    conditions = (obj.get("status") or {}).get("conditions") or ()
    found: Object = next((c for c in conditions if c.get("type") == "Available"), {})
    state = found.get("status", "Unknown")
    reason = found.get("reason", "")
    available = state if state == "True" or not reason else f"{state} ({reason})"
    return [_name(obj), where, available, age(obj, now)]
