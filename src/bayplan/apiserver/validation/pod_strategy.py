"""What the server writes into pods: phase, QoS class, gate condition, generation, selectors.

All of it depends only on the pod itself (and, on update, on its older form).
"""

from __future__ import annotations

from collections import deque

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object, keep

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_QOS = ("cpu", "memory")


def qos_class(spec: Object) -> str:
    """Return BestEffort, Burstable or Guaranteed."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    if spec.get("resources") is not None:
        holders = [spec["resources"]]
        checked = bool(spec["resources"].get("limits"))
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        holders = [container.get("resources") or {} for container in containers]
        checked = True
    for resources in holders:
        _add_positive(requests, resources.get("requests"))
        found = _add_positive(limits, resources.get("limits"))
        if checked and len(found) < len(_QOS):
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _add_positive(totals: dict[str, int], resources: dict[str, str] | None) -> list[str]:
    found: list[str] = []
    if resources:
        for name in _QOS:
            value = resources.get(name)
            if value is not None and (nanos := quantity.nanos(value)) > 0:
                totals[name] = totals.get(name, 0) + nanos
                found.append(name)
    return found


def prepare_pod_create(pod: Object) -> None:
    spec = pod["spec"]
    pod["metadata"]["generation"] = 1
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        condition: Object = {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [condition]
    pod["status"] = status
    labels = pod["metadata"].get("labels") or {}
    if spec.get("affinity"):
        _merge_affinity_keys(spec["affinity"], labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        selector = constraint.get("labelSelector")
        if selector is not None:
            _merge_keys(selector, constraint.get("matchLabelKeys"), "In", labels)


def _merge_affinity_keys(affinity: Object, labels: dict[str, str]) -> None:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        weighted = [w.get("podAffinityTerm") or {} for w in terms.get(_PREFERRED) or ()]
        for term in [*weighted, *(terms.get(_REQUIRED) or ())]:
            selector = term.get("labelSelector")
            if selector is not None:
                _merge_keys(selector, term.get("matchLabelKeys"), "In", labels)
                _merge_keys(selector, term.get("mismatchLabelKeys"), "NotIn", labels)


def _merge_keys(
    selector: Object, keys: list[str] | None, operator: str, labels: dict[str, str]
) -> None:
    for key in keys or ():
        if key in labels:
            expression = {"key": key, "operator": operator, "values": [labels[key]]}
            selector.setdefault("matchExpressions", []).append(expression)


def prepare_pod_update(pod: Object, old: Object) -> None:
    pod["status"] = old.get("status", {})
    if pod["spec"] != old["spec"]:
        metadata = pod["metadata"]
        metadata["generation"] = (metadata.get("generation") or 0) + 1


def prepare_pod_status(pod: Object, old: Object) -> None:
    pod["spec"] = old["spec"]
    keep(pod["metadata"], old["metadata"], "deletionTimestamp", "ownerReferences")
    status, was = pod.setdefault("status", {}), old.get("status") or {}
    for name in ("qosClass", "observedGeneration"):
        if not status.get(name) and was.get(name):
            status[name] = was[name]
    generations: dict[str, deque[int]] = {}
    for condition in was.get("conditions") or ():
        known = generations.setdefault(condition.get("type", ""), deque())
        known.append(condition.get("observedGeneration") or 0)
    for condition in status.get("conditions") or ():
        known = generations.get(condition.get("type", ""), deque())
        generation = known.popleft() if known else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def prepare_pod_ephemeral(pod: Object, old: Object) -> None:
    """Keep everything but the ephemeral containers."""
    added = pod["spec"].get("ephemeralContainers")
    pod["spec"] = dict(old["spec"])
    if added:
        pod["spec"]["ephemeralContainers"] = added
    else:
        pod["spec"].pop("ephemeralContainers", None)
    prepare_pod_update(pod, old)


def prepare_pod_resize(pod: Object, old: Object) -> None:
    """Keep everything but the resources of containers."""
    spec = dict(old["spec"])
    for kind in ("containers", "initContainers"):
        new_list, old_list = pod["spec"].get(kind) or [], spec.get(kind) or []
        if [c.get("name") for c in new_list] != [c.get("name") for c in old_list]:
            spec[kind] = new_list
            continue
        if old_list:
            spec[kind] = [_resized(new, was) for new, was in zip(new_list, old_list, strict=True)]
    if "resources" in pod["spec"]:
        spec["resources"] = pod["spec"]["resources"]
    pod["spec"] = spec
    prepare_pod_update(pod, old)


def _resized(new: Object, old: Object) -> Object:
    out = dict(old)
    keep(out, new, "resources", "resizePolicy")
    return out
