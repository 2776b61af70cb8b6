"""Packing at size: `python bench/pack.py [small|large|huge]...` prints what is found as JSON.

`--json FILE` writes the figures of all sizes for the documentation.

Pods are of many templates, a tenth of them with anti-affinity by node and a tenth spread over
zones; they are strewn over all nodes, as a scheduler that spreads would do, then packed.
"""

import argparse
import json
import os
import random
import resource
import time
from pathlib import Path

from figures import write

from bayplan.inspect import Cluster
from bayplan.inspect.pack import Wishes, pack
from bayplan.testing.builders import HOSTNAME, ZONE, make_node, make_pod

SIZES = {
    "small": (60, 600, 40, 10.0),
    "large": (1000, 10_000, 200, 60.0),
    "huge": (5000, 50_000, 200, 120.0),
}
"""Nodes, pods, templates and seconds."""
SHAPES = ((32, 128), (16, 64), (64, 128))
CPU = (100, 250, 500, 750, 1000, 1500, 2000, 3000, 4000)
MEMORY = (256, 512, 1024, 2048, 3072, 4096, 8192)


def shape(i, count):
    """Every zone has nodes of every shape; a small cluster has one."""
    return SHAPES[i // 3 % len(SHAPES)] if count > 100 else SHAPES[0]


def nodes(count):
    for i in range(count):
        cpu, memory = shape(i, count)
        node = make_node(f"node-{i:05}").zone(f"z{i % 3}").label({HOSTNAME: f"node-{i:05}"})
        yield node.capacity(cpu=cpu, memory=f"{memory}Gi", pods=110).build()


class Room:
    """What is left on nodes while pods are strewn over them."""

    def __init__(self, count):
        shapes = (shape(i, count) for i in range(count))
        self.left = [[cpu * 1000, memory * 1024] for cpu, memory in shapes]
        self.taken = set()

    def take(self, start, number, cpu, memory):
        """A node of the same zone with room and without this template, from `start` on."""
        usable = len(self.left) // 3 * 3
        rows = ((start + step) % usable for step in range(0, usable, 3))
        row = next(
            row
            for row in rows
            if self.left[row][0] >= cpu
            and self.left[row][1] >= memory
            and (row, number) not in self.taken
        )
        self.taken.add((row, number))
        self.left[row][0] -= cpu
        self.left[row][1] -= memory
        return row


def pods(count, nodes, templates, seed):
    """Pods strewn over all nodes, every template evenly over zones and never twice on a node."""
    chance = random.Random(seed)
    kinds = [(chance.choice(CPU), chance.choice(MEMORY), chance.random()) for _ in range(templates)]
    room, usable = Room(nodes), nodes // 3 * 3
    for i in range(count):
        number, turn = i % templates, i // templates
        cpu, memory, rule = kinds[number]
        row = room.take((turn + number * (nodes // templates + 1)) % usable, number, cpu, memory)
        pod = make_pod(f"app{number}-{i}").req(cpu=f"{cpu}m", memory=f"{memory}Mi")
        pod.label(app=f"app{number}").owner("ReplicaSet", f"app{number}", uid=f"rs{number}")
        if rule < 0.1:
            pod.apart(f"app=app{number}")
        elif rule < 0.2:
            pod.spread(1, ZONE, f"app=app{number}")
        yield pod.node(f"node-{row:05}").build()


def cluster(count, pod_count, templates, seed):
    objects = [*nodes(count), *pods(pod_count, count, templates, seed)]
    return Cluster.from_objects(objects)


def run(name, slow=1.0, seed=1):
    """`slow`: so many times as long, for a machine that others use too."""
    count, pod_count, templates, seconds = SIZES[name]
    asked = cluster(count, pod_count, templates, seed)
    wall, cpu = time.monotonic(), time.process_time()
    found = pack(asked, Wishes(seconds=seconds * slow))
    return {
        "size": name,
        "nodes": count,
        "pods": asked.engine.cache.pod_count,
        "inUse": found.in_use,
        "wouldDo": found.would_do,
        "provenLeast": found.proven_least,
        "gap": found.gap,
        "moves": found.moves,
        "seconds": round(time.monotonic() - wall, 1),
        "cpuSeconds": round(time.process_time() - cpu, 1),
        "stay": found.stay,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def shown(found):
    """What a row of the documentation's table shows."""
    name, gap = found["size"], found["gap"]
    return {
        f"{name} in use": f"{found['inUse']:,}",
        f"{name} would do": f"{found['wouldDo']:,}",
        f"{name} proven least": f"{found['provenLeast']:,}",
        f"{name} gap": f"{100 * gap:.1f} %" if gap else "0",
        f"{name} seconds": f"{found['seconds']:.1f} s",
        f"{name} cpu": f"{found['cpuSeconds']:.1f} s of CPU",
        f"{name} memory": f"{found['megabytes']} MB",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    slow = float(os.environ.get("BAYPLAN_BENCH_SLOW", "1"))
    figures = {}
    for name in options.sizes:
        found = run(name, slow)
        figures |= shown(found)
        print(json.dumps(found), flush=True)
    if options.json:
        write(options.json, "bench/pack.py", figures, slow=slow)


if __name__ == "__main__":
    main()
