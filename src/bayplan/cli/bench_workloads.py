"""The workloads of `bayplan bench decide`: what pods look like, and what is there before them.

A workload is a function from a pod's number to its body. Some need more: objects that exist before
the start, or something that happens before each pod. Kept apart from the measuring so that other
benchmarks can use them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayplan.engine.engine import Engine

ZONES = 10
APPS = 3000
SETS = 50
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
START = "2026-01-01T00:00:00Z"

Body = dict[str, Any]
Make = Callable[[int], Body]


def labels(app: str) -> dict[str, str]:
    return {"app": app}


def selector(app: str) -> Body:
    return {"matchLabels": labels(app)}


def container(cpu: str = "100m", memory: str = "500Mi") -> Body:
    requests = {"cpu": cpu, "memory": memory}
    return {"name": "c", "image": "pause:3", "resources": {"requests": requests}}


def pod(spec: Body | None = None, app: str = "bench", **meta: Any) -> Body:
    body = {"containers": [container()], **(spec or {})}
    return {"metadata": {"labels": labels(app), **meta}, "spec": body}


def _mixed(number: int) -> Body:
    kind = number % 50
    return pod({"containers": [container(f"{50 + 7 * kind}m", f"{100 + 13 * kind}Mi")]})


def _many_templates(number: int) -> Body:
    kind = number % 60
    return pod({"containers": [container(f"{50 + 5 * kind}m")]}, app=f"template-{kind}")


def _node_affinity(number: int) -> Body:
    zones = [f"zone-{zone}" for zone in range(ZONES // 2)]
    term = {"key": ZONE, "operator": "In", "values": zones}
    rules = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [term]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": {"matchExpressions": [{**term, "values": zones[:2]}]}}
        ],
    }
    return pod({"affinity": {"nodeAffinity": rules}})


def _term(key: str, app: str) -> Body:
    return {"topologyKey": key, "labelSelector": selector(app)}


def _required(kind: str, key: str, app: str = "bench") -> Body:
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(key, app)]}
    return pod({"affinity": {kind: rules}}, app=app)


def _preferred_affinity(number: int) -> Body:
    weighted = {"weight": 1, "podAffinityTerm": _term(HOSTNAME, "bench")}
    rules = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    return pod({"affinity": {"podAffinity": rules}})


def _spread(how: str) -> Make:
    constraint = {
        "maxSkew": 1 if how == "ScheduleAnyway" else 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": how,
        "labelSelector": selector("bench"),
    }
    return lambda number: pod({"topologySpreadConstraints": [constraint]})


def _taints(number: int) -> Body:
    toleration = {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    return pod({"tolerations": [toleration]})


def _owned(number: int) -> Body:
    name = f"set-{number % SETS}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name}
    return pod(app=name, ownerReferences=[{**owner, "controller": True}])


def _unique(number: int) -> Body:
    name = {"statefulset.kubernetes.io/pod-name": f"bench-{number}"}
    return {**pod(), "metadata": {"labels": {**labels("bench"), **name}}}


def _preemptor(number: int) -> Body:
    """Each of a class of its own, so that nothing is remembered of the one before."""
    cpu = f"{1000 + number % 1000}m"
    return pod({"containers": [container(cpu, "10Mi")], "priority": 1000}, app="urgent")


WORKLOADS: dict[str, Make] = {
    "basic": lambda number: pod(),
    "mixed": _mixed,
    "node-affinity": _node_affinity,
    "pod-affinity": lambda number: _required("podAffinity", ZONE),
    "anti-affinity": lambda number: _required("podAntiAffinity", HOSTNAME),
    "preferred-affinity": _preferred_affinity,
    "hard-spread": _spread("DoNotSchedule"),
    "soft-spread": _spread("ScheduleAnyway"),
    "taints": _taints,
    "unschedulable": lambda number: pod({"containers": [container("100")]}),
    "owned": _owned,
    "unique-labels": _unique,
    "many-terms": lambda number: _required("podAntiAffinity", HOSTNAME, f"app-{number % APPS}"),
    "node-churn": lambda number: pod(),
    "many-templates": _many_templates,
    "nominated": lambda number: pod(),
    "preemption": _preemptor,
    "preemption-pdb": _preemptor,
    "gang": lambda number: pod({"schedulingGroup": {"podGroupName": "gang"}}),
}

TOPOLOGY = frozenset(
    {
        "pod-affinity",
        "anti-affinity",
        "preferred-affinity",
        "hard-spread",
        "soft-spread",
        "owned",
        "many-terms",
    }
)
"""Workloads whose bare pass also counts pods per domain."""

FEW = frozenset({"preemption", "preemption-pdb", "unschedulable", "gang"})
"""Workloads of which a few pods are enough."""


def node(number: int, workload: str) -> Body:
    """A node of 4 cpu and 32 Gi."""
    name, spec = f"node-{number}", {}
    if workload == "taints" and number % 2:
        effect = "NoSchedule" if number % 4 == 1 else "PreferNoSchedule"
        spec = {"taints": [{"key": "dedicated", "value": "ab"[number % 3 > 0], "effect": effect}]}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone-{number % ZONES}"}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}},
    }


def gang(pods: int) -> Body:
    """The PodGroup of the workload `gang`: all of its pods, or none."""
    policy = {"gang": {"minCount": pods}}
    meta = {"name": "gang", "namespace": "default", "uid": "gang"}
    return {"metadata": meta, "spec": {"schedulingPolicy": policy}}


def prepare(engine: Engine, nodes: int, workload: str) -> None:
    """What a workload needs besides nodes."""
    if workload == "owned":
        _sets(engine)
    elif workload == "nominated":
        _nominated(engine, nodes)
    elif workload.startswith("preemption"):
        _victims(engine, nodes, protected=workload == "preemption-pdb")


def _sets(engine: Engine) -> None:
    from bayplan.api import ReplicaSet, Service, convert

    for number in range(SETS):
        name = f"set-{number}"
        meta = {"name": name, "namespace": "default"}
        body = {"metadata": meta, "spec": {"selector": selector(name)}}
        engine.cache.put(convert(ReplicaSet, body))
        engine.cache.put(convert(Service, {"metadata": meta, "spec": {"selector": labels(name)}}))


def _nominated(engine: Engine, nodes: int) -> None:
    """One node in ten is promised to a more important pod that would just fit."""
    from bayplan.api import Pod, convert

    cache = engine.cache
    for number in range(0, nodes, 10):
        name = f"promised-{number}"
        body = pod({"containers": [container("3900m", "1Gi")], "priority": 1000}, app="promised")
        body["metadata"] |= {"name": name, "namespace": "default", "uid": name}
        cache.nominator.add(cache.infos.make(convert(Pod, body)), f"node-{number}")


def _victims(engine: Engine, nodes: int, *, protected: bool) -> None:
    """Ten less important pods on each node, which leave no room."""
    from bayplan.api import Pod, PodDisruptionBudget, convert

    spec = {"containers": [container("400m", "10Mi")], "priority": 0}
    for number in range(nodes * 10):
        name = f"victim-{number}"
        body = pod({**spec, "nodeName": f"node-{number // 10}"}, app="victim")
        body["metadata"] |= {"name": name, "namespace": "default", "uid": name}
        engine.cache.put(convert(Pod, {**body, "status": {"startTime": START}}))
    if protected:
        budget = {
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {"selector": selector("victim")},
            "status": {"disruptionsAllowed": 0},
        }
        engine.cache.put(convert(PodDisruptionBudget, budget))
