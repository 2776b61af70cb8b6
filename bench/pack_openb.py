"""How far policies are from the best on the openb trace: `python bench/pack_openb.py --data DIR`.

`--json docs/results/pack_openb.json` writes the table of docs/reference/packing.md.

Pods of the trace arrive in random order until they ask for all GPUs (100 % load), each is tried
once. The bound is a linear programme over classes of equal pods and equal nodes that knows cpu,
memory, GPU models, thousandths of GPUs, and that two pods of more than half a GPU never share one;
how GPUs are cut up beyond that is left out, which can only raise it. DIR holds the CSV files of
hkust-adsl/kubernetes-scheduler-simulator.
"""

import argparse
import math
import random
from collections import Counter
from pathlib import Path

from figures import write
from ortools.linear_solver import pywraplp

from bayplan.api import Node, Pod, convert
from bayplan.config import from_data
from bayplan.engine.engine import Engine
from bayplan.scheduler.extensions import load_registry
from bayplan.sim.traces import fgd
from bayplan.sim.traces.openb import read_nodes, read_pods

WHOLE = 1000
MARGIN = 1e-6  # the programme reckons in floating point


def configuration(policy, seed, expected):
    if policy == "FGD":
        return fgd.configuration("FGD", seed, expected)
    point = {"enabled": [{"name": "BestFit"}]}  # knows GPUs; how nodes are ranked is left alone
    strategy = {"type": policy, "resources": [{"name": "cpu"}, {"name": "memory"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"filter": point, "reserve": point},
                "pluginConfig": [
                    {"name": "BestFit", "args": {"seed": seed, "typical": expected}},
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}},
                ],
            }
        ],
    }


def place(policy, seed, nodes, arrivals, expected, plugins):
    """Numbers of the pods that found a node, and how many nodes they use."""
    registry = load_registry([str(plugins)])
    engine = Engine.build(from_data(configuration(policy, seed, expected)), registry)
    for node in nodes:
        engine.cache.add_node(convert(Node, node.body()))
    placed, used = [], set()
    for number, pod in enumerate(arrivals):
        body = pod.body(f"pod-{number}")
        body["metadata"] |= {"uid": f"pod-{number}", "namespace": "default"}
        body.setdefault("spec", {}).setdefault("schedulerName", "default-scheduler")
        decision = engine.place_all([convert(Pod, body)], 0.0).decisions[0]
        if decision.placed:
            placed.append(number)
            used.add(decision.node_name)
    return placed, len(used)


def shape(pod):
    return (pod.cpu_milli, pod.memory_mib, pod.gpu_milli, pod.num_gpu, pod.gpu_spec)


class Bound:
    """The linear programme."""

    def __init__(self, nodes, pods, *, all_of_them):
        self.run = pywraplp.Solver.CreateSolver("GLOP")
        run = self.run
        kinds = Counter((n.cpu_milli, n.memory_mib, n.gpu, n.model) for n in nodes)
        self.used = {kind: run.NumVar(0, count, "") for kind, count in kinds.items()}
        rows = {
            kind: [run.RowConstraint(-run.infinity(), 0, "") for _ in range(4)] for kind in kinds
        }
        for kind, (cpu, memory, devices, halves) in rows.items():
            amounts = (kind[0], kind[1], kind[2] * WHOLE, kind[2])
            for row, amount in zip((cpu, memory, devices, halves), amounts, strict=True):
                row.SetCoefficient(self.used[kind], -amount)
        self.gpu = []
        for (cpu, memory, milli, count, spec), number in Counter(map(shape, pods)).items():
            total = run.RowConstraint(number if all_of_them else 0, number, "")
            models = set(filter(None, spec.split(".")))
            for kind, parts in rows.items():
                if count > kind[2] or (models and kind[3] not in models):
                    continue
                x = run.NumVar(0, number, "")
                total.SetCoefficient(x, 1)
                needs = (cpu, memory, milli * count, count if milli > WHOLE // 2 else 0)
                for row, need in zip(parts, needs, strict=True):
                    row.SetCoefficient(x, need)
                self.gpu.append((x, milli * count))

    def most_gpus(self):
        self.run.Maximize(self.run.Sum([amount * x for x, amount in self.gpu]))
        assert self.run.Solve() == self.run.OPTIMAL
        return self.run.Objective().Value()

    def fewest_nodes(self):
        self.run.Minimize(self.run.Sum(list(self.used.values())))
        assert self.run.Solve() == self.run.OPTIMAL
        return self.run.Objective().Value()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--seed", type=int, default=fgd.FIRST_SEED)
    options.add_argument("--policy", action="append")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    nodes = read_nodes(fgd._file(given.data, fgd.NODE_FILE))
    pods = read_pods(fgd._file(given.data, fgd.POD_FILE))
    arrivals = fgd.draw_order(nodes, pods, random.Random(given.seed), 1.0).arrivals(pods)
    gpus = sum(node.gpu for node in nodes) * WHOLE
    most = 100 * Bound(nodes, arrivals, all_of_them=False).most_gpus() / gpus
    print(
        f"{len(nodes)} nodes, {len(arrivals)} pods; at most {most:.2f} % of GPUs can be allocated"
    )
    figures = {"bound": f"{most:.2f} %"}
    print("policy            GPUs allocated   from the bound   nodes in use   proven least")
    for policy in given.policy or ("LeastAllocated", "MostAllocated", "FGD"):
        expected, plugins = fgd.typical(pods), fgd.policies_file(None)
        placed, used = place(policy, given.seed, nodes, arrivals, expected, plugins)
        held = [arrivals[number] for number in placed]
        share = 100 * sum(pod.gpu_milli * pod.num_gpu for pod in held) / gpus
        least = Bound(nodes, held, all_of_them=True).fewest_nodes()
        print(
            f"{policy:18}{share:>12.2f} %{most - share:>15.2f} %{used:>15}{least:>15.1f}",
            flush=True,
        )
        proven = math.ceil(least * (1 - MARGIN))
        texts = (f"{share:.2f} %", f"{most - share:.2f} %", f"{used:,}", f"{proven:,}")
        figures |= {f"{policy} {n}": text for n, text in enumerate(texts)}
    if given.json:
        write(given.json, "bench/pack_openb.py", figures, seed=given.seed)


if __name__ == "__main__":
    main()
