"""Defaults of what makes pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, RC."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.defaults.pod_spec import default_pod_spec
from bayplan.api.defaults.volumes import default_claim_spec

_ROLLING = "RollingUpdate"
_MAX_INT32 = 2**31 - 1


def _absent(spec: Object, field: str, value: object) -> None:
    """Set a field that Go keeps as a pointer: only null and absent count as empty."""
    if spec.get(field) is None:
        spec[field] = value


def default_template(spec: Object) -> None:
    """Write the defaults of `spec.template` of a workload."""
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_template(obj: Object) -> None:
    default_template(obj)


def default_deployment(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    _absent(spec, "replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
    if strategy["type"] == _ROLLING:
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            rolling = strategy["rollingUpdate"] = {}
        _absent(rolling, "maxUnavailable", "25%")
        _absent(rolling, "maxSurge", "25%")
    _absent(spec, "revisionHistoryLimit", 10)
    _absent(spec, "progressDeadlineSeconds", 600)
    obj.setdefault("status", {})


def default_daemon_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
    if strategy["type"] == _ROLLING:
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            rolling = strategy["rollingUpdate"] = {}
        _absent(rolling, "maxUnavailable", 1)
        _absent(rolling, "maxSurge", 0)
    _absent(spec, "revisionHistoryLimit", 10)


def default_stateful_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
        if strategy.get("rollingUpdate") is None:
            strategy["rollingUpdate"] = {}
    if strategy["type"] == _ROLLING and strategy.get("rollingUpdate") is not None:
        _absent(strategy["rollingUpdate"], "partition", 0)
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is None:
        retention = spec["persistentVolumeClaimRetentionPolicy"] = {}
    for moment in ("whenDeleted", "whenScaled"):
        if not retention.get(moment):
            retention[moment] = "Retain"
    _absent(spec, "replicas", 1)
    _absent(spec, "revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        default_claim_spec(claim.setdefault("spec", {}))
        status = claim.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"


def default_replica_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    _absent(spec, "replicas", 1)


def default_replication_controller(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("template") is not None:
        default_template(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            metadata = obj.setdefault("metadata", {})
            if not metadata.get("labels"):
                metadata["labels"] = dict(labels)
    _absent(spec, "replicas", 1)


def default_job_spec(spec: Object) -> None:
    """Write the defaults of a job's spec; a CronJob's template gets only those of the pod spec."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _absent(spec, "parallelism", 1)
    _absent(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32)
    _absent(spec, "completionMode", "NonIndexed")
    _absent(spec, "suspend", False)
    failure_policy = spec.get("podFailurePolicy")
    _absent(
        spec, "podReplacementPolicy", "TerminatingOrFailed" if failure_policy is None else "Failed"
    )
    _absent(spec, "manualSelector", False)


def _default_failure_policy(spec: Object) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def default_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    default_job_spec(spec)
    _default_failure_policy(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        # The same map on purpose: labels that the server generates for the template show up here.
        metadata["labels"] = labels


def default_cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    _absent(spec, "suspend", False)
    _absent(spec, "successfulJobsHistoryLimit", 3)
    _absent(spec, "failedJobsHistoryLimit", 1)
    job = spec.setdefault("jobTemplate", {})
    job.setdefault("metadata", {})
    job_spec = job.setdefault("spec", {})
    default_template(job_spec)
    _default_failure_policy(job_spec)
