"""The order of pods on a node, by which kube-scheduler tells equally important pods apart.

Its cache puts a pod at the end of its node whenever it hears of it, and lets the last one take the
place of one that goes.
"""

import random

from bayplan.engine.cache import Cache
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine

NOW = 1_900_000_000.0
NODES = "abc"


class Upstream:
    """What kube-scheduler's cache does to the lists of pods, and nothing else."""

    def __init__(self):
        self.nodes = {}

    def take(self, name):
        for pods in self.nodes.values():
            if name in pods:
                place, last = pods.index(name), pods.pop()
                if last != name:
                    pods[place] = last

    def hear(self, name, node):
        self.take(name)
        self.nodes.setdefault(node, []).append(name)


class Life:
    """Random events for the cache and for the model."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.cache, self.model = Cache(), Upstream()
        self.pods, self.assumed, self.there = {}, {}, set()
        self.made = 0

    def step(self):
        kinds = (self.add, self.add, self.hear, self.hear, self.hear, self.delete, self.node)
        self.rng.choice((*kinds, self.assume, self.settle))()

    def pod(self, name):
        rng = self.rng
        pod = make_pod(name).label(app=rng.choice("xy")).req(cpu=rng.choice(["1", "2"]))
        return pod.started(f"202{rng.randrange(5)}-01-01T00:00:00Z")

    def add(self):
        self.made += 1
        self._hear(f"p{self.made}", self.rng.choice(NODES))

    def hear(self):
        """Of a pod that may have changed in nothing, its start, its labels or its requests."""
        if self.pods:
            name = self.rng.choice(sorted(self.pods))
            if self.rng.random() < 0.3:
                self._put(name, self.pods[name])
            else:
                self._hear(name, self.pods[name].node_name)

    def _hear(self, name, node):
        self._put(name, self.pod(name).node(node).build())

    def _put(self, name, pod):
        self.pods[name] = pod
        self.cache.put(pod)
        self.model.hear(name, pod.node_name)

    def delete(self):
        if self.pods:
            name = self.rng.choice(sorted(self.pods))
            self.cache.delete(self.pods.pop(name))
            self.model.take(name)

    def node(self):
        name = self.rng.choice(NODES)
        if name in self.there and self.rng.random() < 0.5:
            self.there.discard(name)
            self.cache.remove_node(name)
        else:
            self.there.add(name)
            self.cache.put(make_node(name).capacity(cpu=self.rng.choice([4, 8])).build())

    def assume(self):
        self.made += 1
        name, node = f"p{self.made}", self.rng.choice(NODES)
        self.assumed[name] = self.pod(name).build(), node
        self.cache.assume(self.cache.infos.make(self.assumed[name][0]), node)
        self.model.hear(name, node)

    def settle(self):
        """A binding is confirmed, as it was assumed or with a label more, or has failed."""
        if not self.assumed:
            return
        name = self.rng.choice(sorted(self.assumed))
        pod, node = self.assumed.pop(name)
        if self.rng.random() < 0.3:
            self.cache.forget(pod)
            self.model.take(name)
        else:
            self._hear(name, node)

    def lying(self):
        return {name: [i.pod.name for i in self.cache.table.pods_of(name)] for name in NODES}


def test_pods_lie_as_in_the_cache_of_kube_scheduler():
    for seed in range(40):
        life = Life(seed)
        for step in range(60):
            life.step()

            expected = {name: life.model.nodes.get(name, []) for name in NODES}
            assert expected == life.lying(), (seed, step)


def running(name, node="a", **requests):
    pod = make_pod(name).req(requests or {"cpu": "1"}).node(node).label(app=name)
    return pod.started("2026-01-01T00:00:30Z")


def victims(engine, cpu="1"):
    decision = engine.schedule(make_pod("high").req(cpu=cpu).priority(10).build(), NOW)
    return [pod.name for pod in decision.victims.pods]


def test_of_equal_pods_the_one_heard_of_last_goes():
    pods = [running(name) for name in "xyz"]
    engine = make_engine([make_node("a").capacity(cpu=3).build()], [pod.build() for pod in pods])
    assert ["z"] == victims(engine)

    engine.cache.put(pods[0].with_status(phase="Running").build())  # nothing that rows show

    assert ["z", "y", "x"] == [info.pod.name for info in engine.cache.table.pods[0]]
    assert ["x"] == victims(engine)
