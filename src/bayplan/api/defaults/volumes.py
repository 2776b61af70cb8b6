"""Defaults of volumes: in pod specs, and the sources that PersistentVolumes share with them."""

from __future__ import annotations

from bayplan.api.defaults.images import default_pull_policy
from bayplan.api.defaults.json_types import Object
from bayplan.api.defaults.quantities import round_resources

_MODE = 0o644

# Defaults of older volume plugins: source -> field -> value taken where the field is empty.
_PLAIN_DEFAULTS: dict[str, dict[str, object]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_AZURE_DISK: dict[str, object] = {
    "cachingMode": "ReadWrite",
    "fsType": "ext4",
    "readOnly": False,
    "kind": "Shared",
}


def default_volume(volume: Object) -> None:
    """Write the defaults of one volume of a pod spec."""
    if len(volume) <= 1 and all(key == "name" for key in volume):
        volume["emptyDir"] = {}
        return
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        source = volume.get(kind)
        if source is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _MODE
    _default_items((volume.get("downwardAPI") or {}).get("items"))
    for projection in (volume.get("projected") or {}).get("sources") or ():
        _default_projection(projection)
    ephemeral = volume.get("ephemeral")
    if ephemeral and ephemeral.get("volumeClaimTemplate"):
        default_claim_spec(ephemeral["volumeClaimTemplate"].setdefault("spec", {}))
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = default_pull_policy(image.get("reference") or "")
    default_volume_source(volume)


def default_volume_source(holder: Object) -> None:
    """Write the defaults of sources that pods and PersistentVolumes have in common."""
    host_path = holder.get("hostPath")
    if host_path is not None and host_path.get("type") is None:
        host_path["type"] = ""
    for kind, values in _PLAIN_DEFAULTS.items():
        source = holder.get(kind)
        if source is not None:
            for field, value in values.items():
                if not source.get(field):
                    source[field] = value
    azure = holder.get("azureDisk")
    if azure is not None:
        for field, value in _AZURE_DISK.items():
            if azure.get(field) is None:
                azure[field] = value


def default_claim_spec(spec: Object) -> None:
    """Write the defaults of a PersistentVolumeClaim's spec."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    resources = spec.setdefault("resources", {})
    for kind in ("limits", "requests"):
        if resources and resources.get(kind):
            round_resources(resources[kind])


def _default_items(items: list[Object] | None) -> None:
    for item in items or ():
        field_ref = item.get("fieldRef")
        if field_ref is not None and not field_ref.get("apiVersion"):
            field_ref["apiVersion"] = "v1"
        resource_ref = item.get("resourceFieldRef")
        if resource_ref is not None and resource_ref.get("divisor") is None:
            resource_ref["divisor"] = "0"


def _default_projection(projection: Object) -> None:
    _default_items((projection.get("downwardAPI") or {}).get("items"))
    token = projection.get("serviceAccountToken")
    if token is not None and token.get("expirationSeconds") is None:
        token["expirationSeconds"] = 3600
