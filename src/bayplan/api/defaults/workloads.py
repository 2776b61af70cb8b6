"""Defaults of what makes pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, RC."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object, absent, empty, struct
from bayplan.api.defaults.pod_spec import default_pod_spec
from bayplan.api.defaults.volumes import default_claim_spec

_ROLLING = "RollingUpdate"
_MAX_INT32 = 2**31 - 1


def default_template(spec: Object) -> None:
    """Write the defaults of the template of a workload's spec, or of a PodTemplate."""
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_deployment(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    _default_rolling(spec.setdefault("strategy", {}), maxUnavailable="25%", maxSurge="25%")
    absent(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    obj.setdefault("status", {})


def default_daemon_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    _default_rolling(spec.setdefault("updateStrategy", {}), maxUnavailable=1, maxSurge=0)
    absent(spec, revisionHistoryLimit=10)


def _default_rolling(strategy: Object, **values: object) -> None:
    empty(strategy, type=_ROLLING)
    if strategy["type"] == _ROLLING:
        absent(struct(strategy, "rollingUpdate"), **values)


def default_stateful_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    empty(spec, podManagementPolicy="OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
        struct(strategy, "rollingUpdate")
    if strategy["type"] == _ROLLING and strategy.get("rollingUpdate") is not None:
        absent(strategy["rollingUpdate"], partition=0, maxUnavailable=1)
    retention = struct(spec, "persistentVolumeClaimRetentionPolicy")
    empty(retention, whenDeleted="Retain", whenScaled="Retain")
    absent(spec, replicas=1, revisionHistoryLimit=10)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        default_claim_spec(claim.setdefault("spec", {}))
        empty(claim.setdefault("status", {}), phase="Pending")


def default_replica_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    absent(spec, replicas=1)


def default_replication_controller(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("template") is not None:
        default_template(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels:
            empty(spec, selector=dict(labels))
            empty(obj.setdefault("metadata", {}), labels=dict(labels))
    absent(spec, replicas=1)


def _default_job_spec(spec: Object) -> None:
    """Write the defaults of a job's spec; a CronJob's template gets only those of the pod spec."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    by_index, judged = spec.get("backoffLimitPerIndex"), spec.get("podFailurePolicy")
    absent(spec, backoffLimit=6 if by_index is None else _MAX_INT32)
    absent(spec, podReplacementPolicy="TerminatingOrFailed" if judged is None else "Failed")
    absent(spec, parallelism=1, completionMode="NonIndexed", suspend=False, manualSelector=False)


def _default_failure_policy(spec: Object) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            empty(pattern, status="True")


def default_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec)
    _default_job_spec(spec)
    _default_failure_policy(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        # The same map on purpose: labels that the server generates for the template show up here.
        metadata["labels"] = labels


def default_cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    empty(spec, concurrencyPolicy="Allow")
    absent(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = spec.setdefault("jobTemplate", {})
    job.setdefault("metadata", {})
    job_spec = job.setdefault("spec", {})
    default_template(job_spec)
    _default_failure_policy(job_spec)
