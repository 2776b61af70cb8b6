"""Tables of the kinds that own pods, and of the budgets that protect them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bayplan.apiserver.tables.text import (
    NONE,
    age,
    boolean,
    containers,
    human_duration,
    labels,
    moment,
    selector,
    selector_or_none,
    since,
)

Object = Mapping[str, Any]


def _parts(obj: Object) -> tuple[str, Object, Object]:
    return obj["metadata"]["name"], obj.get("spec") or {}, obj.get("status") or {}


def deployment(obj: Object, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [
        name,
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *containers(spec.get("template")),
        selector(spec.get("selector")),
    ]


def replica_set(obj: Object, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [
        name,
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *containers(spec.get("template")),
        selector_or_none(spec.get("selector")),
    ]


def replication_controller(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    return [
        *replica_set({**obj, "spec": {**spec, "selector": None}}, now)[:-1],
        labels(spec.get("selector")),
    ]


def stateful_set(obj: Object, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name, ready, age(obj, now), *containers(spec.get("template"))]


def daemon_set(obj: Object, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    return [
        name,
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels(pod_spec.get("nodeSelector")),
        age(obj, now),
        *containers(spec.get("template")),
        selector_or_none(spec.get("selector")),
    ]


def job(obj: Object, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    done = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    elif spec.get("parallelism", 0) > 1:
        completions = f"{done}/1 of {spec['parallelism']}"
    else:
        completions = f"{done}/1"
    return [
        name,
        _job_status(obj, status),
        completions,
        _job_duration(status, now),
        age(obj, now),
        *containers(spec.get("template")),
        selector_or_none(spec.get("selector")),
    ]


def _job_duration(status: Object, now: datetime) -> str:
    start = moment(status.get("startTime"))
    if start is None:
        return ""
    end = moment(status.get("completionTime")) or now
    return human_duration((end - start).total_seconds())


def _job_status(obj: Object, status: Object) -> str:
    true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    for name in ("Complete", "Failed"):
        if name in true:
            return name
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if name in true:
            return name
    return "Running"


def cron_job(obj: Object, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    last = status.get("lastScheduleTime")
    job_spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        name,
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        boolean(spec.get("suspend")),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(job_spec.get("template")),
        selector_or_none(job_spec.get("selector")),
    ]


def pod_disruption_budget(obj: Object, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [
        name,
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        age(obj, now),
    ]


def pod_template(obj: Object, now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    return [
        obj["metadata"]["name"],
        *containers(template),
        labels((template.get("metadata") or {}).get("labels")),
    ]


def controller_revision(obj: Object, now: datetime) -> list[Any]:
    owners = obj["metadata"].get("ownerReferences") or ()
    owner = next((ref for ref in owners if ref.get("controller")), None)
    text = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = f"{owner['kind']}.{group}" if group else owner["kind"]
        text = f"{kind.lower()}/{owner['name']}"
    return [obj["metadata"]["name"], text, obj.get("revision", 0), age(obj, now)]
