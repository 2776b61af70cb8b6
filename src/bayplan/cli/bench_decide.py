"""`bayplan bench decide`: how many pods a second the engine decides, without any API server.

Every node is scored with all default plugins. Pods are made before the clock starts; CPU time is
what counts, as these machines are shared. Beside each figure stands a bare numpy pass over columns
of the same size, with nothing kept and no framework around it (`bench_bare.py`), which takes turns
with the engine: machines differ and are busy, the ratio does not and is not.
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
    container,
    gang,
    node,
    prepare,
)

if TYPE_CHECKING:
    from bayplan.api import Pod
    from bayplan.cli.bench_bare import BarePass
    from bayplan.engine.engine import Engine
    from bayplan.engine.loop import Scheduler
    from bayplan.engine.loop.timing import Timing

NOW = 1.8e9
TURN = 100
"""So many pods are decided about before the bare pass has its turn."""
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
    nodes: int,
    pods: int,
    placed: int,
    workload: str,
    records: bool = True,
    kinds: int = 1,
    compare: bool = False,
) -> dict[str, Any]:
    """Measure one workload and the bare pass beside it; to compare, also without records.

    All take turns, some pods at a time, so that whatever else the machine does hits all alike.
    """
    from bayplan.cli.bench_bare import BarePass

    kept = [records, False] if compare else [records]
    every = [_side(nodes, pods, placed, workload, kind, kinds) for kind in kept]
    sides = list(every)
    bare = BarePass(nodes, workload in TOPOLOGY)
    wanted = make_pods(workload, pods + 1)
    gc.collect()
    gc.freeze()  # as the live scheduler does after its first sync
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    first = wanted.pop()
    for side in sides:
        side.warm(first)
    wall = time.perf_counter()
    turn = pods if workload == "gang" else TURN
    most = max(50, 5_000_000 // nodes)
    for start in range(0, pods, turn):
        for side in sides:
            side.place(wanted[start : start + turn])
        sides.reverse()  # who comes after the bare pass finds its memory cold
        bare.run(min(turn, max(0, most - bare.pods)))
    wall = time.perf_counter() - wall
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    measured = {"workload": workload, "nodes": nodes, "pods": pods, "placed_before": placed}
    return {**measured, "wall_s": round(wall, 3), **_figures(every, bare, pods, records)}


def _figures(sides: list[Side], bare: BarePass, pods: int, records: bool) -> dict[str, Any]:
    """What was measured, of the first side; the second has no records."""
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    main = sides[0]
    speed = pods / main.seconds if main.seconds else float("inf")
    result = {
        "scheduled": main.fitted,
        "pods_per_s": round(speed, 1),
        "us_per_pod": round(1e6 * main.seconds / pods, 1),
        "rss_mb": round(rss, 1),
        "bare_pods_per_s": round(bare.speed, 1),
        "ratio_to_bare": round(speed / bare.speed, 2),
        "records": records,
    }
    if len(sides) > 1:
        more = main.seconds / sides[1].seconds - 1 if sides[1].seconds else 0.0
        result["records_cost_percent"] = round(100 * more, 1)
    return result


class Side:
    """One engine that is measured."""

    def __init__(
        self, nodes: int, pods: int, placed: int, workload: str, records: bool, kinds: int
    ) -> None:
        self._engine = make_engine(nodes, placed, workload, records, kinds)
        self._before = _before(self._engine, nodes, pods + 1, workload)
        self.seconds = 0.0
        """CPU time so far."""
        self.fitted = 0

    def warm(self, pod: Pod) -> None:
        """Ask every plugin for the first time; a scheduler's life has one such moment."""
        self.place([pod])
        self.seconds, self.fitted = 0.0, 0

    def place(self, pods: list[Pod]) -> None:
        """Decide about some pods."""
        place, before = self._engine.place, self._before
        started = time.process_time()
        for pod in pods:
            before()
            self.fitted += place(pod, NOW).placed
        self.seconds += time.process_time() - started


class GangSide(Side):
    """The live loop with a PodGroup: its pods come, wait for each other and go together."""

    def __init__(self, nodes: int, pods: int, placed: int, kinds: int) -> None:
        self._scheduler = make_scheduler(nodes, pods, "gang")
        _place(self._scheduler.engine, nodes, placed, kinds)
        self.seconds, self.fitted = 0.0, 0

    def warm(self, pod: Pod) -> None:
        """With a pod of no group."""
        spec = msgspec.structs.replace(pod.spec, scheduling_group=None)
        super().warm(msgspec.structs.replace(pod, spec=spec))

    def place(self, pods: list[Pod]) -> None:
        """Let pods come, and count those that are bound."""
        from bayplan.engine.loop.actions import Bind

        scheduler = self._scheduler
        started = time.process_time()
        for pod in pods:
            scheduler.put(pod, NOW)
        while scheduler.ready:
            actions = scheduler.step(NOW, limit=STEP_PODS)
            self.fitted += sum(isinstance(action, Bind) for action in actions)
        self.seconds += time.process_time() - started


def _side(nodes: int, pods: int, placed: int, workload: str, records: bool, kinds: int) -> Side:
    if workload == "gang":
        return GangSide(nodes, pods, placed, kinds)
    return Side(nodes, pods, placed, workload, records, kinds)


def make_scheduler(nodes: int, pods: int, workload: str, timing: Timing | None = None) -> Scheduler:
    """A live loop with nodes; pods of the workload `gang` are a PodGroup that needs them all."""
    from bayplan.api import Node, PodGroup, convert
    from bayplan.config import FeatureGates, default_config
    from bayplan.engine.loop import Scheduler
    from bayplan.plugins import in_tree_registry

    gates = FeatureGates({"GenericWorkload": workload == "gang"})
    scheduler = Scheduler(default_config(), in_tree_registry(), gates=gates, now=NOW, timing=timing)
    for number in range(nodes):
        scheduler.put(convert(Node, node(number, workload)), NOW)
    if workload == "gang":
        scheduler.put(convert(PodGroup, gang(pods)), NOW)
    return scheduler


def run_loop(nodes: int, pods: int, workload: str) -> dict[str, Any]:
    """Drive the live scheduler's loop, and measure how long one of its steps takes."""
    from bayplan.engine.loop.timing import Timing

    clock = time.thread_time
    timing = Timing(clock, lambda what, labels, seconds: None)
    scheduler = make_scheduler(nodes, pods, workload, timing)
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


def suite() -> Iterator[dict[str, Any]]:
    """Every workload at 5,000 nodes, then what records cost, more pods placed, more nodes."""
    for workload in WORKLOADS:
        yield run(5000, 200 if workload in FEW else 3000, 0, workload)
    for workload in ("basic", "mixed", "owned"):
        yield run(5000, 5000, 0, workload, compare=True)
    yield run(5000, 10000, 100_000, "basic")
    yield run(5000, 3000, 100_000, "soft-spread")
    yield run(50_000, 2000, 0, "basic")
    yield run(50_000, 1000, 0, "many-templates")
    yield run(50_000, 1000, 500_000, "basic", kinds=2000)


def line(result: dict[str, Any]) -> str:
    """One result as a line of text."""
    more = result.get("records_cost_percent")
    cost = "" if more is None else f", of which records cost {more} %"
    return (
        f"{result['workload']:<19} {result['nodes']:>6} nodes {result['placed_before']:>7} placed "
        f"{result['pods_per_s']:>9,.0f} pods/s {result['us_per_pod']:>8,.1f} us/pod "
        f"{result['ratio_to_bare']:>6.2f} x bare numpy ({result['bare_pods_per_s']:,.0f}/s) "
        f"{result['rss_mb']:>7,.0f} MB{cost}"
    )


@click.command(short_help="Measure how many pods a second are decided.")
@click.option("--nodes", default=5000, show_default=True, type=click.IntRange(min=1),
              help="Of the cluster.")  # fmt: skip
@click.option("--pods", default=5000, show_default=True, type=click.IntRange(min=1),
              help="To decide about.")  # fmt: skip
@click.option("--placed", default=0, type=click.IntRange(0), show_default=True,
              help="Pods that run before the start.")  # fmt: skip
@click.option("--kinds", default=1, type=click.IntRange(1), show_default=True,
              help="Deployments that those are of.")  # fmt: skip
@click.option(
    "--workload",
    default="basic",
    show_default=True,
    type=click.Choice([*WORKLOADS, "all"]),
    metavar="WORKLOAD",
    help=f"What kind of pods: {', '.join(WORKLOADS)}; all runs every one and the larger sizes.",
)
@click.option("--records/--no-records", default=True, help="Leave a decision record per attempt.")
@click.option("--records-cost", is_flag=True, help="Measure beside it what records cost.")
@click.option("--loop", is_flag=True, help="Measure how long steps of the live loop take instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    nodes: int,
    pods: int,
    placed: int,
    kinds: int,
    workload: str,
    records: bool,
    records_cost: bool,
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
    if workload == "gang" and (records_cost or not records):
        raise click.UsageError("the loop that places a gang always keeps records")
    result = run(nodes, pods, placed, workload, records, kinds, compare=records_cost)
    click.echo(json.dumps(result) if as_json else line(result))
