"""The main table of "Beware of Fragmentation" (USENIX ATC 2023), reproduced.

Per seed: the pods of the `openb` trace in random order, then random ones again until what they ask
for is 130 % of all GPUs; each is tried once and taken away if it does not fit. Nodes get names in
random order as well, because the first name wins between equal scores. What counts is the share of
GPUs that is allocated, on average over the pods with which the load rounds to 130 %. It runs in the
fast lane, with the policies that `examples/policies/gpu.py` has as plugins.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

import msgspec

import bayplan
from bayplan.client.resources import NODES, PODS
from bayplan.clock import rest
from bayplan.config import from_data
from bayplan.errors import BayplanError
from bayplan.scheduler.extensions import load_registry
from bayplan.sim.client import ScenarioClient
from bayplan.sim.run import run_scenario
from bayplan.sim.traces.openb import OpenbNode, OpenbPod, read_nodes, read_pods
from bayplan.sim.world import Settings

PAPER = {
    "Random": 87.47,
    "DotProd": 90.85,
    "GpuClustering": 91.88,
    "GpuPacking": 92.00,
    "BestFit": 93.08,
    "FGD": 95.39,
}
"""Means over ten seeds, default trace, 130 % load, in percent (the authors' published results)."""
LOAD = 1.3
POPULAR = 0.95
FIRST_SEED = 42
NODE_FILE, POD_FILE = "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"


class Allocation(msgspec.Struct, frozen=True):
    """How one run ended."""

    policy: str
    seed: int
    percent: float
    """Of all GPUs, on average while the load rounds to the wanted one."""
    pods: int
    failed: int


class Order(msgspec.Struct, frozen=True):
    """Who comes when: numbers of pods and of nodes, both sorted by name (`hack/fgd-order`)."""

    pods: list[int]
    """Which pod comes next."""
    nodes: list[int]
    """Which place the name of each node has."""

    def arrivals(self, pods: Sequence[OpenbPod]) -> list[OpenbPod]:
        """The pods as they come."""
        by_name = sorted(pods, key=lambda pod: pod.name)
        return [by_name[number] for number in self.pods]


def policies_file(given: Path | None) -> Path:
    """Return where the plugins are; raises BayplanError."""
    found = given or Path(bayplan.__file__).parents[2] / "examples" / "policies" / "gpu.py"
    if not found.is_file():
        raise BayplanError(f"policies {found} do not exist; name the file with --policies")
    return found


def reproduce(
    data: Path,
    seeds: Sequence[int],
    policies: Sequence[str],
    plugins: Path,
    told: Callable[[Allocation], None] = lambda run: None,
    orders: Sequence[Order] = (),
) -> list[Allocation]:
    """Run policies × seeds, whose `orders` may be given; `told` hears of each run."""
    nodes, pods = read_nodes(_file(data, NODE_FILE)), read_pods(_file(data, POD_FILE))
    runs = []
    for policy in policies:
        for number, seed in enumerate(seeds):
            order = orders[number] if orders else None
            runs.append(run_one(policy, seed, nodes, pods, plugins, order))
            told(runs[-1])
    return runs


def report(runs: Sequence[Allocation]) -> str:
    """All runs and the table as JSON, in the form that pages are compared with."""
    figures: dict[str, str] = {}
    for policy in dict.fromkeys(run.policy for run in runs):
        shares = [run.percent for run in runs if run.policy == policy]
        figures |= {
            f"{policy} mean": f"{mean(shares):.2f}",
            f"{policy} range": f"{min(shares):.2f} to {max(shares):.2f}",
            f"{policy} paper": f"{PAPER[policy]:.2f}",
        }
    body = {"command": "src/bayplan/cli/trace.py", "figures": figures, "runs": runs}
    return msgspec.json.format(msgspec.json.encode(body), indent=1).decode() + "\n"


def _file(data: Path, name: str) -> Path:
    for path in (data / name, data / "csv" / name, data / "data" / "csv" / name):
        if path.is_file():
            return path
    raise BayplanError(f"--data {data} has no {name}; it must hold the openb trace's CSV files")


def read_order(path: Path) -> Order:
    """Read what `hack/fgd-order` wrote; raises BayplanError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Order)
    except (OSError, msgspec.DecodeError) as problem:
        raise BayplanError(f"reading the order {path}: {problem}") from problem


def run_one(
    policy: str,
    seed: int,
    nodes: Sequence[OpenbNode],
    pods: Sequence[OpenbPod],
    plugins: Path,
    order: Order | None = None,
) -> Allocation:
    """Fill the cluster once and say how much of its GPUs is allocated."""
    order = draw_order(nodes, pods, random.Random(seed)) if order is None else order
    arrivals = order.arrivals(pods)
    total = sum(node.gpu for node in nodes) * 1000
    asked = used = failed = 0
    shares: list[tuple[int, float]] = []

    async def scenario(client: ScenarioClient) -> None:
        nonlocal asked, used, failed
        for node in renamed(nodes, order.nodes):
            await client.client.create(NODES, node.body())
        for number, pod in enumerate(arrivals):
            name = f"pod-{number}"
            await client.client.create(PODS, pod.body(name), "default")
            await rest(last=True)
            wish = pod.gpu_milli * pod.num_gpu
            asked += wish
            if client.tracker.pods[f"default/{name}"].node:
                used += wish
            else:
                failed += 1
                await client.client.delete(PODS, name, "default")
            shares.append((round(100 * asked / total), 100.0 * used / total))

    settings = Settings(
        seed=seed,
        config=from_data(configuration(policy, seed, typical(pods))),
        registry=load_registry([str(plugins)]),
        controllers="serviceaccount,namespace",
        keep=False,
        faithful=False,
    )
    result = run_scenario(scenario, settings=settings, name=f"{policy}/{seed}")
    if not result.ok:
        raise BayplanError(f"{policy}, seed {seed}: {result.problems()}")
    last = [share for load, share in shares if load == round(100 * LOAD)] or [shares[-1][1]]
    return Allocation(policy, seed, mean(last), len(arrivals), failed)


def renamed(nodes: Sequence[OpenbNode], places: Sequence[int]) -> list[OpenbNode]:
    """The nodes under names that sort by place."""
    by_name = sorted(nodes, key=lambda node: node.name)
    return [
        msgspec.structs.replace(node, name=f"{place:04d}-{node.name}")
        for node, place in zip(by_name, places, strict=True)
    ]


def draw_order(
    nodes: Sequence[OpenbNode], pods: Sequence[OpenbPod], rng: random.Random, load: float = LOAD
) -> Order:
    """One run's pods up to a load, and the order of its nodes."""
    by_name = sorted(pods, key=lambda pod: pod.name)
    arrivals = rng.sample(range(len(pods)), len(pods))
    wanted = load * sum(node.gpu for node in nodes) * 1000
    asked = sum(pod.gpu_milli * pod.num_gpu for pod in pods)
    while True:
        number = rng.randrange(len(pods))
        pod = by_name[number]
        if asked + pod.gpu_milli > wanted:
            return Order(arrivals, rng.sample(range(len(nodes)), len(nodes)))
        asked += pod.gpu_milli * pod.num_gpu
        arrivals.append(number)


def typical(pods: Sequence[OpenbPod]) -> list[dict[str, object]]:
    """The most frequent shapes, which make up 95 % of all pods, with their shares."""
    counts = Counter((p.cpu_milli or 100, p.gpu_milli, p.num_gpu, p.gpu_spec) for p in pods)
    order = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    chosen: list[tuple[tuple[int, int, int, str], int]] = []
    covered = 0
    for item in order:
        if covered >= POPULAR * len(pods):
            break
        chosen.append(item)
        covered += item[1]
    return [
        {"cpu": cpu, "milli": milli, "count": count, "model": model, "share": number / covered}
        for (cpu, milli, count, model), number in chosen
    ]


def configuration(policy: str, seed: int, expected: list[dict[str, object]]) -> dict[str, object]:
    """The scheduler's configuration: the policy alone decides, names between equals."""
    args = [{"name": policy, "args": {"seed": seed, "typical": expected}}]
    enabled = [
        {"name": policy, "weight": 20_000},
        {"name": "FirstName", "weight": 101},
        {"name": "FirstNameFiner", "weight": 1},
    ]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "plugins": {
                    "multiPoint": {"enabled": enabled},
                    "score": {"disabled": [{"name": "*"}], "enabled": enabled},
                    "preScore": {
                        "disabled": [{"name": "*"}],
                        "enabled": [{"name": policy}] if policy == "Random" else [],
                    },
                    "postFilter": {"disabled": [{"name": "*"}]},
                },
                "pluginConfig": args,
            }
        ],
    }
