"""The spec of a PersistentVolumeClaim, alone or as a template."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_subdomain
from bayplan.apiserver.validation.causes import (
    POSITIVE,
    Causes,
    allowed,
    forbidden,
    invalid,
    missing,
    not_supported,
    required,
)
from bayplan.apiserver.validation.formats import check
from bayplan.apiserver.validation.labels import (
    validate_annotations,
    validate_label_selector,
    validate_labels,
)

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def validate_access_modes(field: str, modes: list[str]) -> Causes:
    causes: Causes = [
        not_supported(field, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES
    ]
    known = [mode for mode in modes if mode in ACCESS_MODES]
    if "ReadWriteOncePod" in known and any(mode != "ReadWriteOncePod" for mode in known):
        causes.append(forbidden(field, "may not use ReadWriteOncePod with other access modes"))
    return causes


def validate_claim_spec(field: str, spec: Object, *, check_group: bool = True) -> Causes:
    """Validate a claim; `check_group` is false where an older form may have a wrong one."""
    causes: Causes = []
    modes = spec.get("accessModes")
    if not modes:
        causes.append(required(f"{field}.accessModes", "at least 1 access mode is required"))
    causes += validate_label_selector(f"{field}.selector", spec.get("selector"))
    causes += validate_access_modes(f"{field}.accessModes", modes or [])
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        causes.append(required(f"{field}.resources[storage]"))
    else:
        path = f"{field}.resources[storage]"
        if quantity.nanos(size) <= 0:
            causes.append(invalid(path, size, POSITIVE))
    class_name = spec.get("storageClassName")
    if class_name:
        causes += check(f"{field}.storageClassName", class_name, dns1123_subdomain)
    mode = spec.get("volumeMode")
    causes += allowed(f"{field}.volumeMode", mode, VOLUME_MODES)
    causes += _validate_data_sources(field, spec, check_group)
    attributes = spec.get("volumeAttributesClassName")
    if attributes:
        causes += check(f"{field}.volumeAttributesClassName", attributes, dns1123_subdomain)
    return causes


def _validate_data_sources(field: str, spec: Object, check_group: bool) -> Causes:
    causes: Causes = []
    for name in ("dataSource", "dataSourceRef"):
        source = spec.get(name)
        if source is None:
            continue
        path = f"{field}.{name}"
        causes += missing(path, source, "name", "kind")
        group, kind = source.get("apiGroup") or "", source.get("kind", "")
        if not group and kind != "PersistentVolumeClaim":
            text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            causes.append(invalid(path, kind, text))
        if group and check_group:
            causes += check(f"{path}.apiGroup", group, dns1123_subdomain)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is not None:
        same = all(source.get(part) == reference.get(part) for part in ("apiGroup", "kind", "name"))
        if not same:
            causes.append(invalid(field, f"{field}.dataSource", "must match dataSourceRef"))
    return causes


def validate_claim_template(field: str, template: Object) -> Causes:
    """Validate a template of which only labels, annotations and spec are used."""
    causes = validate_template_meta(f"{field}.metadata", template.get("metadata") or {})
    return causes + validate_claim_spec(f"{field}.spec", template.get("spec") or {})


def validate_template_meta(field: str, meta: Object) -> Causes:
    """Validate metadata of which only labels and annotations are copied."""
    causes = validate_annotations(f"{field}.annotations", meta.get("annotations"))
    causes += validate_labels(f"{field}.labels", meta.get("labels"))
    for name in meta:
        if name not in ("annotations", "labels", "creationTimestamp"):
            causes.append(forbidden(f"{field}.{name}", "cannot be set"))
    return causes
