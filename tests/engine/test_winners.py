"""Winners that were listed ahead are those of an engine that keeps nothing.

A few templates come again and again while pods and nodes come and go, so that rows leave the top,
come back to it, and tie with others of another kind.
"""

import random

import pytest

from bayplan.cluster.limits import Limits
from bayplan.engine.cache import Cache
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config

LIMITS = [
    pytest.param(Limits(), id="roomy"),
    pytest.param(Limits(changes=7, journal=5, alike=3), id="histories are short"),
    pytest.param(Limits(own_scores=2, domains=3), id="few domains"),
]


def node(rng, name):
    cpu = rng.choice(["4", "4", "4", "8"])
    labels = {"zone": f"z{rng.randrange(3)}", "kubernetes.io/hostname": name}
    made = make_node(name).label(labels).capacity(cpu=cpu, memory="16Gi", pods=20)
    if rng.random() < 0.2:
        made = made.image("web:1", 500 << 20)
    return made.build()


def template(rng, number):
    """Requests that differ so little that scores tie, and perhaps a rule about others."""
    app, cpu = f"a{number}", rng.choice(["10m", "20m", "40m", "500m"])
    rule, image = rng.randrange(7), rng.random() < 0.3

    def make(name):
        made = make_pod(name).label(app=app).req(cpu=cpu, memory="64Mi")
        if rule < 2:
            made = made.spread(1 + rule, "zone", f"app={app}", hard=rule == 0)
        elif rule == 2:
            made = made.apart(f"app={app}", "kubernetes.io/hostname")
        elif rule == 3:
            made = made.near(f"app={app}", "zone")
        return (made.image("web:1") if image else made).build()

    return make


def told(decision):
    """Who won, why nobody did, and the scores of all nodes that fit."""
    record = decision.record
    fits = [name for name in record.names if record.status_of(name) is None]
    scores = {name: record.scores_of(name) for name in fits}
    return decision.node_name, decision.message, decision.feasible_nodes, scores


class Lives:
    """Two engines through the same events, one of which forgets everything before each decision."""

    def __init__(self, seed, limits, config=None, templates=6, leave=0.3):
        self._rng = random.Random(seed)
        nodes = [node(self._rng, f"n{number}") for number in range(self._rng.choice([3, 12, 40]))]
        self._kept = make_engine(nodes, cache=Cache(limits), config=config)
        self._forgetful = make_engine(nodes, config=config)
        self._templates = [template(self._rng, number) for number in range(templates)]
        self._leave = leave
        self._numbers = 0
        self._placed = []
        self._nodes = [item.metadata.name for item in nodes]

    @property
    def _both(self):
        return self._kept, self._forgetful

    def step(self):
        """Something happens, then a pod is placed; what both engines say."""
        rng = self._rng
        self._numbers += 1
        if rng.random() < self._leave and self._placed:
            gone = self._placed.pop(rng.randrange(len(self._placed)))
            for engine in self._both:
                engine.cache.remove_pod(gone)
        if rng.random() < 0.04:
            self._change_nodes()
        made = rng.choice(self._templates)(f"p{self._numbers}")
        self._forgetful.forget_answers()
        found = [engine.place(made, 0.0) for engine in self._both]
        if found[0].placed:
            self._placed.append(made)
        return [told(decision) for decision in found]

    def _change_nodes(self):
        rng = self._rng
        name = f"m{self._numbers}" if rng.random() < 0.5 else rng.choice(self._nodes)
        made = node(rng, name)
        for engine in self._both:
            engine.cache.put(made)
        if name not in self._nodes:
            self._nodes.append(name)


@pytest.mark.parametrize("limits", LIMITS)
def test_listed_winners_are_those_of_an_engine_that_keeps_nothing(limits):
    for seed in range(4):
        lives = Lives(seed, limits)
        for step in range(120):
            kept, fresh = lives.step()

            assert fresh == kept, (seed, step)


@pytest.mark.parametrize("name", ["ImageLocality", "NodeResourcesFit"])
def test_the_same_if_few_plugins_score(name):
    """With images alone totals do not change as pods come; one node wins until it is full."""
    config = plugin_config(score={"disabled": [{"name": "*"}], "enabled": [{"name": name}]})
    for seed in range(4):
        lives = Lives(seed, Limits(), config)
        for step in range(60):
            kept, fresh = lives.step()

            assert fresh == kept, (seed, step)


def test_rows_that_one_pod_after_the_other_leaves_win_in_turn():
    """One template, and nearly as many go as come: a row is above all others again and again."""
    for seed in range(8):
        lives = Lives(seed, Limits(), templates=1, leave=0.95)
        for step in range(60):
            kept, fresh = lives.step()

            assert fresh == kept, (seed, step)
