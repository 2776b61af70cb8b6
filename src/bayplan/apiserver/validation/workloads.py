"""Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, ControllerRevision."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label
from bayplan.apiserver.validation.causes import (
    Causes,
    forbidden,
    immutable,
    invalid,
    known,
    non_negative,
    not_supported,
    required,
)
from bayplan.apiserver.validation.claims import validate_claim_spec
from bayplan.apiserver.validation.formats import check
from bayplan.apiserver.validation.labels import (
    is_empty_selector,
    selector_matches,
    validate_annotations,
    validate_label_selector,
    validate_labels,
)
from bayplan.apiserver.validation.templates import (
    at_most_100_percent,
    int_or_percent,
    is_usable,
    number_of,
    template_labels,
    validate_counts,
    validate_not_above_replicas,
    validate_running_template,
    validate_selector,
    validate_template,
)

_TEMPLATE = "spec.template"


def validate_deployment(obj: Object) -> Causes:
    spec = obj["spec"]
    causes = non_negative("spec.replicas", spec.get("replicas"))
    causes += validate_selector(spec, "deployment")
    if is_usable(spec.get("selector")):
        causes += validate_template(_TEMPLATE, spec["template"])
        causes += validate_running_template(spec["template"], "ReplicaSet")
    causes += _validate_deployment_strategy(spec.get("strategy") or {})
    causes += validate_counts("spec", spec, ("minReadySeconds", "revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        causes += non_negative("spec.progressDeadlineSeconds", deadline)
        if deadline <= spec.get("minReadySeconds", 0):
            text = "must be greater than minReadySeconds"
            causes.append(invalid("spec.progressDeadlineSeconds", deadline, text))
    return causes


def _validate_deployment_strategy(strategy: Object) -> Causes:
    field, kind, rolling = "spec.strategy", strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{field}.rollingUpdate", text)]
    if kind != "RollingUpdate":
        return [not_supported(field, strategy, ("Recreate", "RollingUpdate"))]
    path, rolling = f"{field}.rollingUpdate", rolling or {}
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = int_or_percent(f"{path}.maxUnavailable", unavailable)
    causes += int_or_percent(f"{path}.maxSurge", surge)
    if number_of(unavailable) == 0 and number_of(surge) == 0:
        text = "may not be 0 when `maxSurge` is 0"
        causes.append(invalid(f"{path}.maxUnavailable", unavailable, text))
    return causes + at_most_100_percent(f"{path}.maxUnavailable", unavailable)


def validate_deployment_status(obj: Object, old: Object) -> Causes:
    status = obj.get("status") or {}
    counts = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "collisionCount",
    )
    causes = validate_counts("status", status, counts)
    bounded = ("updatedReplicas", "readyReplicas", "availableReplicas")
    causes += validate_not_above_replicas(status, bounded)
    return causes + _available_at_most_ready(status) + _collision_count(status, old)


def _available_at_most_ready(status: Object, text: str = "readyReplicas") -> Causes:
    available = status.get("availableReplicas", 0)
    if available <= status.get("readyReplicas", 0):
        return []
    return [invalid("status.availableReplicas", available, f"cannot be greater than {text}")]


def _collision_count(status: Object, old: Object) -> Causes:
    new, before = status.get("collisionCount"), (old.get("status") or {}).get("collisionCount")
    if before is None or (new is not None and new >= before):
        return []
    return [invalid("status.collisionCount", new or 0, "cannot be decremented")]


def validate_replica_set(obj: Object) -> Causes:
    spec = obj["spec"]
    causes = validate_counts("spec", spec, ("replicas", "minReadySeconds"))
    causes += validate_selector(spec, "deployment")
    if is_usable(spec.get("selector")):
        causes += validate_template(_TEMPLATE, spec["template"])
        causes += validate_running_template(spec["template"], "ReplicaSet")
    return causes


def validate_replica_set_status(obj: Object, old: Object) -> Causes:
    status = obj.get("status") or {}
    bounded = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    causes = validate_counts("status", status, ("replicas", *bounded, "observedGeneration"))
    causes += validate_not_above_replicas(status, bounded)
    return causes + _available_at_most_ready(status)


def validate_replication_controller(obj: Object) -> Causes:
    spec = obj["spec"]
    causes = validate_counts("spec", spec, ("minReadySeconds",))
    selector = spec.get("selector")
    if not selector:
        causes.append(required("spec.selector"))
    causes += non_negative("spec.replicas", spec.get("replicas"))
    template = spec.get("template")
    if template is None:
        return [*causes, required(_TEMPLATE)]
    labels = template_labels(template)
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        text = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, text))
    causes += validate_template(_TEMPLATE, template)
    return causes + validate_running_template(template, "ReplicationController")


def validate_daemon_set(obj: Object) -> Causes:
    spec = obj["spec"]
    selector, labels = spec.get("selector"), template_labels(spec["template"])
    causes = validate_label_selector("spec.selector", selector)
    # A missing selector matches nothing; an empty one everything, but is refused.
    if not causes and (selector is None or not selector_matches(selector, labels)):
        text = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, text))
    if selector is not None and is_empty_selector(selector):
        text = "empty selector is invalid for daemonset"
        causes.append(invalid("spec.selector", selector, text))
    causes += validate_template(_TEMPLATE, spec["template"])
    causes += validate_running_template(spec["template"], "DaemonSet")
    causes += validate_counts("spec", spec, ("minReadySeconds", "revisionHistoryLimit"))
    return causes + _validate_daemon_strategy(spec.get("updateStrategy") or {})


def _validate_daemon_strategy(strategy: Object) -> Causes:
    field, kind = "spec.updateStrategy", strategy.get("type")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(field, strategy, ("RollingUpdate", "OnDelete"))]
    rolling, path = strategy["rollingUpdate"], f"{field}.rollingUpdate"
    causes: Causes = []
    for name in ("maxUnavailable", "maxSurge"):
        causes += int_or_percent(f"{path}.{name}", rolling.get(name, 0))
        causes += at_most_100_percent(f"{path}.{name}", rolling.get(name, 0))
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    if number_of(unavailable) and number_of(surge):
        text = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid(f"{path}.maxSurge", surge, text))
    elif not number_of(unavailable) and not number_of(surge):
        causes.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def validate_daemon_set_status(obj: Object, old: Object) -> Causes:
    status = obj.get("status") or {}
    counts = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    )
    return validate_counts("status", status, counts) + _collision_count(status, old)


def validate_stateful_set(obj: Object) -> Causes:
    return _validate_stateful_set(obj, create=True)


def _validate_stateful_set(obj: Object, *, create: bool) -> Causes:
    spec = obj["spec"]
    causes: Causes = []
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        causes.append(invalid("spec.podManagementPolicy", policy, text))
    causes += _validate_stateful_strategy(spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for moment in ("whenDeleted", "whenScaled"):
        path = f"spec.persistentVolumeClaimRetentionPolicy.{moment}"
        causes += known(path, retention.get(moment), ("Retain", "Delete"))
    templates = spec.get("volumeClaimTemplates") or []
    if create:
        for i, claim in enumerate(templates):
            causes += validate_claim_spec(f"spec.volumeClaimTemplates[{i}].spec", claim["spec"])
    causes += validate_counts("spec", spec, ("replicas", "minReadySeconds"))
    start = (spec.get("ordinals") or {}).get("start")
    causes += non_negative("spec.ordinals.start", start)
    if create and spec.get("serviceName"):
        causes += check("spec.serviceName", spec["serviceName"], dns1123_label)
    causes += validate_selector(spec, "statefulset", "")
    if is_usable(spec.get("selector")):
        causes += _validate_stateful_template(spec, templates)
    return causes + validate_running_template(spec["template"], "StatefulSet")


def _validate_stateful_template(spec: Object, templates: list[Object]) -> Causes:
    """Validate the template as the controller completes it: claims become volumes."""
    template = spec["template"]
    pod_spec = dict(template.get("spec") or {})
    pod_spec.pop("subdomain", None)
    pod_spec.pop("hostname", None)
    names = dict.fromkeys(claim.get("metadata", {}).get("name", "") for claim in templates)
    if names:
        claimed = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in names]
        kept = [v for v in pod_spec.get("volumes") or () if v.get("name") not in names]
        pod_spec["volumes"] = [*claimed, *kept]
    meta = template.get("metadata") or {}
    causes = validate_template(_TEMPLATE, {"metadata": meta, "spec": pod_spec})
    causes += validate_labels(f"{_TEMPLATE}.labels", meta.get("labels"))
    return causes + validate_annotations(f"{_TEMPLATE}.annotations", meta.get("annotations"))


def _validate_stateful_strategy(strategy: Object) -> Causes:
    field, kind, rolling = (
        "spec.updateStrategy",
        strategy.get("type"),
        strategy.get("rollingUpdate"),
    )
    if kind == "OnDelete":
        if rolling is None:
            return []
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid(f"{field}.rollingUpdate", rolling, text)]
    if kind != "RollingUpdate":
        return [invalid(field, strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    path = f"{field}.rollingUpdate"
    causes = non_negative(f"{path}.partition", rolling.get("partition"))
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        causes += int_or_percent(f"{path}.maxUnavailable", unavailable)
        if number_of(unavailable) == 0:
            causes.append(invalid(f"{path}.maxUnavailable", unavailable, "cannot be 0"))
        causes += at_most_100_percent(f"{path}.maxUnavailable", unavailable)
    return causes


_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def validate_stateful_set_update(obj: Object, old: Object) -> Causes:
    causes = _validate_stateful_set(obj, create=False)
    new_spec = {k: v for k, v in obj["spec"].items() if k not in _STATEFUL_MUTABLE}
    old_spec = {k: v for k, v in old["spec"].items() if k not in _STATEFUL_MUTABLE}
    if new_spec != old_spec:
        listed = "', '".join(_STATEFUL_MUTABLE[:-1])
        text = f"updates to statefulset spec for fields other than '{listed}' and "
        causes.append(forbidden("spec", f"{text}'minReadySeconds' are forbidden"))
    return causes


def validate_stateful_set_status(obj: Object, old: Object) -> Causes:
    status = obj.get("status") or {}
    bounded = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    counts = ("replicas", *bounded, "observedGeneration", "collisionCount")
    causes = validate_counts("status", status, counts)
    causes += validate_not_above_replicas(status, bounded)
    causes += _available_at_most_ready(status, "status.readyReplicas")
    return causes + _collision_count(status, old)


def validate_controller_revision(obj: Object) -> Causes:
    causes = non_negative("revision", obj.get("revision"))
    data = obj.get("data")
    if data is None:
        causes.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        causes.append(required("data", "data must be a valid JSON object"))
    return causes


def validate_controller_revision_update(obj: Object, old: Object) -> Causes:
    return non_negative("revision", obj.get("revision")) + immutable(
        "data", obj.get("data"), old.get("data")
    )


def validate_pod_template(obj: Object) -> Causes:
    return validate_template("template", obj.get("template") or {})
