"""Volume sources, of pods and of PersistentVolumes.

Sources of which only some fields are demanded are a table; the others have a function. One volume
has exactly one source.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, dns1123_subdomain
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    duplicate,
    forbidden,
    invalid,
    missing,
    not_supported,
    one_of,
    required,
    too_long,
)
from bayplan.apiserver.validation.claims import validate_claim_template
from bayplan.apiserver.validation.env import (
    VOLUME_FIELDS,
    validate_field_ref,
    validate_resource_ref,
)
from bayplan.apiserver.validation.formats import (
    between,
    check,
    descending,
    file_mode,
    named,
    no_backsteps,
    non_reserved,
)

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PARTITION = "must be between 1 and 255, inclusive"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
# Fields that must not be empty: source -> fields.
_NEEDED: dict[str, tuple[str, ...]] = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "nfs": ("server", "path"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": ("volumeName",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "iscsi": ("targetPortal",),
    "gitRepo": ("repository",),
    "configMap": ("name",),
    "secret": ("secretName",),
}
# Where upstream's path of a source differs from its name.
_PATHS = {"gcePersistentDisk": "persistentDisk"}
_POD_SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs",
    "iscsi", "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte",
    "downwardAPI", "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume",
    "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO",
    "csi", "ephemeral", "image",
)  # fmt: skip
PERSISTENT_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd",
    "quobyte", "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume",
    "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_IQN = re.compile(
    r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9-.]+)(:[^,;*&$|\s]+)|eui\.[0-9a-fA-F]{16}|naa\.[0-9a-fA-F]{32}"
)


def validate_volumes(
    field: str, volumes: list[Object], pod_name: str
) -> tuple[dict[str, Object], Causes]:
    """Return the valid volumes by name, and the problems of the others."""
    causes: Causes = []
    valid: dict[str, Object] = {}
    created = {f"{pod_name}-{v.get('name', '')}" for v in volumes if v.get("ephemeral") is not None}
    for i, volume in enumerate(volumes):
        path, name = f"{field}[{i}]", volume.get("name", "")
        found = validate_sources(path, volume, _POD_SOURCES)
        if volume.get("ephemeral") is not None and pod_name and name:
            for problem in dns1123_subdomain(f"{pod_name}-{name}"):
                text = f'PVC name "{pod_name}-{name}": {problem}'
                found.append(invalid(f"{path}.name", name, text))
        found += named(f"{path}.name", name, dns1123_label)
        if name in valid:
            found.append(duplicate(f"{path}.name", name))
        if found:
            causes += found
        else:
            valid[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if pod_name and claim and claim in created:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            causes.append(invalid(f"{path}.persistentVolumeClaim.claimName", claim, text))
    return valid, causes


def validate_sources(field: str, holder: Object, kinds: tuple[str, ...]) -> Causes:
    """Demand exactly one source, and validate it."""
    given = [kind for kind in kinds if holder.get(kind) is not None]
    if not given:
        return [required(field, "must specify a volume type")]
    first = given[0]
    causes = _validate_source(f"{field}.{_PATHS.get(first, first)}", first, holder[first])
    for kind in given[1:]:
        causes.append(forbidden(f"{field}.{kind}", "may not specify more than 1 volume type"))
    return causes


def _validate_source(field: str, kind: str, source: Object) -> Causes:
    causes = missing(field, source, *_NEEDED.get(kind, ()))
    extra = _EXTRA.get(kind)
    return causes + extra(field, source) if extra else causes


def _empty_dir(field: str, source: Object) -> Causes:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.nanos(limit) < 0:
        text = "SizeLimit field must be a valid resource quantity"
        return [forbidden(f"{field}.sizeLimit", text)]
    return []


def _host_path(field: str, source: Object) -> Causes:
    path = source.get("path")
    if not path:
        return [required(f"{field}.path")]
    causes = no_backsteps(f"{field}.path", path)
    kind = source.get("type")
    causes += allowed(f"{field}.type", kind, _HOST_PATH_TYPES)
    return causes


def _local(field: str, source: Object) -> Causes:
    path = source.get("path")
    return no_backsteps(f"{field}.path", path) if path else [required(f"{field}.path")]


def _git_repo(field: str, source: Object) -> Causes:
    return descending(f"{field}.directory", source.get("directory", ""))


def _partition(field: str, source: Object) -> Causes:
    number = source.get("partition", 0)
    if 0 <= number <= 255:
        return []
    return [invalid(f"{field}.partition", number, _PARTITION)]


def _nfs(field: str, source: Object) -> Causes:
    path = source.get("path", "")
    if path.startswith("/"):
        return []
    return [invalid(f"{field}.path", path, "must be an absolute path")]


def _iscsi(field: str, source: Object) -> Causes:
    causes: Causes = []
    name = source.get("iqn")
    if not name:
        causes.append(required(f"{field}.iqn"))
    elif not name.startswith(("iqn", "eui", "naa")):
        text = "must be valid format starting with iqn, eui, or naa"
        causes.append(invalid(f"{field}.iqn", name, text))
    elif not _IQN.fullmatch(name):
        causes.append(invalid(f"{field}.iqn", name, "must be valid format"))
    causes += between(f"{field}.lun", source.get("lun", 0), 0, 255)
    chap = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if chap and source.get("secretRef") is None:
        causes.append(required(f"{field}.secretRef"))
    return causes


def _azure_disk(field: str, source: Object) -> Causes:
    causes: Causes = []
    kind, uri = source.get("kind"), source.get("diskURI", "")
    modes = ("None", "ReadOnly", "ReadWrite")
    mode = source.get("cachingMode")
    causes += allowed(f"{field}.cachingMode", mode, modes)
    kinds = ("Dedicated", "Managed", "Shared")
    causes += allowed(f"{field}.kind", kind, kinds)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/"
        form += "microsoft.compute/disks/{disk-id}"
        causes.append(not_supported(f"{field}.diskURI", uri, (form,)))
    elif kind is not None and kind != "Managed" and not uri.startswith("https://"):
        form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        causes.append(not_supported(f"{field}.diskURI", uri, (form,)))
    return causes


def _fc(field: str, source: Object) -> Causes:
    names, ids = source.get("targetWWNs"), source.get("wwids")
    if not names and not ids:
        text = "must specify either targetWWNs or wwids, but not both"
        return [required(f"{field}.targetWWNs", text)]
    causes: Causes = []
    if names and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        causes.append(invalid(f"{field}.targetWWNs", names, text))
    if names and source.get("lun") is None:
        causes.append(required(f"{field}.lun", "lun is required if targetWWNs is specified"))
    elif names:
        causes += between(f"{field}.lun", source["lun"], 0, 255)
    return causes


def _flocker(field: str, source: Object) -> Causes:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    causes: Causes = []
    if not name and not uuid:
        causes.append(required(field, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        causes.append(invalid(field, "resource", text))
    if "/" in name:
        causes.append(invalid(f"{field}.datasetName", name, "must not contain '/'"))
    return causes


def _flex_volume(field: str, source: Object) -> Causes:
    causes: Causes = []
    for key in source.get("options") or ():
        normalized = f".{key.partition('/')[0].lower()}"
        if normalized.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            causes.append(invalid(f"{field}.options[{key}]", key, text))
    return causes


def _key_items(field: str, items: list[Object] | None) -> Causes:
    causes: Causes = []
    for i, item in enumerate(items or ()):
        path = f"{field}[{i}]"
        causes += missing(path, item, "key", "path")
        causes += non_reserved(f"{path}.path", item.get("path", ""))
        causes += file_mode(f"{path}.mode", item.get("mode"))
    return causes


def _files(field: str, source: Object) -> Causes:
    causes = file_mode(f"{field}.defaultMode", source.get("defaultMode"))
    return causes + _key_items(f"{field}.items", source.get("items"))


def _downward_file(field: str, item: Object) -> Causes:
    causes = missing(field, item, "path")
    causes += non_reserved(f"{field}.path", item.get("path", ""))
    field_ref, resource_ref = item.get("fieldRef"), item.get("resourceFieldRef")
    if field_ref is not None:
        causes += validate_field_ref(f"{field}.fieldRef", field_ref, VOLUME_FIELDS)
        if resource_ref is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid(field, "resource", text))
    elif resource_ref is not None:
        causes += validate_resource_ref(f"{field}.resourceFieldRef", resource_ref, volume=True)
    else:
        causes.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return causes + file_mode(f"{field}.mode", item.get("mode"))


def _downward(field: str, source: Object) -> Causes:
    causes = file_mode(f"{field}.defaultMode", source.get("defaultMode"))
    for item in source.get("items") or ():
        causes += _downward_file(field, item)
    return causes


def _projected(field: str, source: Object) -> Causes:
    causes = file_mode(f"{field}.defaultMode", source.get("defaultMode"))
    taken: set[str] = set()
    for i, projection in enumerate(source.get("sources") or ()):
        causes += _projection(f"{field}.sources[{i}]", field, projection, taken)
    return causes


def _projection(path: str, field: str, projection: Object, taken: set[str]) -> Causes:
    causes: Causes = []
    files: list[tuple[str, str]] = []
    for kind in ("secret", "configMap"):
        part = projection.get(kind)
        if part is not None:
            causes += missing(f"{path}.{kind}", part, "name")
            causes += _key_items(f"{path}.{kind}.items", part.get("items"))
            items = part.get("items") or ()
            files += [(item.get("path", ""), part.get("name", "")) for item in items]
    downward = projection.get("downwardAPI")
    if downward is not None:
        for item in downward.get("items") or ():
            causes += _downward_file(f"{path}.downwardAPI", item)
            files.append((item.get("path", ""), item.get("path", "")))
    for name, shown in files:
        if name and name in taken:
            causes.append(invalid(field, shown, "conflicting duplicate paths"))
        taken.add(name)
    token = projection.get("serviceAccountToken")
    if token is not None:
        causes += _token(f"{path}.serviceAccountToken", field, token)
    if sum(projection.get(kind) is not None for kind in _PROJECTIONS) > 1:
        causes.append(forbidden(path, "may not specify more than 1 volume type per source"))
    return causes


_PROJECTIONS = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)


def _token(path: str, field: str, token: Object) -> Causes:
    causes: Causes = []
    seconds = token.get("expirationSeconds", 3600)
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
    if not token.get("path"):
        return [*causes, required(f"{field}.path")]
    return causes + non_reserved(f"{field}.path", token["path"])


def csi_driver_name(field: str, name: str) -> Causes:
    if not name:
        return [required(field)]
    causes: Causes = [too_long(field, 63)] if len(name) > 63 else []
    return causes + [invalid(field, name, problem) for problem in dns1123_subdomain(name.lower())]


def _csi(field: str, source: Object) -> Causes:
    causes = csi_driver_name(f"{field}.driver", source.get("driver", ""))
    secret = source.get("nodePublishSecretRef")
    if secret is not None and "volumeHandle" not in source:
        if not secret.get("name"):
            causes.append(required(f"{field}.nodePublishSecretRef.name"))
        else:
            causes += check(f"{field}.name", secret["name"], dns1123_subdomain)
    return causes


def _ephemeral(field: str, source: Object) -> Causes:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{field}.volumeClaimTemplate")]
    return validate_claim_template(f"{field}.volumeClaimTemplate", template)


def _image(field: str, source: Object) -> Causes:
    causes: Causes = [] if source.get("reference") else [required(f"{field}.reference")]
    return causes + one_of(f"{field}.pullPolicy", source.get("pullPolicy"), PULL_POLICIES)


_EXTRA: dict[str, Callable[[str, Object], Causes]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "local": _local,
    "gitRepo": _git_repo,
    "gcePersistentDisk": _partition,
    "awsElasticBlockStore": _partition,
    "nfs": _nfs,
    "iscsi": _iscsi,
    "azureDisk": _azure_disk,
    "fc": _fc,
    "flocker": _flocker,
    "flexVolume": _flex_volume,
    "configMap": _files,
    "secret": _files,
    "downwardAPI": _downward,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
