"""Pods: create, the few allowed changes, and status."""

from __future__ import annotations

import difflib
import json

import msgspec

from bayplan.api.defaults.json_types import Object, keep
from bayplan.api.names import dns1123_subdomain
from bayplan.apiserver.validation.causes import Causes, forbidden, identity, invalid, required
from bayplan.apiserver.validation.containers import validate_image_spaces
from bayplan.apiserver.validation.formats import between
from bayplan.apiserver.validation.meta import validate_meta, validate_meta_update
from bayplan.apiserver.validation.pod_spec import validate_pod_spec
from bayplan.apiserver.validation.pod_status import validate_pod_status
from bayplan.apiserver.validation.scheduling import validate_tolerations

MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_MAX_INT32 = 2**31 - 1
MOST_COMPARED = 1000  # lines of a pod in the message that it may not change so
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` "
        "(allow it to be set to 1 if it was previously negative)",
    )
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod_create(pod: Object) -> Causes:
    causes = _validate_pod(pod)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden("spec.nodeName", text))
    return causes


def _validate_pod(pod: Object) -> Causes:
    """Validate metadata and spec as such, without regard to an older form."""
    meta, spec = pod["metadata"], pod["spec"]
    causes = validate_meta(meta, dns1123_subdomain, namespaced=True)
    annotations = meta.get("annotations")
    if annotations:
        causes += _validate_annotations(annotations, spec)
    mirror = bool(annotations) and MIRROR in annotations
    causes += _validate_spec(spec, meta.get("name", ""), mirror)
    if spec.get("volumes") and not spec.get("serviceAccountName"):
        causes += _forbid_tokens(spec["volumes"])
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            image = container.get("image", "")
            if image[:1].isspace() or image[-1:].isspace():
                causes += validate_image_spaces(f"spec.{kind}[{i}]", container)
    return causes


_KEPT, _LONGEST = 512, 4096
_VALID: dict[bytes, None] = {}  # specs without a fault: pods of one owner have equal ones


def _validate_spec(spec: Object, name: str, mirror: bool) -> Causes:
    """Validate a spec, unless an equal one was found valid before."""
    if spec.get("volumes") or mirror:  # there more matters than the spec alone
        return validate_pod_spec("spec", spec, name, is_pod=True, mirror=mirror)
    form = msgspec.json.encode(spec)
    if form in _VALID:
        return []
    causes = validate_pod_spec("spec", spec, name, is_pod=True)
    if not causes and len(form) <= _LONGEST:
        if len(_VALID) >= _KEPT:
            _VALID.clear()
        _VALID[form] = None
    return causes


def _forbid_tokens(volumes: list[Object]) -> Causes:
    causes: Causes = []
    for i, volume in enumerate(volumes):
        for j, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                path = f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"
                text = "must not be specified when serviceAccountName is not set"
                causes.append(forbidden(path, text))
    return causes


def _validate_annotations(annotations: dict[str, str], spec: Object) -> Causes:
    causes: Causes = []
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        causes.append(invalid(f"metadata.annotations[{MIRROR}]", annotations[MIRROR], text))
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_deletion_cost(cost):
        path = f"metadata.annotations[{_DELETION_COST}]"
        causes.append(invalid(path, cost, "must be a 32bit integer"))
    for key, profile in annotations.items():
        if not key.startswith(_APP_ARMOR):
            continue
        name = key.removeprefix(_APP_ARMOR)
        kinds = ("containers", "initContainers", "ephemeralContainers")
        if not any(c.get("name") == name for kind in kinds for c in spec.get(kind) or ()):
            causes.append(invalid(f"metadata.annotations[{key}]", name, "container not found"))
        if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(
            "localhost/"
        ):
            text = f'invalid AppArmor profile name: "{profile}"'
            causes.append(invalid(f"metadata.annotations[{key}]", profile, text))
    return causes


def _is_deletion_cost(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    if not digits.isdecimal() or not digits.isascii():
        return False
    if len(digits) > 1 and digits.startswith("0"):
        return False
    return -(2**31) <= int(text) <= _MAX_INT32


def _validate_annotation_changes(new: dict[str, str], old: dict[str, str]) -> Causes:
    causes: Causes = []
    for key in (*old, *(key for key in new if key not in old)):
        if new.get(key) == old.get(key):
            continue
        action = "remove or update" if key in old else "add"
        if key.startswith(_APP_ARMOR):
            text = f"may not {action} AppArmor annotations"
        elif key == MIRROR:
            text = f"may not {action} mirror pod annotation"
        else:
            continue
        causes.append(forbidden(f"metadata.annotations[{key}]", text))
    return causes


def validate_pod_update(pod: Object, old: Object) -> Causes:
    """Validate a change of a pod by its main path."""
    causes = validate_meta_update(pod["metadata"], old["metadata"])
    causes += _validate_pod(pod)
    causes += _annotation_update(pod, old)
    spec, before = pod["spec"], old["spec"]
    if spec == before:
        return causes
    for kind in ("containers", "initContainers"):
        new_list, old_list = spec.get(kind) or [], before.get(kind) or []
        if len(new_list) != len(old_list):
            text = "pod updates may not add or remove containers"
            return [*causes, forbidden(f"spec.{kind}", text)]
        for i, container in enumerate(new_list):
            if not container.get("image"):
                causes.append(required(f"spec.{kind}[{i}].image"))
            causes += validate_image_spaces(f"spec.{kind}[{i}]", container)
    found, stop = _validate_deadline(spec, before)
    causes += found
    if stop:
        return causes
    causes += _validate_added_tolerations(spec, before)
    causes += _validate_removed_gates(spec, before)
    return causes + _validate_immutable(spec, before)


def _annotation_update(pod: Object, old: Object) -> Causes:
    new_annotations = pod["metadata"].get("annotations") or {}
    old_annotations = old["metadata"].get("annotations") or {}
    if new_annotations == old_annotations and not new_annotations:
        return []
    causes = _validate_annotation_changes(new_annotations, old_annotations)
    return causes + _validate_annotations(new_annotations, pod["spec"])


def _validate_deadline(spec: Object, before: Object) -> tuple[Causes, bool]:
    field = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None:
        if old is None:
            return [], False
        return [invalid(field, None, "must not update from a positive integer to nil value")], False
    if not 0 <= new <= _MAX_INT32:
        return between(field, new, 0, _MAX_INT32), True
    if old is not None and old < new:
        return [invalid(field, new, "must be less than or equal to previous value")], True
    return [], False


def _validate_added_tolerations(spec: Object, before: Object) -> Causes:
    new, old = spec.get("tolerations") or [], before.get("tolerations") or []
    if new == old:
        return []

    def bare(toleration: Object) -> object:
        return identity({k: v for k, v in toleration.items() if k != "tolerationSeconds"})

    kept = {bare(toleration) for toleration in new}
    if any(bare(toleration) not in kept for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", text)]
    return validate_tolerations("spec.tolerations", new)


def _validate_removed_gates(spec: Object, before: Object) -> Causes:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    added = {
        gate.get("name"): i
        for i, gate in enumerate(spec.get("schedulingGates") or ())
        if gate.get("name") not in known
    }
    return [
        forbidden(
            f"spec.schedulingGates[{i}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name, i in added.items()
    ]


def _validate_immutable(spec: Object, before: Object) -> Causes:
    """Compare with the old spec after setting aside what may change."""
    munged = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in spec:
            munged[kind] = [
                {**new, "image": old.get("image")}
                for new, old in zip(spec[kind], before[kind], strict=True)
            ]
    keep(munged, before, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    grace = "terminationGracePeriodSeconds"
    if before.get(grace, 0) < 0 and munged.get(grace) == 1:
        keep(munged, before, grace)
    causes: Causes = []
    if before.get("schedulingGates"):
        causes += _validate_gated(munged, before)
    if munged != before:
        text = f"pod updates may not change fields other than {_UPDATABLE}\n"
        causes.append(forbidden("spec", text + json_diff(before, munged)))
    return causes


def _validate_gated(munged: Object, before: Object) -> Causes:
    """A pod that waits behind gates may be steered to fewer nodes."""
    causes: Causes = []
    new, old = munged.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in old.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.append(invalid("spec.nodeSelector", new, text))
    keep(munged, before, "nodeSelector")
    new_affinity = (munged.get("affinity") or {}).get("nodeAffinity")
    old_affinity = (before.get("affinity") or {}).get("nodeAffinity")
    if new_affinity == old_affinity:
        return causes
    causes += _validate_narrowed(new_affinity or {}, old_affinity or {})
    affinity = dict(munged.get("affinity") or {})
    keep(affinity, before.get("affinity") or {}, "nodeAffinity")
    if affinity or "affinity" in before:
        munged["affinity"] = affinity
    else:
        munged.pop("affinity", None)
    return causes


def _validate_narrowed(new: Object, old: Object) -> Causes:
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old_terms = (old.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    new_terms = (new.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if not old_terms:
        return []
    if len(old_terms) != len(new_terms):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(field, new_terms, text)]
    causes: Causes = []
    for i, (new_term, old_term) in enumerate(zip(new_terms, old_terms, strict=True)):
        if not _only_additions(new_term, old_term):
            text = "only additions are allowed (no mutations or deletions)"
            causes.append(invalid(f"{field}[{i}]", new_term, text))
    return causes


def _only_additions(new: Object, old: Object) -> bool:
    if not old.get("matchExpressions") and not old.get("matchFields"):
        return not new.get("matchExpressions") and not new.get("matchFields")
    for kind in ("matchExpressions", "matchFields"):
        old_list = old.get(kind) or []
        if (new.get(kind) or [])[: len(old_list)] != old_list:
            return False
    return True


def json_diff(old: object, new: object) -> str:
    """Return a unified diff of two objects as indented JSON, without file names.

    Of long objects only the first lines that differ are compared: diffing takes the square.
    """
    before = json.dumps(old, indent=1, sort_keys=True).splitlines(keepends=True)
    after = json.dumps(new, indent=1, sort_keys=True).splitlines(keepends=True)
    if len(before) + len(after) > MOST_COMPARED:
        pairs = enumerate(zip(before, after, strict=False))
        same = next((i for i, (one, other) in pairs if one != other), 0)
        shown = slice(max(same - 3, 0), same + MOST_COMPARED // 2)
        before, after = before[shown], after[shown]
    return "".join(list(difflib.unified_diff(before, after))[2:])


def validate_pod_status_update(pod: Object, old: Object) -> Causes:
    """Validate a write through `pods/status`, but for the metadata that every kind has."""
    return _annotation_update(pod, old) + validate_pod_status(pod, old)


def validate_pod_ephemeral_update(pod: Object, old: Object) -> Causes:
    """Validate a write through `pods/ephemeralcontainers`."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods do not support ephemeral containers")]
    causes = validate_meta_update(pod["metadata"], old["metadata"]) + _validate_pod(pod)
    by_name = {c.get("name"): c for c in pod["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name")
        text = f'existing ephemeral containers "{name}" may not be '
        if name not in by_name:
            causes.append(forbidden("spec.ephemeralContainers", f"{text}removed\n"))
        elif by_name[name] != container:
            diff = json_diff(container, by_name[name])
            causes.append(forbidden("spec.ephemeralContainers", f"{text}changed\n{diff}"))
    return causes


def validate_pod_resize(pod: Object, old: Object, qos_class: str) -> Causes:
    """Validate a write through `pods/resize`; `qos_class` is that of the new spec."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    causes = validate_meta_update(pod["metadata"], old["metadata"]) + _validate_pod(pod)
    if (old.get("status") or {}).get("qosClass") != qos_class:
        text = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid("spec", (pod.get("status") or {}).get("qosClass", ""), text))
    for kind in ("initContainers", "containers"):
        new_list, old_list = pod["spec"].get(kind) or [], old["spec"].get(kind) or []
        if [c.get("name") for c in new_list] != [c.get("name") for c in old_list]:
            text = "containers may not be added or removed on resize"
            return [*causes, forbidden(f"spec.{kind}", text)]
        for i, (new, before) in enumerate(zip(new_list, old_list, strict=True)):
            causes += _validate_container_resize(f"spec.{kind}[{i}].resources", new, before)
    return causes


def _validate_container_resize(field: str, new: Object, old: Object) -> Causes:
    causes: Causes = []
    for kind in ("limits", "requests"):
        after = (new.get("resources") or {}).get(kind) or {}
        before = (old.get("resources") or {}).get(kind) or {}
        if any(name in before and name not in after for name in ("cpu", "memory")):
            causes.append(forbidden(f"{field}.{kind}", f"resource {kind} cannot be removed"))
        for name in {*after, *before} - {"cpu", "memory"}:
            if after.get(name) != before.get(name):
                causes.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return causes
