"""Volume mounts and block devices of containers."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import (
    Causes,
    forbidden,
    invalid,
    known,
    not_found,
    not_supported,
    required,
)
from bayplan.apiserver.validation.formats import descending, no_backsteps

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def validate_mounts(field: str, container: Object, volumes: dict[str, Object]) -> Causes:
    causes: Causes = []
    devices = {d.get("name"): d.get("devicePath") for d in container.get("volumeDevices") or ()}
    taken: set[str] = set()
    for i, mount in enumerate(container["volumeMounts"]):
        path = f"{field}[{i}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{path}.name"))
        if name not in volumes:
            causes.append(not_found(f"{path}.name", name))
        if not target:
            causes.append(required(f"{path}.mountPath"))
        if target in taken:
            causes.append(invalid(f"{path}.mountPath", target, "must be unique"))
        taken.add(target)
        if name in devices:
            text = "must not already exist in volumeDevices"
            causes.append(invalid(f"{path}.name", name, text))
        if target in devices.values():
            text = "must not already exist as a path in volumeDevices"
            causes.append(invalid(f"{path}.mountPath", target, text))
        causes += _validate_sub_paths(field, path, mount)
        causes += _validate_modes(field, mount, container)
    return causes


def _validate_sub_paths(field: str, path: str, mount: Object) -> Causes:
    causes: Causes = []
    plain, expression = mount.get("subPath"), mount.get("subPathExpr")
    if plain:
        causes += descending(f"{field}.subPath", plain)
    if expression:
        if plain:
            text = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid(f"{path}.subPathExpr", expression, text))
        causes += descending(f"{field}.subPathExpr", expression)
    return causes


def _validate_modes(field: str, mount: Object, container: Object) -> Causes:
    causes: Causes = []
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        path = f"{field}.mountPropagation"
        causes += known(path, propagation, _PROPAGATIONS)
        privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not privileged:
            text = "Bidirectional mount propagation is available only to privileged containers"
            causes.append(forbidden(path, text))
    recursive = mount.get("recursiveReadOnly")
    if recursive is not None:
        path = f"{field}.recursiveReadOnly"
        if recursive not in _RECURSIVE:
            causes.append(not_supported(path, recursive, _RECURSIVE))
        elif recursive != "Disabled":
            if not mount.get("readOnly"):
                causes.append(forbidden(path, "may only be specified when readOnly is true"))
            if propagation not in (None, "None"):
                text = "may only be specified when mountPropagation is None or not specified"
                causes.append(forbidden(path, text))
    return causes


def validate_devices(field: str, container: Object, volumes: dict[str, Object]) -> Causes:
    causes: Causes = []
    mounts = {m.get("name"): m.get("mountPath") for m in container.get("volumeMounts") or ()}
    names: set[str] = set()
    paths: set[str] = set()
    for i, device in enumerate(container["volumeDevices"]):
        path = f"{field}[{i}]"
        name, target = device.get("name", ""), device.get("devicePath", "")
        volume = volumes.get(name)
        if not name:
            causes.append(required(f"{path}.name"))
        if name in names:
            causes.append(invalid(f"{path}.name", name, "must be unique"))
        if volume is None:
            causes.append(not_found(f"{path}.name", name))
        elif not volume.get("persistentVolumeClaim") and not volume.get("ephemeral"):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral "
            text += "for block mode"
            causes.append(invalid(f"{path}.name", name, text))
        if not target:
            causes.append(required(f"{path}.devicePath"))
        if target in paths:
            causes.append(invalid(f"{path}.devicePath", target, "must be unique"))
        if target and no_backsteps("", target):
            causes.append(invalid(f"{path}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mounts:
            text = "must not already exist in volumeMounts"
            causes.append(invalid(f"{path}.name", name, text))
        if target in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            causes.append(invalid(f"{path}.devicePath", target, text))
        if name:
            names.add(name)
    return causes
