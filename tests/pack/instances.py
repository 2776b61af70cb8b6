"""Random small clusters, as plain numbers for trying everything and as objects for the engine."""

import os
from random import Random

from hypothesis import strategies as st

from bayplan.inspect import Cluster
from bayplan.pack.check import Check, profiles_of
from bayplan.pack.reading import Reading
from bayplan.testing.builders import HOSTNAME, ZONE, make_node, make_pod
from tests.pack.brute import Instance, NodeSpec, PodSpec

FIRST = int(os.environ.get("BAYPLAN_PACK_SEED", "0"))
KEYS = {"host": HOSTNAME, "zone": ZONE}


@st.composite
def instances(draw, nodes=12, pods=40):
    """Up to so many nodes and pods; few kinds of pods, each with some of the rules."""
    return make_instance(Random(draw(st.integers(0, 2**32 - 1)) + FIRST), nodes, pods)


def make_instance(chance, nodes=12, pods=40):
    """One instance by chance; about as many have a placement as have none."""
    zones = ["a", "b", "c"][: chance.randint(1, 3)]
    shapes = [
        NodeSpec(
            cpu=chance.randint(2, 6),
            memory=chance.randint(3, 8),
            zone=chance.choice(zones),
            pool=chance.choice(["", "", "x"]),
            tainted=chance.random() < 0.1,
        )
        for _ in range(chance.randint(1, 4))
    ]
    count = chance.randint(1, nodes)
    kinds = chance.randint(1, 3)
    # As many pods as about fill the nodes.
    room = sum(shapes[i % len(shapes)].cpu for i in range(count))
    most = min(pods, max(kinds, int(room * chance.uniform(0.15, 0.6))))
    sizes = [1] * kinds
    for _ in range(most - kinds):
        sizes[chance.randrange(kinds)] += 1
    return Instance(
        tuple(shapes[i % len(shapes)] for i in range(count)),
        tuple(_kind(chance, size, kinds) for size in sizes),
    )


def _kind(chance, size, kinds):
    rule = chance.choice(["", "", "", "", "apart", "near", "spread", "port", "both"])
    where, other = chance.choice(["host", "zone"]), chance.randrange(kinds)
    return PodSpec(
        count=size,
        cpu=chance.choice([1, 1, 2, 3]),
        memory=chance.choice([0, 1, 1, 2]),
        pool=chance.choice([*[""] * 7, "x"]),
        tolerates=chance.random() < 0.5,
        port=80 if rule == "port" else 0,
        apart=((other, where),) if rule in ("apart", "both") else (),
        near=((other, where),) if rule == "near" else (),
        spread=(
            ((chance.choice(["host", "zone"]), chance.randint(1, 2)),)
            if rule in ("spread", "both")
            else ()
        ),
    )


def build_nodes(instance):
    for i, spec in enumerate(instance.nodes):
        node = make_node(f"n{i:02}").zone(spec.zone).label({HOSTNAME: f"n{i:02}"})
        node.capacity(cpu=spec.cpu, memory=f"{spec.memory}Gi", pods=110)
        if spec.pool:
            node.label(pool=spec.pool)
        if spec.tainted:
            node.taint("special")
        yield node.build()


def build_pods(instance):
    """All pods without nodes, kind by kind."""
    for number, kind in enumerate(instance.kinds):
        for i in range(kind.count):
            pod = make_pod(f"k{number}-{i}").label(kind=f"k{number}")
            pod.owner("ReplicaSet", f"k{number}", uid=f"rs{number}")
            pod.req(cpu=kind.cpu, **({"memory": f"{kind.memory}Gi"} if kind.memory else {}))
            if kind.pool:
                pod.node_selector({"pool": kind.pool})
            if kind.tolerates:
                pod.tolerate("special")
            if kind.port:
                pod.host_port(kind.port)
            for other, where in kind.apart:
                pod.apart(f"kind=k{other}", KEYS[where])
            for other, where in kind.near:
                pod.near(f"kind=k{other}", KEYS[where])
            for where, skew in kind.spread:
                # Every node counts, as in the plain numbers.
                pod.spread(skew, KEYS[where], f"kind=k{number}", nodeAffinityPolicy="Ignore")
            yield pod.build()


def read(instance):
    """The engine with nodes only, and the problem of placing all pods."""
    engine = Cluster.from_objects(build_nodes(instance)).engine
    infos = [engine.cache.infos.make(pod) for pod in build_pods(instance)]
    reading = Reading(engine.cache.table, profiles_of(engine.profiles), engine.cache.infos.make)
    return engine, reading.read([], pending=infos)


def refused(engine, problem, moves):
    """Put pods where they are to go and ask the filters about every one of them."""
    placed = [engine.cache.assume(info, problem.names[row]) for info, row in moves.values()]
    check = Check(engine.cache.table, profiles_of(engine.profiles), engine.cache.infos.make)
    return check.refused(placed)
