"""PersistentVolume, PersistentVolumeClaim, and the kinds of storage.k8s.io."""

from __future__ import annotations

import posixpath

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, dns1123_subdomain, qualified_name
from bayplan.apiserver.validation.causes import (
    POSITIVE,
    Causes,
    allowed,
    duplicate,
    forbidden,
    immutable,
    invalid,
    known,
    missing,
    non_negative,
    not_supported,
    once,
    required,
    too_long,
)
from bayplan.apiserver.validation.claims import (
    VOLUME_MODES,
    validate_access_modes,
    validate_claim_spec,
)
from bayplan.apiserver.validation.formats import check, named
from bayplan.apiserver.validation.labels import validate_label_name, validate_label_selector
from bayplan.apiserver.validation.meta import validate_meta
from bayplan.apiserver.validation.pods import json_diff
from bayplan.apiserver.validation.scheduling import validate_node_selector
from bayplan.apiserver.validation.volumes import (
    PERSISTENT_SOURCES,
    csi_driver_name,
    validate_sources,
)

_RECLAIM = ("Delete", "Recycle", "Retain")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_BETA_TO_GA = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def validate_volume(obj: Object) -> Causes:
    spec = obj["spec"]
    causes: Causes = []
    modes = spec.get("accessModes")
    if not modes:
        causes.append(required("spec.accessModes"))
    causes += validate_access_modes("spec.accessModes", modes or [])
    capacity = spec.get("capacity") or {}
    if not capacity:
        causes.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        causes.append(not_supported("spec.capacity", capacity, ("storage",)))
    for name, value in capacity.items():
        path = f"spec.capacity[{name}]"
        if quantity.nanos(value) < 0:
            text = "must be a valid resource quantity"
            causes.append(invalid(path, quantity.value(value), text))
        if quantity.nanos(value) <= 0:
            causes.append(invalid(path, value, POSITIVE))
    policy = spec.get("persistentVolumeReclaimPolicy")
    causes += allowed("spec.persistentVolumeReclaimPolicy", policy or None, _RECLAIM)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            causes.append(
                required("spec.nodeAffinity.required", "must specify required node constraints")
            )
        else:
            causes += validate_node_selector("spec.nodeAffinity.required", affinity["required"])
    causes += validate_sources("spec", spec, PERSISTENT_SOURCES)
    if spec.get("local") is not None and affinity is None:
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return causes + _validate_volume_details(spec)


def _validate_volume_details(spec: Object) -> Causes:
    causes: Causes = []
    host_path = (spec.get("hostPath") or {}).get("path", "")
    recycle = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if host_path and posixpath.normpath(host_path) == "/" and recycle:
        text = "may not be 'recycle' for a hostPath mount of '/'"
        causes.append(forbidden("spec.persistentVolumeReclaimPolicy", text))
    csi = spec.get("csi")
    if csi is not None:
        causes += missing("spec.csi", csi, "volumeHandle")
        for name in (
            "controllerPublishSecretRef",
            "controllerExpandSecretRef",
            "nodePublishSecretRef",
            "nodeExpandSecretRef",
        ):
            if csi.get(name) is not None:
                causes += _validate_secret_ref(f"spec.csi.{name}", csi[name])
    if spec.get("storageClassName"):
        causes += check("spec.storageClassName", spec["storageClassName"], dns1123_subdomain)
    mode = spec.get("volumeMode")
    causes += allowed("spec.volumeMode", mode, VOLUME_MODES)
    attributes = spec.get("volumeAttributesClassName")
    if attributes is not None:
        path = "spec.volumeAttributesClassName"
        causes += named(path, attributes, dns1123_subdomain, "an empty string is disallowed")
        if csi is None:
            text = "has to be specified when using volumeAttributesClassName"
            causes.append(required("spec.csi", text))
    return causes


def _validate_secret_ref(field: str, reference: Object) -> Causes:
    causes: Causes = []
    for part, checker in (("name", dns1123_subdomain), ("namespace", dns1123_label)):
        value = reference.get(part)
        causes += named(f"{field}.{part}", value, checker)
    return causes


def validate_volume_update(obj: Object, old: Object) -> Causes:
    # Upstream validates a changed volume twice, and reports each problem twice.
    causes = validate_meta(obj["metadata"], dns1123_subdomain, namespaced=False)
    return causes + validate_volume(obj) + _validate_volume_changes(obj, old)


def _validate_volume_changes(obj: Object, old: Object) -> Causes:
    spec, before = obj["spec"], old["spec"]
    new_source = {kind: spec[kind] for kind in PERSISTENT_SOURCES if kind in spec}
    old_source = {kind: before[kind] for kind in PERSISTENT_SOURCES if kind in before}
    new_csi, old_csi = new_source.get("csi"), old_source.get("csi")
    if new_csi and old_csi and "controllerExpandSecretRef" not in old_csi:
        kept = {k: v for k, v in new_csi.items() if k != "controllerExpandSecretRef"}
        new_source["csi"] = kept
    causes: Causes = []
    if new_source != old_source:
        text = "spec.persistentvolumesource is immutable after creation\n"
        diff = json_diff(old_source, new_source)
        causes.append(forbidden("spec.persistentvolumesource", text + diff))
    causes += immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    affinity = before.get("nodeAffinity")
    if affinity is not None and not _same_affinity(spec.get("nodeAffinity"), affinity):
        text = "field is immutable, except for updating from beta label to GA"
        causes.append(invalid("nodeAffinity", spec.get("nodeAffinity"), text))
    was, name = before.get("volumeAttributesClassName"), "volumeAttributesClassName"
    if was is not None and spec.get(name) is None:
        text = "update from non-nil value to nil is forbidden"
        causes.append(forbidden(f"spec.{name}", text))
    return causes


def _same_affinity(new: object, old: object) -> bool:
    """Compare node affinity; a beta label key may become its stable one."""
    if isinstance(new, dict) and isinstance(old, dict):
        if new.keys() != old.keys():
            return False
        return all(
            _same_affinity(new[k], old[k])
            or (k == "key" and _BETA_TO_GA.get(str(old[k])) == new[k])
            for k in new
        )
    if isinstance(new, list) and isinstance(old, list):
        same = len(new) == len(old)
        return same and all(_same_affinity(a, b) for a, b in zip(new, old, strict=True))
    return new == old


def validate_claim(obj: Object) -> Causes:
    return validate_claim_spec("spec", obj["spec"])


def _validate_changed_claim(obj: Object, old: Object) -> Causes:
    before = old["spec"]
    grouped = any((before.get(k) or {}).get("apiGroup") for k in ("dataSource", "dataSourceRef"))
    causes = validate_meta(obj["metadata"], dns1123_subdomain, namespaced=True)
    return causes + validate_claim_spec("spec", obj["spec"], check_group=not grouped)


def validate_claim_update(obj: Object, old: Object) -> Causes:
    return _validate_changed_claim(obj, old) + _validate_claim_changes(obj, old)


def _validate_claim_changes(obj: Object, old: Object) -> Causes:
    spec, before = dict(obj["spec"]), dict(old["spec"])
    bound = (obj.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        spec.pop("volumeName", None)
    annotation = (old["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    given = spec.get("storageClassName") if before.get("storageClassName") is None else None
    if given is not None and annotation in (None, given):
        spec.pop("storageClassName")
    if bound:
        for holder in (spec, before):
            holder.pop("volumeAttributesClassName", None)
            if not ((obj["spec"].get("resources") or {}).get("requests")):
                continue
            resources = dict(holder.get("resources") or {})
            requests = dict(resources.get("requests") or {})
            requests.pop("storage", None)
            resources["requests"] = requests
            holder["resources"] = resources
    causes: Causes = []
    if spec != before:
        text = "spec is immutable after creation except resources.requests and "
        text += "volumeAttributesClassName for bound claims\n"
        causes.append(forbidden("spec", text + json_diff(before, spec)))
    causes += _validate_shrink(obj, old)
    mode, was = obj["spec"].get("volumeMode"), old["spec"].get("volumeMode")
    return causes + immutable("volumeMode", mode, was)


def _storage(holder: Object, *path: str) -> int:
    for part in path:
        holder = holder.get(part) or {}
    return quantity.nanos(holder.get("storage", "0"))


def _validate_shrink(obj: Object, old: Object) -> Causes:
    new = _storage(obj, "spec", "resources", "requests")
    if new >= _storage(old, "spec", "resources", "requests"):
        return []
    if new <= _storage(old, "status", "capacity"):
        text = "field can not be less than status.capacity"
        return [forbidden("spec.resources.requests.storage", text)]
    return []


def validate_claim_status(obj: Object, old: Object) -> Causes:
    causes: Causes = []
    for name, value in ((obj.get("status") or {}).get("capacity") or {}).items():
        if quantity.nanos(value) < 0:
            text = "must be a valid resource quantity"
            causes.append(invalid(f"status.capacity[{name}]", quantity.value(value), text))
    return causes


def validate_storage_class(obj: Object) -> Causes:
    causes: Causes = []
    provisioner = obj.get("provisioner")
    causes += named("provisioner", provisioner and provisioner.lower(), qualified_name)
    parameters = obj.get("parameters") or {}
    if len(parameters) > 512:
        causes.append(too_long("parameters", 512))
    elif "" in parameters:
        causes.append(invalid("parameters", "", "field can not be empty."))
    policy = obj.get("reclaimPolicy")
    causes += allowed("reclaimPolicy", policy or None, ("Delete", "Retain"))
    mode = obj.get("volumeBindingMode")
    modes = ("Immediate", "WaitForFirstConsumer")
    if mode is None:
        causes.append(required("volumeBindingMode"))
    else:
        causes += known("volumeBindingMode", mode, modes)
    return causes + _validate_topologies(obj.get("allowedTopologies") or [])


def _validate_topologies(topologies: list[Object]) -> Causes:
    causes: Causes = []
    # Upstream compares with empty terms too, so that one without keys counts as repeated.
    seen: list[dict[str, set[str]]] = [{}]
    for i, term in enumerate(topologies):
        keys: dict[str, set[str]] = {}
        for j, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            path = f"allowedTopologies[{i}].matchLabelExpressions[{j}]"
            values, key = requirement.get("values") or [], requirement.get("key", "")
            if not values:
                causes.append(required(f"{path}.values"))
            for k, value in enumerate(values):
                if value in values[:k]:
                    causes.append(duplicate(f"{path}.values[{k}]", value))
            causes += validate_label_name(f"{path}.key", key)
            if key in keys:
                causes.append(duplicate(f"{path}.key", key))
            keys[key] = set(values)
        if keys in seen:
            causes.append(duplicate(f"allowedTopologies[{i}].matchLabelExpressions", ""))
        seen.append(keys)
    return causes


def validate_csi_node(obj: Object) -> Causes:
    causes: Causes = []
    names: set[str] = set()
    for i, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name, node = f"spec.drivers[{i}]", driver.get("name", ""), driver.get("nodeID", "")
        causes += csi_driver_name(f"{path}.name", name)
        if not node:
            causes.append(required(f"{path}.nodeID"))
        elif len(node) > 256:
            causes.append(invalid(f"{path}.nodeID", node, "must be 256 characters or less"))
        count = (driver.get("allocatable") or {}).get("count")
        causes += non_negative(f"{path}.allocatable.count", count)
        causes += once(f"{path}.name", name, names)
        keys = driver.get("topologyKeys") or []
        for j, key in enumerate(keys):
            if not key:
                causes.append(required(path))
            if key in keys[:j]:
                causes.append(duplicate(path, key))
            causes += check(path, key, qualified_name)
    return causes


def validate_csi_node_update(obj: Object, old: Object) -> Causes:
    before = {d.get("name"): d for d in (old.get("spec") or {}).get("drivers") or ()}
    causes: Causes = []
    for driver in (obj.get("spec") or {}).get("drivers") or ():
        was = before.get(driver.get("name"))
        if was is not None:
            new = {k: v for k, v in driver.items() if k != "allocatable"}
            was = {k: v for k, v in was.items() if k != "allocatable"}
            causes += immutable("spec.drivers", new, was)
    return causes


def validate_csi_driver(obj: Object) -> Causes:
    spec = obj["spec"]
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    causes = known("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), policies)
    for mode in spec.get("volumeLifecycleModes") or ():
        causes += known("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    return causes


def validate_csi_driver_update(obj: Object, old: Object) -> Causes:
    spec, before = obj["spec"], old["spec"]
    causes = immutable(
        "spec.attachedRequired", spec.get("attachRequired"), before.get("attachRequired")
    )
    name = "volumeLifecycleModes"
    return causes + immutable(f"spec.{name}", spec.get(name), before.get(name))


def validate_storage_capacity(obj: Object) -> Causes:
    causes = check("storageClassName", obj.get("storageClassName", ""), dns1123_subdomain)
    causes += validate_label_selector("nodeTopology", obj.get("nodeTopology"))
    capacity = obj.get("capacity")
    if capacity is not None and quantity.nanos(capacity) < 0:
        causes.append(invalid("capacity", capacity, "must be greater than or equal to 0"))
    return causes


def validate_attachment(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = csi_driver_name("spec.attacher", spec.get("attacher", ""))
    source = spec.get("source") or {}
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and name is None:
        causes.append(required("spec.source", text))
    elif inline is not None and name is not None:
        causes.append(forbidden("spec.source", text))
    elif name is not None:
        causes += check("spec.source.persistentVolumeName", name, dns1123_subdomain)
    return causes + check("spec.nodeName", spec.get("nodeName", ""), dns1123_subdomain)
