"""Commands of kubectl that make a change for real: what answers print for people to copy.

They are texts only; nothing here runs them. A pod that exists cannot be given another spec, so it
is made anew; what an owner makes is changed in its template, by the rules of its kind:

| owner | what it does when its template changes |
| --- | --- |
| Deployment | replaces its pods, those that wait first; not while it is paused |
| StatefulSet | goes on only while all its pods are ready: one that waits must be deleted |
| DaemonSet | replaces its pods, unless its strategy is OnDelete |
| ReplicaSet, ReplicationController | nothing: pods must be deleted |
| Job | it refuses: the job must be made again |
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

import jsonpatch
from jsonpatch import JsonPatchException
from jsonpointer import JsonPointer, JsonPointerException

from bayplan.api import Object, Pod, plain
from bayplan.inspect.objects import Owner, ordinal

Ops = Iterable[dict[str, Any]]

TEMPLATE = "/spec/template"
OF_JOBS = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)
"""Labels that the server writes into a job's template."""


def where(item: Object) -> str:
    """`-n NAMESPACE NAME`."""
    return f"-n {item.namespace} {item.name}"


def json_patch(ops: Ops) -> str:
    """The flags of `kubectl patch`."""
    return f"--type=json -p {shlex.quote(json.dumps(list(ops)))}"


def change_owner(owner: Owner, ops: Ops, waiting: Pod | None = None) -> list[str]:
    """Give an owner's pods another form, in the way that its kind allows.

    With `waiting` that pod is what matters; it may need more than those that run.
    """
    title = f"{owner.KIND.lower()}/{owner.name}"
    if owner.KIND == "Job":
        return _job_anew(owner, ops)
    if owner.controller is not None:
        above = f"{owner.controller.kind.lower()}/{owner.controller.name}"
        return [f"# {above} keeps {title} as it is: change it there"]
    found = [*_reaching(owner, waiting), *_below(ops, TEMPLATE)]
    commands = [f"kubectl patch {owner.KIND.lower()} {where(owner)} {json_patch(found)}"]
    if owner.KIND == "Deployment" and owner.spec.paused:
        commands.append(f"kubectl rollout resume -n {owner.namespace} {title}")
    if waiting is not None and (owner.KIND == "StatefulSet" or not owner.replaces):
        commands.append(f"kubectl delete pod {where(waiting)}")
    elif waiting is None and not owner.replaces:
        labels = ",".join(f"{key}={value}" for key, value in owner.pod_labels.items())
        commands.append(f"kubectl delete pod -n {owner.namespace} -l {labels}")
    return commands


def _reaching(owner: Owner, waiting: Pod | None) -> list[dict[str, Any]]:
    """A stateful set gives pods below its partition the old template."""
    partition = owner.spec.update_strategy.rolling.partition
    if owner.KIND != "StatefulSet" or waiting is None or partition <= ordinal(waiting):
        return []
    path = "/spec/updateStrategy/rollingUpdate/partition"
    return [{"op": "add", "path": path, "value": ordinal(waiting)}]


def _job_anew(job: Owner, ops: Ops) -> list[str]:
    """A job keeps its template, so it is made again, without what the server put into it."""
    labels = job.spec.template.metadata.labels
    own = {key: value for key, value in labels.items() if key not in OF_JOBS}
    fresh: list[dict[str, Any]] = []
    if not job.spec.manual_selector:
        fresh.append({"op": "remove", "path": "/spec/selector"})
    if own != labels:
        path = f"{TEMPLATE}/metadata/labels"
        fresh.append({"op": "add", "path": path, "value": own})
    found = [
        f"kubectl get job {where(job)} -o json | kubectl patch --local -f - -o json "
        f"{json_patch([*fresh, *_below(ops, TEMPLATE)])} | kubectl replace --force -f -"
    ]
    above = job.controller
    if above is not None and above.kind == "CronJob":
        patch = json_patch(_below(ops, f"/spec/jobTemplate{TEMPLATE}"))
        found.append(f"kubectl patch cronjob -n {job.namespace} {above.name} {patch}")
    return found


def _below(ops: Ops, prefix: str) -> list[dict[str, Any]]:
    """A patch of a pod as one of a template, which has no priority of its own, only a class."""
    return [{**op, "path": f"{prefix}{op['path']}"} for op in ops if op["path"] != "/spec/priority"]


def for_template(owner: Owner, ops: Ops) -> Ops | None:
    """A patch of a pod as its owner's template needs it; None if something else puts it there.

    What admission filled in is not in the template, so the way to it is made; but what is to be
    removed and is not there would only come back.
    """
    body, found = plain(owner.spec.template), []
    for container in (*body["spec"].get("containers", ()), *body["spec"].get("initContainers", ())):
        container.setdefault("resources", {})  # a server always writes it
    for op in ops:
        if op["op"] == "add":
            op = _with_parents(body, op)
        try:
            body = jsonpatch.apply_patch(body, [op])
        except (JsonPatchException, JsonPointerException):
            return None
        found.append(op)
    return tuple(found)


def _with_parents(body: dict[str, Any], op: dict[str, Any]) -> dict[str, Any]:
    parts = JsonPointer(op["path"]).parts
    here: Any = body
    for depth, part in enumerate(parts[:-1]):
        if isinstance(here, dict) and part not in here:
            value = op["value"]
            for name in reversed(parts[depth + 1 :]):
                value = {name: value}
            return {**op, "path": JsonPointer.from_parts(parts[: depth + 1]).path, "value": value}
        try:
            here = here[int(part)] if isinstance(here, list) else here[part]
        except (IndexError, ValueError):
            break
    return op


def anew(pod: Pod, ops: Ops) -> str:
    """Make a pod again, changed, and free of the node that it has."""
    away = [{"op": "remove", "path": "/spec/nodeName"}] if pod.spec.node_name else []
    return (
        f"kubectl get pod {where(pod)} -o json | kubectl patch --local -f - -o json "
        f"{json_patch([*ops, *away])} | kubectl replace --force -f -"
    )


def create(body: dict[str, Any], verb: str = "create") -> str:
    """Create (or apply) an object that is given as it is."""
    return f"echo {shlex.quote(json.dumps(body))} | kubectl {verb} -f -"
