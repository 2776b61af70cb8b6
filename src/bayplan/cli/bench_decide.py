"""`bayplan bench decide`: how many pods a second the engine decides, without any API server.

Every node is scored with all default plugins. Pods are made before the clock starts; CPU time is
what counts, as these machines are shared. Beside each figure stands a bare numpy pass over columns
of the same size, with nothing kept and no framework around it, measured in the same run: machines
differ, the ratio does not.
"""

from __future__ import annotations

import gc
import json
import resource
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from bayplan.api import Pod
    from bayplan.engine.engine import Engine

ZONES = 10
GI = 1 << 30
MI = 1 << 20

Spec = dict[str, Any]


def _labels(app: str) -> dict[str, str]:
    return {"app": app}


def _selector(app: str) -> Spec:
    return {"matchLabels": _labels(app)}


def _container(cpu: str = "100m", memory: str = "500Mi") -> Spec:
    requests = {"cpu": cpu, "memory": memory}
    return {"name": "c", "image": "pause:3", "resources": {"requests": requests}}


def _basic(number: int) -> Spec:
    return {"containers": [_container()]}


def _mixed(number: int) -> Spec:
    kind = number % 50
    return {"containers": [_container(f"{50 + 7 * kind}m", f"{100 + 13 * kind}Mi")]}


def _node_affinity(number: int) -> Spec:
    zones = [f"zone-{zone}" for zone in range(ZONES // 2)]
    term = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    preferred = [
        {"weight": 10, "preference": {"matchExpressions": [{**term, "values": zones[:2]}]}}
    ]
    rules = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    return {"containers": [_container()], "affinity": {"nodeAffinity": rules}}


def _term(key: str, app: str) -> Spec:
    return {"topologyKey": key, "labelSelector": _selector(app)}


def _pod_affinity(number: int) -> Spec:
    term = _term("topology.kubernetes.io/zone", "bench")
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"containers": [_container()], "affinity": {"podAffinity": rules}}


def _anti_affinity(number: int) -> Spec:
    term = _term("kubernetes.io/hostname", "bench")
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"containers": [_container()], "affinity": {"podAntiAffinity": rules}}


def _preferred_affinity(number: int) -> Spec:
    term = _term("kubernetes.io/hostname", "bench")
    rules = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
    }
    return {"containers": [_container()], "affinity": {"podAffinity": rules}}


def _spread(how: str) -> Callable[[int], Spec]:
    constraint = {
        "maxSkew": 1 if how == "ScheduleAnyway" else 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": how,
        "labelSelector": _selector("bench"),
    }
    spec = {"containers": [_container()], "topologySpreadConstraints": [constraint]}
    return lambda number: spec


def _taints(number: int) -> Spec:
    toleration = {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    return {"containers": [_container()], "tolerations": [toleration]}


def _unschedulable(number: int) -> Spec:
    return {"containers": [_container("100", "500Mi")]}


def _preemption(number: int) -> Spec:
    return {"containers": [_container("3", "500Mi")], "priority": 1000}


WORKLOADS: dict[str, Callable[[int], Spec]] = {
    "basic": _basic,
    "mixed": _mixed,
    "node-affinity": _node_affinity,
    "pod-affinity": _pod_affinity,
    "anti-affinity": _anti_affinity,
    "preferred-affinity": _preferred_affinity,
    "hard-spread": _spread("DoNotSchedule"),
    "soft-spread": _spread("ScheduleAnyway"),
    "taints": _taints,
    "unschedulable": _unschedulable,
    "preemption": _preemption,
}

TOPOLOGY = frozenset(
    {"pod-affinity", "anti-affinity", "preferred-affinity", "hard-spread", "soft-spread"}
)
"""Workloads whose bare pass also counts pods per domain."""


def make_pods(workload: str, count: int) -> list[Pod]:
    """Pods of a workload; pods of one template share their spec, as decoded templates would."""
    from bayplan.api import ObjectMeta, Pod, convert

    make = WORKLOADS[workload]
    specs: dict[str, Pod] = {}
    pods: list[Pod] = []
    for number in range(count):
        body = make(number)
        key = json.dumps(body)
        template = specs.get(key)
        if template is None:
            meta = {"namespace": "default", "labels": _labels("bench")}
            template = specs[key] = convert(Pod, {"metadata": meta, "spec": body})
        meta_ = ObjectMeta(
            name=f"bench-{number}",
            namespace="default",
            uid=f"bench-{number}",
            labels=template.metadata.labels,
        )
        pods.append(msgspec.structs.replace(template, metadata=meta_))
    return pods


def make_engine(nodes: int, placed: int, workload: str, records: bool = True) -> Engine:
    """An engine with all default plugins, nodes of 4 cpu and 32 Gi, and pods already placed."""
    from bayplan.api import Node, ObjectMeta, Pod, convert
    from bayplan.config import default_config
    from bayplan.engine.cycle.records import RecordRing
    from bayplan.engine.engine import Engine
    from bayplan.plugins import in_tree_registry

    ring = RecordRing() if records else None
    engine = Engine.build(default_config(), in_tree_registry(), records=ring)
    cache = engine.cache
    for number in range(nodes):
        cache.add_node(convert(Node, _node(number, workload)))
    if workload == "preemption":
        placed = max(placed, nodes)
    body = {"containers": [_container("2" if workload == "preemption" else "10m", "10Mi")]}
    template = convert(Pod, {"metadata": {"labels": _labels("other")}, "spec": body})
    for number in range(placed):
        meta = ObjectMeta(
            name=f"placed-{number}",
            namespace="default",
            uid=f"placed-{number}",
            labels=template.metadata.labels,
        )
        pod = msgspec.structs.replace(template, metadata=meta)
        cache.assume(cache.infos.make(pod), f"node-{number % nodes}")
    return engine


def _node(number: int, workload: str) -> Spec:
    name = f"node-{number}"
    spec: Spec = {}
    if workload == "taints" and number % 2:
        effect = "NoSchedule" if number % 4 == 1 else "PreferNoSchedule"
        spec = {"taints": [{"key": "dedicated", "value": "ab"[number % 3 > 0], "effect": effect}]}
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
            },
        },
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}},
    }


def run(nodes: int, pods: int, placed: int, workload: str, records: bool = True) -> dict[str, Any]:
    """Measure one workload and the bare pass beside it."""
    engine = make_engine(nodes, placed, workload, records)
    wanted = make_pods(workload, pods + 1)
    place = engine.place
    gc.collect()
    gc.freeze()  # as the live scheduler does after its first sync
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    place(wanted.pop(), 0.0)  # makes the first class; a scheduler's life has one such moment
    started, wall = time.process_time(), time.perf_counter()
    fitted = 0
    for pod in wanted:
        fitted += place(pod, 0.0).placed
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bare = bare_pass(nodes, min(pods, max(50, 5_000_000 // nodes)), workload in TOPOLOGY)
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    speed = pods / seconds if seconds else float("inf")
    return {
        "workload": workload,
        "nodes": nodes,
        "pods": pods,
        "placed_before": placed,
        "scheduled": fitted,
        "pods_per_s": round(speed, 1),
        "us_per_pod": round(1e6 * seconds / pods, 1),
        "wall_s": round(wall, 3),
        "rss_mb": round(rss, 1),
        "bare_pods_per_s": round(bare, 1),
        "ratio_to_bare": round(speed / bare, 2),
        "records": records,
    }


def bare_pass(nodes: int, pods: int, topology: bool) -> float:
    """Pods a second of a plain numpy loop: filter, score, choose, add up, with nothing kept."""
    import numpy as np

    cpu, memory = np.full(nodes, 4000), np.full(nodes, 32 * GI)
    used_cpu, used_memory = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    count, allowed = np.zeros(nodes, np.int64), np.full(nodes, 110)
    zone = np.arange(nodes) % ZONES
    matching = np.zeros(nodes, np.int64)
    started = time.process_time()
    for _ in range(pods):
        fits = (count < allowed) & (100 <= cpu - used_cpu) & (500 * MI <= memory - used_memory)
        free = (cpu - used_cpu - 100) * 100 // cpu + (
            memory - used_memory - 500 * MI
        ) * 100 // memory
        before = np.abs(used_cpu / cpu - used_memory / memory) / 2
        after = np.abs((used_cpu + 100) / cpu - (used_memory + 500 * MI) / memory) / 2
        balance = ((1 - after) * 100).astype(np.int64) - ((1 - before) * 100).astype(np.int64)
        total = free // 2 + 50 + (50 + balance) // 2
        if topology:
            domains = np.bincount(zone, weights=matching, minlength=ZONES)
            fits &= (domains - domains.min() < 5)[zone]
            spread = (domains * 2.5)[zone]
            top = spread.max()
            if top > 0:
                total = total + (100 * (top - spread) / top).astype(np.int64)
        row = int(np.where(fits, total, -1).argmax())
        used_cpu[row] += 100
        used_memory[row] += 500 * MI
        count[row] += 1
        matching[row] += 1
    seconds = time.process_time() - started
    return pods / seconds if seconds else float("inf")


def suite() -> Iterator[dict[str, Any]]:
    """Every workload at 5,000 nodes, then more pods placed, more nodes, and records off."""
    for workload in WORKLOADS:
        few = workload in ("preemption", "unschedulable")
        yield run(5000, 200 if few else 3000, 0, workload)
    yield run(5000, 10000, 0, "basic", records=False)
    yield run(5000, 10000, 100_000, "basic")
    yield run(5000, 3000, 100_000, "soft-spread")
    yield run(50_000, 2000, 0, "basic")


def line(result: dict[str, Any]) -> str:
    """One result as a line of text."""
    return (
        f"{result['workload']:<19} {result['nodes']:>6} nodes {result['placed_before']:>7} placed "
        f"{result['pods_per_s']:>9,.0f} pods/s {result['us_per_pod']:>8,.1f} us/pod "
        f"{result['ratio_to_bare']:>6.2f} x bare numpy ({result['bare_pods_per_s']:,.0f}/s) "
        f"{result['rss_mb']:>7,.0f} MB"
    )


@click.command()
@click.option("--nodes", default=5000, show_default=True, type=click.IntRange(min=1))
@click.option("--pods", default=5000, show_default=True, type=click.IntRange(min=1))
@click.option("--placed", default=0, show_default=True, help="Pods that run before the start.")
@click.option(
    "--workload",
    default="basic",
    show_default=True,
    type=click.Choice([*WORKLOADS, "all"]),
    help="What kind of pods; all runs every one and the larger sizes.",
)
@click.option("--records/--no-records", default=True, help="Leave a decision record per attempt.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    nodes: int, pods: int, placed: int, workload: str, records: bool, as_json: bool
) -> None:
    """Measure how many pods a second the engine decides."""
    if workload == "all":
        for result in suite():
            click.echo(json.dumps(result) if as_json else line(result))
        return
    result = run(nodes, pods, placed, workload, records)
    click.echo(json.dumps(result) if as_json else line(result))
