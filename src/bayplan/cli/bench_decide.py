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

from bayplan.cli.bench_workloads import (
    FEW,
    TOPOLOGY,
    WORKLOADS,
    ZONES,
    container,
    node,
    prepare,
)

if TYPE_CHECKING:
    from bayplan.api import Pod
    from bayplan.engine.engine import Engine

GI = 1 << 30
MI = 1 << 20
NOW = 1.8e9
STEP_PODS, STEP_SECONDS = 64, 0.01
"""What the live scheduler allows one step of its loop."""


def make_pods(workload: str, count: int) -> list[Pod]:
    """Pods of a workload; pods of one template share their spec, as decoded templates would."""
    from bayplan.api import Pod, convert

    make = WORKLOADS[workload]
    specs: dict[str, Pod] = {}
    pods: list[Pod] = []
    for number in range(count):
        body = make(number)
        key = json.dumps(body)
        template = specs.get(key)
        if template is None:
            body["metadata"]["namespace"] = "default"
            template = convert(Pod, body)
            if len(specs) < 4096:
                specs[key] = template
        name = f"bench-{number}"
        meta = msgspec.structs.replace(template.metadata, name=name, uid=name)
        pods.append(msgspec.structs.replace(template, metadata=meta))
    return pods


def make_engine(
    nodes: int, placed: int, workload: str, records: bool = True, kinds: int = 1
) -> Engine:
    """An engine with all default plugins, nodes of 4 cpu and 32 Gi, and pods already placed."""
    from bayplan.api import Node, convert
    from bayplan.config import default_config
    from bayplan.engine.cycle.records import RecordRing
    from bayplan.engine.engine import Engine
    from bayplan.plugins import in_tree_registry

    ring = RecordRing() if records else None
    engine = Engine.build(default_config(), in_tree_registry(), records=ring)
    cache = engine.cache
    for number in range(nodes):
        cache.add_node(convert(Node, node(number, workload)))
    _place(engine, nodes, placed, kinds)
    prepare(engine, nodes, workload)
    return engine


def _place(engine: Engine, nodes: int, placed: int, kinds: int) -> None:
    """Pods that run already, of so many Deployments; each pod has names and labels of its own."""
    from bayplan.api import Pod, convert

    cache = engine.cache
    templates = []
    for number in range(kinds):
        name = f"deployment-{number}"
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name}
        body = {
            "labels": {"app": name if kinds > 1 else "other"},
            "namespace": "default",
            "ownerReferences": [{**owner, "controller": True}],
        }
        spec = {"containers": [container("10m", f"{10 + number % 7}Mi")]}
        templates.append(convert(Pod, {"metadata": body, "spec": spec}))
    for number in range(placed):
        template, name = templates[number % kinds], f"placed-{number}"
        labels = dict(template.metadata.labels)
        meta = msgspec.structs.replace(template.metadata, name=name, uid=name, labels=labels)
        pod = msgspec.structs.replace(template, metadata=meta)
        cache.assume(cache.infos.make(pod), f"node-{number % nodes}")


def run(
    nodes: int, pods: int, placed: int, workload: str, records: bool = True, kinds: int = 1
) -> dict[str, Any]:
    """Measure one workload and the bare pass beside it."""
    engine = make_engine(nodes, placed, workload, records, kinds)
    wanted = make_pods(workload, pods + 1)
    place, before = engine.place, _before(engine, nodes, pods, workload)
    gc.collect()
    gc.freeze()  # as the live scheduler does after its first sync
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    place(wanted.pop(), NOW)  # asks every plugin first; a scheduler's life has one such moment
    started, wall = time.process_time(), time.perf_counter()
    fitted = 0
    if workload == "gang":
        fitted = sum(decision.placed for decision in engine.place_all(wanted, 0.0).decisions)
    else:
        for pod in wanted:
            before()
            fitted += place(pod, NOW).placed
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


def run_loop(nodes: int, pods: int, workload: str) -> dict[str, Any]:
    """Drive the live scheduler's loop, and measure how long one of its steps takes."""
    from bayplan.api import Node, convert
    from bayplan.config import default_config
    from bayplan.engine.loop import Scheduler
    from bayplan.engine.loop.timing import Timing
    from bayplan.plugins import in_tree_registry

    clock = time.thread_time
    timing = Timing(clock, lambda what, labels, seconds: None)
    scheduler = Scheduler(default_config(), in_tree_registry(), now=NOW, timing=timing)
    for number in range(nodes):
        scheduler.put(convert(Node, node(number, workload)), NOW)
    prepare(scheduler.engine, nodes, workload)
    for pod in make_pods(workload, pods):
        scheduler.put(pod, NOW)
    gc.collect()
    gc.freeze()
    held: list[float] = []
    begun = clock()
    while scheduler.ready:
        start = clock()
        scheduler.step(NOW, limit=STEP_PODS, until=start + STEP_SECONDS)
        held.append(clock() - start)
    seconds = clock() - begun
    gc.unfreeze()
    held.sort()
    return {
        "workload": workload,
        "nodes": nodes,
        "pods": pods,
        "steps": len(held),
        "pods_per_s": round(pods / seconds, 1),
        "step_p50_ms": round(1000 * held[len(held) // 2], 2),
        "step_p999_ms": round(1000 * held[-1 - len(held) // 1000], 2),
        "step_max_ms": round(1000 * held[-1], 2),
    }


def _before(engine: Engine, nodes: int, pods: int, workload: str) -> Callable[[], None]:
    """What happens before each pod, made ready before the clock starts."""
    if workload != "node-churn":
        return lambda: None
    from bayplan.api import Node, convert

    coming = iter([convert(Node, node(nodes + n, workload)) for n in range(pods)])
    return lambda: engine.cache.put(next(coming))


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
        yield run(5000, 200 if workload in FEW else 3000, 0, workload)
    yield run(5000, 10000, 0, "basic", records=False)
    yield run(5000, 10000, 100_000, "basic")
    yield run(5000, 3000, 100_000, "soft-spread")
    yield run(50_000, 2000, 0, "basic")
    yield run(50_000, 1000, 0, "many-templates")
    yield run(50_000, 1000, 500_000, "basic", kinds=2000)


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
@click.option("--kinds", default=1, show_default=True, help="Deployments that those are of.")
@click.option(
    "--workload",
    default="basic",
    show_default=True,
    type=click.Choice([*WORKLOADS, "all"]),
    help="What kind of pods; all runs every one and the larger sizes.",
)
@click.option("--records/--no-records", default=True, help="Leave a decision record per attempt.")
@click.option("--loop", is_flag=True, help="Measure how long steps of the live loop take instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    nodes: int,
    pods: int,
    placed: int,
    kinds: int,
    workload: str,
    records: bool,
    loop: bool,
    as_json: bool,
) -> None:
    """Measure how many pods a second the engine decides, or how long a step of its loop takes."""
    if loop:
        for name in WORKLOADS if workload == "all" else [workload]:
            held = run_loop(nodes, min(pods, 20) if name in FEW else pods, name)
            text = "{workload:<19} {pods:>6} pods in {steps:>5} steps, held {step_p50_ms} ms p50, "
            text += "{step_p999_ms} ms p99.9, {step_max_ms} ms at most"
            click.echo(json.dumps(held) if as_json else text.format(**held))
        return
    if workload == "all":
        for result in suite():
            click.echo(json.dumps(result) if as_json else line(result))
        return
    result = run(nodes, pods, placed, workload, records, kinds)
    click.echo(json.dumps(result) if as_json else line(result))
