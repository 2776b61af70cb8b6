"""Validation of `metadata`, for every kind.

The name's format depends on the kind and is a parameter. Built-in kinds demand that a finalizer
without a domain is a standard one; custom resources do not.
"""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import Checker, dns1123_label, masked, qualified_name
from bayplan.apiserver.validation.causes import (
    NOT_NEGATIVE,
    Causes,
    forbidden,
    immutable,
    invalid,
    required,
)
from bayplan.apiserver.validation.formats import check
from bayplan.apiserver.validation.labels import validate_annotations, validate_labels

_LASTING = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def validate_meta(
    meta: Object, name_checker: Checker, *, namespaced: bool, builtin: bool = True
) -> Causes:
    """Return every problem of a new object's metadata."""
    causes: Causes = []
    if meta.get("generateName"):
        prefix = meta["generateName"]
        for problem in name_checker(masked(prefix)):
            causes.append(invalid("metadata.generateName", prefix, problem))
    name = meta.get("name")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        problems = name_checker(name)
        if problems:
            causes += [invalid("metadata.name", name, problem) for problem in problems]
    causes += _validate_namespace(meta.get("namespace"), namespaced)
    causes += _validate_common(meta)
    if meta.get("finalizers"):
        causes += _validate_finalizers(meta["finalizers"])
        if builtin:
            causes += validate_standard_finalizers(meta)
    return causes


def _validate_namespace(namespace: str | None, namespaced: bool) -> Causes:
    if not namespaced:
        text = "not allowed on this type"
        return [forbidden("metadata.namespace", text)] if namespace else []
    if not namespace:
        return [required("metadata.namespace")]
    return check("metadata.namespace", namespace, dns1123_label)


def _validate_common(meta: Object) -> Causes:
    causes: Causes = []
    generation = meta.get("generation")
    if generation and generation < 0:
        causes.append(invalid("metadata.generation", generation, NOT_NEGATIVE))
    if meta.get("labels"):
        causes += validate_labels("metadata.labels", meta["labels"])
    if meta.get("annotations"):
        causes += validate_annotations("metadata.annotations", meta["annotations"])
    if meta.get("ownerReferences"):
        causes += _validate_owners(meta["ownerReferences"])
    return causes


def _validate_owners(owners: list[Object]) -> Causes:
    causes: Causes = []
    field = "metadata.ownerReferences"
    controller = ""
    for owner in owners:
        api_version = owner.get("apiVersion", "")
        if not api_version.rpartition("/")[2]:
            causes.append(invalid(f"{field}.apiVersion", api_version, "version must not be empty"))
        for part in ("kind", "name", "uid"):
            if not owner.get(part):
                causes.append(invalid(f"{field}.{part}", "", "must not be empty"))
        if api_version == "v1" and owner.get("kind") == "Event":
            text = "/v1, Kind=Event is disallowed from being an owner"
            causes.append(invalid(field, owner, text))
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                text = "Only one reference can have Controller set to true. "
                text += f'Found "true" in references for {controller} and {this}'
                causes.append(invalid(field, owners, text))
            else:
                controller = this
    return causes


def _validate_finalizers(finalizers: list[str]) -> Causes:
    causes: Causes = []
    for finalizer in finalizers:
        causes += check("metadata.finalizers", finalizer, qualified_name)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid("metadata.finalizers", finalizers, text))
    return causes


def validate_standard_finalizers(meta: Object) -> Causes:
    """Return finalizers that only custom resources may have."""
    causes: Causes = []
    for i, finalizer in enumerate(meta.get("finalizers") or ()):
        causes += standard_finalizer(f"metadata.finalizers[{i}]", finalizer)
    return causes


def standard_finalizer(field: str, finalizer: str) -> Causes:
    """Demand that a finalizer without a domain is one of Kubernetes' own."""
    if "/" in finalizer or finalizer in _STANDARD_FINALIZERS:
        return []
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid(field, finalizer, text)]


def validate_meta_update(meta: Object, old: Object, *, builtin: bool = True) -> Causes:
    """Return every problem of changed metadata (the name's format was checked on create)."""
    causes: Causes = []
    finalizers = meta.get("finalizers") or []
    if old.get("deletionTimestamp") and finalizers:
        extra = sorted(set(finalizers) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(f'"{name}"' for name in extra)
            text = "no new finalizers can be added if the object is being deleted, "
            text += f"found new finalizers []string{{{listed}}}"
            causes.append(forbidden("metadata.finalizers", text))
    generation = meta.get("generation") or 0
    if generation < (old.get("generation") or 0):
        causes.append(invalid("metadata.generation", generation, "must not be decremented"))
    for part in _LASTING:
        if meta.get(part) != old.get(part):
            causes += immutable(f"metadata.{part}", meta.get(part), old.get(part))
    causes += _validate_common(meta)
    return causes + (validate_standard_finalizers(meta) if builtin else [])
