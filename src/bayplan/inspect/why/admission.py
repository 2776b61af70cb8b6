"""What the API server would refuse or add when a pod is made: priority, account, quota.

A pod that exists has passed; one from a file or an owner's template has not. `admitted` fills in
what the server would, `refused` says what it would not accept and what would help.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from bayplan.api import ObjectMeta, Pod, PriorityClass, convert, quantity
from bayplan.api.requests import parse_all, pod_requests
from bayplan.inspect.admitting import SYSTEM, completed
from bayplan.inspect.admitting import admitted as with_admission
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import unknown
from bayplan.inspect.objects import ResourceQuota, ServiceAccount
from bayplan.inspect.why.step import Step, set_to

REFUSED = "; the pod would be refused"


def admitted(cluster: Cluster, body: dict[str, Any]) -> Pod:
    """The pod as the API server would store it."""
    body = {"apiVersion": "v1", "metadata": {}, **body, "kind": "Pod"}
    convert(Pod, body)
    meta = body["metadata"]
    meta.setdefault("namespace", cluster.origin.namespace)
    meta.setdefault("name", f"{meta.get('generateName', 'pod-')}new".replace("--", "-"))
    meta.setdefault("uid", f"new/{meta['namespace']}/{meta['name']}")
    return with_admission(convert(Pod, completed(body)), cluster.of(PriorityClass).values())


class Obstacle(msgspec.Struct, frozen=True):
    """Why the API server would refuse a pod, and the change that ends it, if one is known."""

    text: str
    step: Step | None = None


def refused(cluster: Cluster, pod: Pod, account: str = "") -> list[Obstacle]:
    """What the API server would not accept about a pod, if it were made now for an account."""
    accounts = _account(cluster, pod.namespace, account) if account else ()
    return [*_priority(cluster, pod), *accounts, *_quota(cluster, pod)]


def outlived(cluster: Cluster, pod: Pod) -> list[str]:
    """What a pod that exists was made with and that is not there (any more)."""
    kept = f"; it keeps priority {pod.priority}, another pod like it would be refused"
    return [item.text.removesuffix(REFUSED) + kept for item in _priority(cluster, pod)]


def _priority(cluster: Cluster, pod: Pod) -> Iterator[Obstacle]:
    name, classes = pod.spec.priority_class_name, cluster.of(PriorityClass)
    if not name or not classes or name in classes or name in SYSTEM:
        return
    step = None
    near = difflib.get_close_matches(name, list(classes), n=1, cutoff=0.5)
    if near:
        patch = (
            set_to(near[0], "spec", "priorityClassName"),
            set_to(classes[near[0]].value, "spec", "priority"),
        )
        step = Step(f'use the priority class "{near[0]}"', 20, "priority class", patch)
    yield Obstacle(f"{unknown('priority class', name, classes)}{REFUSED}", step)


def _account(cluster: Cluster, namespace: str, name: str) -> Iterator[Obstacle]:
    known = cluster.of(ServiceAccount)
    if not known or f"{namespace}/{name}" in known:
        return
    account = ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace))
    command = f"kubectl create serviceaccount -n {namespace} {name}"
    text = f'create the service account "{name}"'
    step = Step(text, 25, "service account", put=(account,), commands=(command,))
    names = [item.name for item in known.values() if item.namespace == namespace]
    problem = unknown("service account", name, names, f'namespace "{namespace}"')
    yield Obstacle(f"{problem}{REFUSED}", step)


def _quota(cluster: Cluster, pod: Pod) -> Iterator[Obstacle]:
    """Quotas that leave no room for one more such pod."""
    asked = {name: amount for name, amount in pod_requests(pod).items() if amount}
    for quota in cluster.of(ResourceQuota).values():
        if quota.namespace != pod.namespace or quota.spec.scopes or quota.spec.scope_selector:
            continue
        hard = parse_all(quota.status.hard or quota.spec.hard, "status.hard")
        used = parse_all(quota.status.used, "status.used")
        short: dict[str, int] = {}
        for name, limit in hard.items():
            wants = quantity.NANO if name in ("pods", "count/pods") else asked.get(
                name.removeprefix("requests."), 0
            )  # fmt: skip
            if wants and used.get(name, 0) + wants > limit:
                short[name] = used.get(name, 0) + wants
        if short:
            yield _over(quota, hard, used, short)


def _over(
    quota: ResourceQuota, hard: Mapping[str, int], used: Mapping[str, int], short: dict[str, int]
) -> Obstacle:
    show = quantity.format_nanos
    parts = [
        f"{name} {show(used.get(name, 0))} of {show(hard[name])} used, "
        f"the pod asks {show(total - used.get(name, 0))}"
        for name, total in short.items()
    ]
    raised = {name: show(total) for name, total in short.items()}
    spec = replace(quota.spec, hard={**quota.spec.hard, **raised})
    status = replace(quota.status, hard={**quota.status.hard, **raised})
    patch = shlex.quote(json.dumps({"spec": {"hard": raised}}))
    command = f"kubectl patch resourcequota -n {quota.namespace} {quota.name} -p {patch}"
    shown = " and ".join(f"{name} to {value}" for name, value in raised.items())
    text = f'raise the quota "{quota.name}": {shown}'
    changed = replace(quota, spec=spec, status=status)
    step = Step(text, 30, "quota", put=(changed,), commands=(command,))
    return Obstacle(f'quota "{quota.name}": {"; ".join(parts)}', step)
