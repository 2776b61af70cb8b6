"""What one more pod costs does not grow with what is there already.

Cost is counted, not timed: every Python and C function that is called on the way of a pod. A loop
over nodes, apps, terms or waiting pods shows in the count whatever the machine does.
"""

import sys
from itertools import count

import pytest

from bayplan.api import Namespace, ObjectMeta, PodDisruptionBudget, ReplicaSet, convert
from bayplan.config import FeatureGates, default_config
from bayplan.engine.loop import Scheduler
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod, make_pod_group
from tests.engine.clusters import make_engine

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GROWTH = 1.5
"""Calls may grow so much from small to large; a loop over what grew would make it five or more."""

CALLS_A_NODE = 60
"""Looking at one more node for victims; asking the filters about it makes it hundreds."""

NUMBERS = count()


def calls(work):
    """How many functions are called."""
    found = 0

    def note(frame, event, argument):
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def node(number):
    labels = {HOST: f"n{number}", ZONE: f"z{number % 3}"}
    return make_node(f"n{number}").label(labels).capacity({"cpu": "16", "pods": "110"})


def engine_of(nodes):
    return make_engine([node(number).build() for number in range(nodes)])


def pod(app="web", cpu="100m"):
    return make_pod(f"p{next(NUMBERS)}").label(app=app).req(cpu=cpu)


def place(engine, pods, before=lambda: None):
    """The calls that it takes to place pods, each after something has happened."""
    found = 0
    for made in pods:
        before()
        found += calls(lambda made=made: engine.place(made.build(), 0.0))
    return found


def own_label(size):
    """Pods of an indexed Job after `size` others of it."""
    engine = engine_of(20)
    pods = [pod().label(index=str(number)) for number in range(size + 20)]
    place(engine, pods[:size])
    return place(engine, pods[size:])


def own_term(size):
    """Apps that keep apart from themselves, after `size` other such apps."""
    engine = engine_of(20)
    pods = [pod(f"a{n}").apart(f"app=a{n}", HOST) for n in range(size + 20)]
    place(engine, pods[:size])
    return place(engine, pods[size:])


def own_spread(size):
    """Apps with a constraint of their own, after `size` other such apps."""
    engine = engine_of(20)
    pods = [pod(f"a{n}").spread(1, ZONE, f"app=a{n}") for n in range(size + 20)]
    place(engine, pods[:size])
    return place(engine, pods[size:])


def templates_in_turn(size):
    """Twenty templates in turn on `size` nodes, after two rounds."""
    engine = engine_of(size)
    pods = [pod(cpu=f"{100 + number % 20}m") for number in range(80)]
    place(engine, pods[:40])
    return place(engine, pods[40:])


def nodes_that_come(size):
    """A node comes before each pod, beside `size` others."""
    engine = engine_of(size)
    numbers = count(size)
    place(engine, [pod()])

    def join():
        engine.cache.put(node(next(numbers)).build())

    return place(engine, [pod() for _ in range(20)], join)


def promised_nodes(size):
    """Pods beside `size` nodes that are promised to others."""
    engine = engine_of(2 * size)
    for number in range(size):
        made = pod("promised", "15900m").priority(1000).build()
        engine.cache.nominator.add(engine.cache.infos.make(made), f"n{number}")
    place(engine, [pod()])
    return place(engine, [pod() for _ in range(20)])


def owned(number):
    return pod().owner("ReplicaSet", f"rs{number}")


def replica_set(number, version):
    meta = {"name": f"rs{number}", "namespace": "default", "resourceVersion": str(version)}
    return convert(
        ReplicaSet, {"metadata": meta, "spec": {"selector": {"matchLabels": {"a": "b"}}}}
    )


def owners_that_change(size):
    """Pods of a ReplicaSet while the status of others of `size` changes."""
    engine = engine_of(20)
    for number in range(size):
        engine.cache.put(replica_set(number, 0))
    place(engine, [owned(0), owned(0)])
    versions = count(1)

    def change():
        for number in range(size):
            engine.cache.put(replica_set(number, next(versions)))

    return place(engine, [owned(0) for _ in range(10)], change)


def namespaces_that_change(size):
    """Pods while nothing that scheduling reads changes in `size` namespaces."""
    engine = engine_of(20)
    place(engine, [pod(), pod()])
    versions = count(1)

    def change():
        for number in range(size):
            meta = ObjectMeta(name=f"ns{number}", resource_version=str(next(versions)))
            engine.cache.put(Namespace(metadata=meta))

    change()
    place(engine, [pod()])
    return place(engine, [pod() for _ in range(10)], change)


def a_pod_of_a_gang(size):
    """One of the `size` pods of a gang that are placed together."""
    gates = FeatureGates({"GenericWorkload": True}, "1.37")
    scheduler = Scheduler(default_config(gates), in_tree_registry(), gates=gates)
    for number in range(20):
        scheduler.put(node(number).build(), 0.0)
    scheduler.put(make_pod_group("g", size).build(), 0.0)
    for _ in range(size):
        scheduler.put(pod(cpu="1m").group("g").build(), 0.0)
    found = calls(lambda: scheduler.step(0.0, size))
    assert size == scheduler.cache.assumed_count
    return found / size


def victims(size, *, protected, apart):
    """A pod that others must make room for, on any of `size` nodes that are alike."""
    engine = engine_of(size)
    for number in range(4 * size):
        made = make_pod(f"v{number}").label(app="low").req(cpu="4").priority(0)
        engine.cache.put(made.node(f"n{number % size}").build())
    if protected:
        body = {
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "low"}}},
            "status": {"disruptionsAllowed": 0},
        }
        engine.cache.put(convert(PodDisruptionBudget, body))
    wanted = pod("high", "5").priority(100)
    if apart:
        wanted = wanted.apart("app=high", HOST)
    decision = engine.schedule(wanted.build(), 0.0)
    assert decision.victims is not None

    def again():
        made = pod("high", f"5{next(NUMBERS) % 9 + 1}00m").priority(100)
        engine.schedule((made.apart("app=high", HOST) if apart else made).build(), 0.0)

    return calls(again)


@pytest.mark.parametrize(
    "cost",
    [
        own_label,
        own_term,
        own_spread,
        templates_in_turn,
        nodes_that_come,
        promised_nodes,
        owners_that_change,
        namespaces_that_change,
        a_pod_of_a_gang,
    ],
)
def test_cost_does_not_grow(cost):
    small, large = cost(60), cost(600)

    assert large < GROWTH * small


@pytest.mark.parametrize("protected", [False, True], ids=["free", "protected"])
@pytest.mark.parametrize("apart", [False, True], ids=["plain", "keeps apart"])
def test_looking_for_victims_does_not_go_node_by_node(protected, apart):
    """One of the nodes that would lose the same pods is worked out."""
    few = victims(60, protected=protected, apart=apart)
    many = victims(600, protected=protected, apart=apart)

    assert many - few < 540 * CALLS_A_NODE
