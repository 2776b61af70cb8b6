"""What the API server would refuse or add when a pod is made: priority, account, quota.

A pod that exists has passed; one from a file or an owner's template has not. `admitted` fills in
what the server would (defaults, priority, default tolerations), `refused` says what it would not
accept.
"""

from __future__ import annotations

from typing import Any

from bayplan.api import Pod, PriorityClass, convert, quantity
from bayplan.api.requests import parse_all, pod_requests
from bayplan.inspect.admitting import SYSTEM, completed
from bayplan.inspect.admitting import admitted as with_admission
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import unknown
from bayplan.inspect.objects import ResourceQuota


def admitted(cluster: Cluster, body: dict[str, Any]) -> Pod:
    """The pod as the API server would store it."""
    body = {"apiVersion": "v1", "metadata": {}, **body, "kind": "Pod"}
    convert(Pod, body)
    meta = body["metadata"]
    meta.setdefault("namespace", cluster.origin.namespace)
    meta.setdefault("name", f"{meta.get('generateName', 'pod-')}new".replace("--", "-"))
    meta.setdefault("uid", f"new/{meta['namespace']}/{meta['name']}")
    return with_admission(convert(Pod, completed(body)), cluster.of(PriorityClass).values())


def refused(cluster: Cluster, pod: Pod) -> list[str]:
    """What the API server would not accept about a pod, if it were made now."""
    found = []
    name, classes = pod.spec.priority_class_name, cluster.of(PriorityClass)
    if name and classes and name not in classes and name not in SYSTEM:
        found.append(f"{unknown('priority class', name, classes)}; the pod would be refused")
    return found


def over_quota(cluster: Cluster, pod: Pod) -> list[str]:
    """Which quotas leave no room for one more such pod."""
    asked = {name: amount for name, amount in pod_requests(pod).items() if amount}
    found = []
    for quota in cluster.of(ResourceQuota).values():
        if quota.namespace != pod.namespace or quota.spec.scopes or quota.spec.scope_selector:
            continue
        hard = parse_all(quota.status.hard or quota.spec.hard, "status.hard")
        used = parse_all(quota.status.used, "status.used")
        for name, limit in hard.items():
            wants = quantity.NANO if name in ("pods", "count/pods") else asked.get(
                name.removeprefix("requests."), 0
            )  # fmt: skip
            have = used.get(name, 0)
            if wants and have + wants > limit:
                show = quantity.format_nanos
                found.append(
                    f'quota "{quota.name}": {name} {show(have)} of {show(limit)} used, '
                    f"the pod asks {show(wants)}"
                )
    return found
