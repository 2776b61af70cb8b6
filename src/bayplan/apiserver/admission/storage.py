"""Storage: the default class, finalizers that protect volumes in use, and resizing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api import quantity
from bayplan.apiserver.admission.types import CREATE, UPDATE, Attributes, Reader, forbidden

_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_PROTECTION = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


def is_default_class(annotations: Mapping[str, str]) -> bool:
    return any(annotations.get(key) == "true" for key in _DEFAULT)


def default_class(attrs: Attributes, reader: Reader) -> None:
    """Give a claim without a class the newest class that is marked as default."""
    if not _is_new(attrs, "persistentvolumeclaims"):
        return
    spec: dict[str, Any] = attrs.obj.setdefault("spec", {})
    metadata: dict[str, Any] = attrs.obj["metadata"]
    annotated = (metadata.get("annotations") or {}).get(_CLASS_ANNOTATION)
    if spec.get("storageClassName") is not None or annotated is not None:
        return
    defaults = [
        each["metadata"]
        for each in _classes(reader)
        if is_default_class(each["metadata"].get("annotations") or {})
    ]
    if defaults:
        # The newest wins; among equally old ones the first by name.
        defaults.sort(key=lambda meta: meta["name"])
        defaults.sort(key=lambda meta: meta.get("creationTimestamp", ""), reverse=True)
        spec["storageClassName"] = defaults[0]["name"]


def _classes(reader: Reader) -> list[dict[str, Any]]:
    return list(reader.list("storage.k8s.io", "storageclasses"))


def _is_new(attrs: Attributes, resource: str) -> bool:
    return (
        attrs.resource == resource
        and not attrs.group
        and not attrs.subresource
        and attrs.operation == CREATE
    )


def protect(attrs: Attributes, reader: Reader) -> None:
    """Add the finalizer that keeps a volume or claim while it is used."""
    finalizer = _PROTECTION.get((attrs.group, attrs.resource))
    if finalizer is None or attrs.operation != CREATE or attrs.subresource:
        return
    metadata: dict[str, Any] = attrs.obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]


def check_resize(attrs: Attributes, reader: Reader) -> None:
    """Refuse to grow a claim whose class does not allow it."""
    if attrs.resource != "persistentvolumeclaims" or attrs.group or attrs.subresource:
        return
    if attrs.operation != UPDATE or attrs.old is None:
        return
    new, old = _size(attrs.obj), _size(attrs.old)
    if new is None or old is None or quantity.compare(new, old) <= 0:
        return
    status: dict[str, Any] = attrs.old.get("status") or {}
    if status.get("phase") != "Bound":
        raise forbidden(attrs, "Only bound persistent volume claims can be expanded")
    spec: dict[str, Any] = attrs.obj["spec"]
    name = spec.get("storageClassName") or ""
    found: dict[str, Any] | None = reader.get("storage.k8s.io", "storageclasses", "", name)
    if not found or not found.get("allowVolumeExpansion"):
        raise forbidden(
            attrs,
            "only dynamically provisioned pvc can be resized and the storageclass that "
            "provisions the pvc must support resize",
        )


def _size(obj: dict[str, Any]) -> str | None:
    spec = obj.get("spec") or {}
    size: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return size
