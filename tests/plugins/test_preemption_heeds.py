"""Filters that do not heed the victims change nothing: the quick dry run equals the long one."""

import random

from bayplan.plugins import in_tree_registry
from bayplan.testing import make_budget, make_node, make_pod
from tests.engine.clusters import make_engine
from tests.plugins.test_preemption_memory import told

ZONE, HOST = "zone", "kubernetes.io/hostname"
NOW = 1_900_000_000.0


class Blind:
    """A plugin that does not say whom it heeds, so that it is asked about every node."""

    def __init__(self, plugin):
        self._plugin = plugin

    def __getattr__(self, name):
        if name == "heeds":
            raise AttributeError(name)
        return getattr(self._plugin, name)


def blind(name):
    new = in_tree_registry()[name]
    return lambda args, handle: Blind(new(args, handle))


def choosy(rng, pod):
    """A pod with a rule about others, or none."""
    app, key = f"app={rng.choice('abc')}", rng.choice([ZONE, HOST])
    how = rng.randrange(5)
    if how == 0:
        return pod.apart(app, key)
    if how == 1:
        return pod.near(app, key)
    return pod.spread(rng.choice([1, 2]), key, app) if how == 2 else pod


def cluster(rng):
    nodes, pods = [], []
    for number in range(8):
        labels = {ZONE: f"z{number % 3}", HOST: f"n{number}"}
        nodes.append(make_node(f"n{number}").label(labels).capacity(cpu=4, pods=9).build())
        for place in range(rng.randrange(5)):
            pod = make_pod(f"p{number}-{place}").label(app=rng.choice("abc")).req(cpu="1")
            pod = choosy(rng, pod).priority(rng.choice([0, 5, 50])).node(f"n{number}")
            pods.append(pod.started(f"202{rng.randrange(5)}-01-01T00:00:00Z").build())
    budget = make_budget("b", "app=a", allowed=rng.randrange(2)).build()
    return nodes, pods, [budget] if rng.random() < 0.5 else []


def test_victims_are_those_of_asking_every_filter():
    preempted = 0
    names = ("InterPodAffinity", "PodTopologySpread")
    asked = {**in_tree_registry(), **{name: blind(name) for name in names}}
    for seed in range(60):
        rng = random.Random(seed)
        nodes, pods, budgets = cluster(rng)
        quick = make_engine(nodes, pods, budgets)
        long = make_engine(nodes, pods, budgets, registry=asked)
        for number in range(6):
            cpu = rng.choice(["1", "2", "4"])
            pod = make_pod(f"high-{number}").label(app=rng.choice("abc")).req(cpu=cpu)
            wanted = choosy(rng, pod.priority(10)).build()
            expected = told(long.schedule(wanted, NOW))

            assert expected == told(quick.schedule(wanted, NOW)), (seed, number)
            preempted += bool(expected[2])
    assert preempted > 30
