"""Gangs that have a place and that no greedy order finds, by construction.

A hidden placement is drawn first and the nodes are then made exactly as large as it needs, so that
no room is left over. Of the pods some must be apart, some need a label; they are asked for in an
order that leads the greedy scheduler astray: small ones first.
"""

from random import Random

from bayplan.inspect import Cluster
from bayplan.testing.builders import HOSTNAME, ZONE, make_node, make_pod


def hard_instance(seed):
    """An engine with nodes, and a gang that fits exactly; redrawn until greedy fails."""
    chance = Random(seed)
    while True:
        nodes, pods = _draw(chance)
        engine = Cluster.from_objects(nodes).engine
        if not engine.trial(pods, 0.0).placed:
            return engine, pods


def _draw(chance):
    hosts = chance.randint(4, 10)
    apps = [(chance.randint(1, 4), chance.randint(1, 4), chance.random()) for _ in range(5)]
    used = [[0, 0] for _ in range(hosts)]
    pods, apart = [], set()
    for number in range(hosts * chance.randint(2, 4)):
        host = chance.randrange(hosts)
        app = chance.randrange(len(apps))
        cpu, memory, kind = apps[app]
        if kind < 0.4 and (app, host) in apart:
            continue
        apart.add((app, host))
        used[host][0] += cpu
        used[host][1] += memory
        pod = make_pod(f"p-{number}").label(app=f"a{app}").req(cpu=cpu, memory=f"{memory}Gi")
        if kind < 0.4:
            pod.apart(f"app=a{app}")
        elif kind > 0.8:
            pod.node_selector({"pool": f"{host % 2}"})
        pods.append(((cpu + memory, chance.random()), pod.build()))
    nodes = [
        make_node(f"n{i:02}")
        .label({HOSTNAME: f"n{i:02}", ZONE: f"z{i % 3}", "pool": f"{i % 2}"})
        .capacity(cpu=max(cpu, 1), memory=f"{max(memory, 1)}Gi", pods=50)
        .build()
        for i, (cpu, memory) in enumerate(used)
    ]
    return nodes, [pod for _, pod in sorted(pods, key=lambda item: item[0])]
