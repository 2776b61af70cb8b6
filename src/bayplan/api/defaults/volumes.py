"""Defaults of volumes and of image references.

Volumes are those of pod specs, and the sources that PersistentVolumes share with them.
"""

from __future__ import annotations

import re

from bayplan.api.defaults.json_types import Object, absent, empty
from bayplan.api.defaults.quantities import round_lists
from bayplan.api.remembered import remembered

_MODE = 0o644

# Defaults of older volume plugins: source -> field -> value taken where the field is empty.
_PLAIN_DEFAULTS: dict[str, Object] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
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
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        default_references(item)
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
            empty(source, **values)
    azure = holder.get("azureDisk")
    if azure is not None:
        absent(azure, cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared")


def default_claim_spec(spec: Object) -> None:
    """Write the defaults of a PersistentVolumeClaim's spec."""
    absent(spec, volumeMode="Filesystem")
    round_lists(spec.setdefault("resources", {}) or {}, "limits", "requests")


def default_references(source: Object) -> None:
    """References to fields have a version; those to resources show a divisor, if only zero."""
    field_ref = source.get("fieldRef")
    if field_ref is not None:
        empty(field_ref, apiVersion="v1")
    resource_ref = source.get("resourceFieldRef")
    if resource_ref is not None:
        absent(resource_ref, divisor="0")


def _default_projection(projection: Object) -> None:
    for item in (projection.get("downwardAPI") or {}).get("items") or ():
        default_references(item)
    token = projection.get("serviceAccountToken")
    if token is not None and token.get("expirationSeconds") is None:
        token["expirationSeconds"] = 3600


# Container image references: `[domain/]path[:tag][@digest]`, path in lower case.
_DOMAIN_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<domain>{_DOMAIN})/)?(?P<path>{_PATH_PART}(?:/{_PATH_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


@remembered(8192)
def default_pull_policy(image: str) -> str:
    """Return `Always` for the tag latest (given or implied), else `IfNotPresent`.

    So has a reference that does not parse: it has no tag.
    """
    match = None if _IDENTIFIER.fullmatch(image) else _REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag, digest = match["tag"], match["digest"]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"
