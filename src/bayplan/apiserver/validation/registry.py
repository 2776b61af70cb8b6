"""Runs the strategy of a resource (see the package docstring for the order of calls).

On update the generic metadata checks come first and the kind's own after them, so that one wrong
label can be reported several times: that is upstream's answer too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from bayplan.api.defaults.json_types import Object, keep
from bayplan.api.names import dns1123_subdomain
from bayplan.apiserver.validation import pods
from bayplan.apiserver.validation.by_resource import STRATEGIES
from bayplan.apiserver.validation.causes import Cause
from bayplan.apiserver.validation.configs import validate_namespace_finalize
from bayplan.apiserver.validation.formats import path_segment
from bayplan.apiserver.validation.meta import (
    validate_meta,
    validate_meta_update,
    validate_standard_finalizers,
)
from bayplan.apiserver.validation.pod_strategy import (
    prepare_pod_ephemeral,
    prepare_pod_resize,
    qos_class,
)
from bayplan.apiserver.validation.strategy import Strategy, stamp_phase
from bayplan.apiserver.validation.warnings import (
    claim_warnings,
    name_warning,
    pod_warnings,
    service_warnings,
    volume_warnings,
)

_POD = ("", "pods")
_NAMESPACE = ("", "namespaces")


def prepare_for_create(group: str, resource: str, obj: Object) -> None:
    """Clear and set what a client may not choose on create: status, generation, derived fields."""
    strategy = STRATEGIES.get((group, resource))
    if strategy is None:
        return
    if strategy.new_status is not None:
        obj["status"] = copy.copy(strategy.new_status)
    if strategy.generation:
        obj["metadata"]["generation"] = 1
    if strategy.prepare_create is not None:
        strategy.prepare_create(obj)


def prepare_for_update(
    group: str, resource: str, obj: Object, old: Object, subresource: str = "", now: str = ""
) -> None:
    """Keep of `old` what this path may not write; the generation rises if the spec changed."""
    strategy = STRATEGIES.get((group, resource))
    if strategy is None:
        return
    if subresource == "status":
        _prepare_status(strategy, obj, old, now)
    elif subresource == "approval":
        keep(obj, old, "spec")
        if strategy.prepare_approval is not None:
            strategy.prepare_approval(obj, old)
    elif subresource == "ephemeralcontainers":
        prepare_pod_ephemeral(obj, old)
    elif subresource == "resize":
        prepare_pod_resize(obj, old)
    elif subresource == "finalize":
        keep(obj, old, "status")
    else:
        _prepare_update(strategy, obj, old)


def _prepare_status(strategy: Strategy, obj: Object, old: Object, now: str) -> None:
    keep(obj, old, "spec")
    if strategy.phase_time:
        stamp_phase(obj, old, now)
    if strategy.prepare_status is not None:
        strategy.prepare_status(obj, old)


def _prepare_update(strategy: Strategy, obj: Object, old: Object) -> None:
    keep(obj, old, "status")
    if strategy.prepare_update is not None:
        strategy.prepare_update(obj, old)
    if strategy.generation and strategy.update_generation and _is_newer(obj, old):
        before = old["metadata"].get("generation") or 0
        obj["metadata"]["generation"] = before + 1


def _is_newer(obj: Object, old: Object) -> bool:
    if obj.get("spec") != old.get("spec") or obj.get("template") != old.get("template"):
        return True
    # A Deployment's annotations count as part of what its controller observes.
    if obj.get("kind") != "Deployment":
        return False
    new, before = obj["metadata"].get("annotations"), old["metadata"].get("annotations")
    return (new or {}) != (before or {})


def validate_create(group: str, resource: str, obj: Object) -> list[Cause]:
    """Return every problem of a new object (metadata included)."""
    strategy = STRATEGIES.get((group, resource))
    if strategy is None:
        namespaced = bool(obj["metadata"].get("namespace"))
        return validate_meta(
            obj["metadata"], dns1123_subdomain, namespaced=namespaced, builtin=False
        )
    if (group, resource) == _POD:
        return pods.validate_pod_create(obj)
    causes = strategy.gate(obj) if strategy.gate is not None else []
    if causes:
        return causes
    causes = _validate_object(strategy, obj)
    if not causes and strategy.name is None:
        causes = _generic_meta(strategy, obj)
    return causes


def _validate_object(strategy: Strategy, obj: Object, *, meta: bool = True) -> list[Cause]:
    causes: list[Cause] = []
    if meta and strategy.name is not None:
        causes += validate_meta(
            obj["metadata"],
            strategy.name,
            namespaced=strategy.namespaced,
            builtin=strategy.standard_finalizers,
        )
    if strategy.validate is not None:
        causes += strategy.validate(obj)
    return causes


def _generic_meta(strategy: Strategy, obj: Object) -> list[Cause]:
    return validate_meta(
        obj["metadata"], path_segment, namespaced=strategy.namespaced, builtin=False
    )


def validate_update(
    group: str, resource: str, obj: Object, old: Object, subresource: str = ""
) -> list[Cause]:
    """Return every problem of a changed object: its own, and changes that are not allowed."""
    strategy = STRATEGIES.get((group, resource))
    if strategy is None:
        return validate_meta_update(obj["metadata"], old["metadata"], builtin=False)
    causes = strategy.gate(obj) if strategy.gate is not None and not subresource else []
    if causes:
        return causes
    causes = _generic_meta(strategy, obj)
    changed = validate_meta_update(obj["metadata"], old["metadata"], builtin=False)
    causes += changed
    if (group, resource) == _POD:
        if subresource != "status":
            return causes + _validate_pod_update(obj, old, subresource)
        causes += changed + validate_standard_finalizers(obj["metadata"])
        return causes + pods.validate_pod_status_update(obj, old)
    if strategy.name is not None and (strategy.meta_update or subresource):
        causes += changed  # the real server looks twice, and tells twice
        if strategy.standard_finalizers:
            causes += validate_standard_finalizers(obj["metadata"])
    if subresource == "status":
        return causes + (strategy.status(obj, old) if strategy.status else [])
    if subresource == "finalize" and (group, resource) == _NAMESPACE:
        return causes + validate_namespace_finalize(obj, old)
    own: list[Cause] = []
    if strategy.revalidate:
        own = _validate_object(strategy, obj, meta=strategy.revalidate_meta)
    changes = strategy.update(obj, old) if strategy.update is not None else []
    return causes + (changes + own if strategy.update_first else own + changes)


def _validate_pod_update(obj: Object, old: Object, subresource: str) -> list[Cause]:
    if subresource == "ephemeralcontainers":
        return pods.validate_pod_ephemeral_update(obj, old)
    if subresource == "resize":
        return pods.validate_pod_resize(obj, old, qos_class(obj["spec"]))
    return pods.validate_pod_update(obj, old)


def canonicalize(group: str, resource: str, obj: Object) -> None:
    """Bring a valid object into the stored form (a namespace's name label, for instance)."""
    strategy = STRATEGIES.get((group, resource))
    if strategy is not None and strategy.canonicalize is not None:
        strategy.canonicalize(obj)


def create_on_update(group: str, resource: str) -> bool:
    """Say whether PUT of a missing object creates it (Leases do, Pods answer 404)."""
    strategy = STRATEGIES.get((group, resource))
    return strategy is not None and strategy.create_on_update


def unconditional_update(group: str, resource: str) -> bool:
    """Say whether PUT without resourceVersion is allowed (custom resources demand one)."""
    strategy = STRATEGIES.get((group, resource))
    return strategy is not None and strategy.unconditional


def warnings_on_create(group: str, resource: str, obj: Object) -> list[str]:
    """Return texts for `Warning` headers of a create."""
    name = obj["metadata"].get("name", "")
    if (group, resource) == _POD:
        named = name_warning(name, "the Pod's hostname")
        return named + pod_warnings("", obj["metadata"], obj["spec"])
    if (group, resource) in _NAMED_PODS:
        named = name_warning(name, "Pod names and hostnames")
        return named + _template_warnings(group, resource, obj)
    warn = _WARNINGS.get((group, resource))
    return warn(obj) if warn is not None else _template_warnings(group, resource, obj)


def warnings_on_update(group: str, resource: str, obj: Object, old: Object) -> list[str]:
    """Return texts for `Warning` headers of an update."""
    if (group, resource) in _TEMPLATES:
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
        return _template_warnings(group, resource, obj) if changed else []
    warn = _WARNINGS.get((group, resource))
    return warn(obj) if warn is not None else []


def _template_warnings(group: str, resource: str, obj: Object) -> list[str]:
    path = _TEMPLATES.get((group, resource))
    if path is None:
        return []
    holder: Object = obj
    for part in path:
        holder = holder.get(part) or {}
    return pod_warnings(
        f"{'.'.join(path)}.", holder.get("metadata") or {}, holder.get("spec") or {}
    )


def _claim_warnings(obj: Object) -> list[str]:
    return claim_warnings("spec", obj["spec"])


# Where the pod template stands in the kinds that have one.
_SPEC_TEMPLATE = ("spec", "template")
_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "replicationcontrollers"): _SPEC_TEMPLATE,
    ("apps", "deployments"): _SPEC_TEMPLATE,
    ("apps", "replicasets"): _SPEC_TEMPLATE,
    ("apps", "statefulsets"): _SPEC_TEMPLATE,
    ("apps", "daemonsets"): _SPEC_TEMPLATE,
    ("batch", "jobs"): _SPEC_TEMPLATE,
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
_NAMED_PODS = frozenset(_TEMPLATES) - {("apps", "statefulsets"), ("apps", "daemonsets")}
_WARNINGS: dict[tuple[str, str], Callable[[Object], list[str]]] = {
    ("", "services"): service_warnings,
    ("", "persistentvolumes"): volume_warnings,
    ("", "persistentvolumeclaims"): _claim_warnings,
}
