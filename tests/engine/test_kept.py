"""What is kept between attempts is never stale, whatever was forgotten or failed in between."""

import random

import numpy as np
import pytest

from bayplan.api import ObjectMeta, Service
from bayplan.api.workloads import MapSelectorSpec
from bayplan.cluster.limits import Limits
from bayplan.conformance.kept import FEW, Run
from bayplan.engine.answers.kind_column import KindColumn
from bayplan.engine.cache import Cache, CacheError
from bayplan.engine.replay import describe
from bayplan.framework import Code, Depends, Status, unschedulable
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config

HOST = "kubernetes.io/hostname"


def node(name, zone="z"):
    return make_node(name).label({"zone": zone, HOST: name}).capacity({"cpu": "8", "pods": "99"})


def pod(name, app="web"):
    return make_pod(name).label(app=app)


def spread(name, app="web", at=""):
    made = pod(name, app).spread(1, "zone", f"app={app}")
    return (made.node(at) if at else made).build()


def anti(name, app, *terms, at=""):
    made = pod(name, app)
    for key, selector in terms:
        made = made.apart(selector, key)
    return (made.node(at) if at else made).build()


def two_zones(**more):
    return make_engine([node("a", "a").build(), node("b", "b").build()], **more)


@pytest.mark.parametrize("limits", [Limits(queries=4), FEW])
def test_a_count_that_was_forgotten_and_made_anew_is_not_taken_for_the_old_one(limits):
    engine = two_zones(cache=Cache(limits))
    assert 2 == engine.schedule(spread("web-1"), 0.0).feasible_nodes
    for number in range(6):
        engine.schedule(spread(f"x{number}", f"app{number}"), 0.0)
    for number in range(3):
        engine.cache.put(spread(f"other{number}", at="a"))

    decision = engine.schedule(spread("web-2"), 0.0)

    assert ("b", 1) == (decision.node_name, decision.feasible_nodes)
    engine.cache.validate()


@pytest.mark.parametrize("others", [0, 1, 2, 3, 8])
def test_no_term_of_a_placed_pod_is_lost_however_many_there_are(others):
    engine = make_engine([node("a").build()], cache=Cache(FEW))
    for number in range(others):
        app = f"x{number}"
        engine.cache.put(anti(app, app, (HOST, f"app={app}"), at="a"))
    engine.cache.put(anti("db", "db", (HOST, "noisy=1"), ("zone", "noisy=2"), at="a"))

    decision = engine.schedule(make_pod("n").label(noisy="1").build(), 0.0)

    assert "" == decision.node_name
    assert "didn't satisfy existing pods anti-affinity rules" in decision.message
    engine.cache.validate()


class Flaky:
    """Raises when told to, at the method it is told."""

    name = "Flaky"
    broken = ""

    def __init__(self, depends):
        self.depends = depends

    def depends_on(self, pod):
        return self.depends

    def _maybe(self, method):
        if method == self.broken:
            raise RuntimeError("a moment of weakness")

    def revision(self, state, pod):
        self._maybe("revision")
        return 1

    def pre_filter(self, state, pod, nodes):
        self._maybe("pre_filter")
        return None, None

    def filter_node(self, state, pod, node):
        self._maybe("filter_node")
        return unschedulable("closed") if "closed" in node.labels else None

    def pre_score(self, state, pod, nodes, feasible):
        self._maybe("pre_score")
        return None

    def score_node(self, state, pod, node):
        self._maybe("score_node")
        return len(node.pods)


@pytest.mark.parametrize("method", ["revision", "pre_filter", "filter_node", "pre_score",
                                    "score_node"])  # fmt: skip
@pytest.mark.parametrize("depends", list(Depends))
def test_a_plugin_that_raises_midway_leaves_nothing_stale(depends, method):
    flaky = Flaky(depends)
    registry = {**in_tree_registry(), "Flaky": lambda args, handle: flaky}
    config = plugin_config(multiPoint={"enabled": [{"name": "Flaky"}]})
    engine = two_zones(config=config, registry=registry)
    assert "a" == engine.schedule(spread("web-1"), 0.0).node_name
    for number in range(3):
        engine.cache.put(spread(f"o{number}", at="a"))
    engine.cache.put(node("a", "a").label(closed="").build())
    engine.cache.put(node("c", "b").build())
    flaky.broken = method
    engine.schedule(spread("web-2"), 0.0)
    flaky.broken = ""
    engine.validate()  # what is void now is not taken for right

    kept = describe(engine, engine.schedule(spread("web-3"), 0.0))
    engine.forget_answers()

    assert kept == describe(engine, engine.schedule(spread("web-3"), 0.0))
    assert {"b", "c"} == set(kept["totals"])


class Gate:
    """Has a say before filters alone, and fails at times."""

    name = "Gate"
    broken = True

    def __init__(self, depends):
        self.depends = depends

    def depends_on(self, pod):
        return self.depends

    def pre_filter(self, state, pod, nodes):
        return None, Status(Code.ERROR, "closed") if self.broken else None


@pytest.mark.parametrize("depends", list(Depends))
def test_a_pre_filter_that_failed_is_asked_again_also_where_nothing_is_filtered(depends):
    gate = Gate(depends)
    registry = {**in_tree_registry(), "Gate": lambda args, handle: gate}
    config = plugin_config(multiPoint={"enabled": [{"name": "Gate"}]})
    engine = two_zones(config=config, registry=registry)
    for number in range(2):
        assert "closed" in engine.schedule(pod(f"p{number}").build(), 0.0).message
    gate.broken = False

    assert "a" == engine.schedule(pod("p").build(), 0.0).node_name


class Wild:
    """Scores by what is used; what does not fit may score beyond all bounds."""

    name = "Wild"
    broken = False

    def __init__(self, wild):
        self._wild = wild

    def depends_on(self, pod):
        return Depends.SUMS

    def facet(self, state, pod):
        return None

    def score_node(self, state, pod, node):
        if self.broken:
            raise RuntimeError("a moment of weakness")
        return self._wild if node.requested_of("cpu") >= 2000 else len(node.pods)


@pytest.mark.parametrize("wild", [-(1 << 40), -(1 << 15), 101, 1 << 40])
def test_scores_by_kind_of_row_may_be_wild_where_a_pod_does_not_fit(wild):
    registry = {**in_tree_registry(), "Wild": lambda args, handle: Wild(wild)}
    config = plugin_config(multiPoint={"enabled": [{"name": "Wild", "weight": 100}]})
    nodes = [make_node(name).capacity({"cpu": "2", "pods": "9"}).build() for name in "abc"]
    engine = make_engine(nodes, config=config, registry=registry)
    engine.cache.put(pod("full").req(cpu="2").node("a").build())
    engine.cache.put(pod("some").req(cpu="1").node("b").build())

    assert "b" == engine.schedule(pod("p").req(cpu="1").build(), 0.0).node_name
    small = engine.schedule(pod("q").build(), 0.0)  # fits everywhere

    assert f"invalid score {wild}" in small.message
    assert "b" == engine.schedule(pod("r").req(cpu="1").build(), 0.0).node_name
    engine.validate()


def test_a_wild_score_is_still_known_after_the_plugin_failed_once():
    wild = Wild(101)
    registry = {**in_tree_registry(), "Wild": lambda args, handle: wild}
    config = plugin_config(multiPoint={"enabled": [{"name": "Wild"}]})
    nodes = [make_node(name).capacity({"cpu": "2", "pods": "9"}).build() for name in "abc"]
    engine = make_engine(nodes, config=config, registry=registry)
    engine.cache.put(pod("full").req(cpu="2").node("a").build())
    assert "invalid score 101" in engine.schedule(pod("p").build(), 0.0).message

    engine.cache.put(pod("new").req(cpu="1").node("b").build())  # a kind of row not asked about
    wild.broken = True
    assert "a moment" in engine.schedule(pod("q").build(), 0.0).message
    wild.broken = False

    assert "invalid score 101" in engine.schedule(pod("r").build(), 0.0).message


def test_pods_that_differ_in_labels_that_nothing_selects_share_every_answer():
    engine = two_zones()
    for number in range(5):
        engine.place(make_pod(f"p{number}").label({"pod-index": str(number)}).build(), 0.0)
    before = engine.answers_kept()
    engine.place(make_pod("p9").label({"pod-index": "9"}).build(), 0.0)

    assert before == engine.answers_kept()


def test_describing_or_trying_a_pod_does_not_move_the_next_winner():
    config = {**plugin_config(), "percentageOfNodesToScore": 50}
    nodes = [make_node(f"n{number}").capacity({"pods": "9"}).build() for number in range(300)]
    quiet, curious = make_engine(nodes, config=config), make_engine(nodes, config=config)
    for engine in (quiet, curious):
        assert engine.place(make_pod("p").build(), 0.0).node_name

    describe(curious, curious.schedule(make_pod("q").build(), 0.0))
    assert curious.trial([make_pod("q").build(), make_pod("r").build()], 0.0).placed

    winners = [engine.place(make_pod("q").build(), 0.0).node_name for engine in (quiet, curious)]
    assert winners[0] == winners[1]
    assert quiet.next_start == curious.next_start


def test_a_profiles_own_percentage_of_zero_wins():
    config = {**plugin_config(), "percentageOfNodesToScore": 50}
    nodes = [make_node(f"n{number}").capacity({"pods": "9"}).build() for number in range(300)]
    assert (
        150 == make_engine(nodes, config=config).schedule(make_pod("p").build(), 0).evaluated_nodes
    )
    config["profiles"][0]["percentageOfNodesToScore"] = 0
    engine = make_engine(nodes, config=config)

    assert 300 == engine.schedule(make_pod("p").build(), 0.0).evaluated_nodes


class Grumpy:
    """An extender that likes no node."""

    name = "http://grumpy"
    weight = 10
    is_prioritizer = True
    ignorable = is_filter = is_binder = supports_preemption = blocking = False

    def interested(self, pod):
        return True

    def prioritize_later(self, pod, nodes):
        return lambda: {node.metadata.name: -10 for node in nodes}


@pytest.mark.parametrize(
    "more",
    [
        {"extenders": [Grumpy()]},
        {
            "config": plugin_config(
                score={
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "TaintToleration", "weight": -3}],
                }
            )
        },
    ],
    ids=["an extender's scores", "a negative weight"],
)
def test_a_node_that_failed_the_filters_never_wins_however_low_the_totals(more):
    nodes = [
        node("tainted").taint("k").build(),
        node("b").build(),
        node("c").build(),
    ]
    engine = make_engine(nodes, **more)

    decision = engine.place(make_pod("p").build(), 0.0)

    assert 2 == decision.feasible_nodes
    assert decision.node_name in ("b", "c")


def test_a_nomination_follows_its_node_to_another_row():
    engine = make_engine([node(name).build() for name in "abc"])
    promised = make_pod("promised").req(cpu="8").priority(9).build()
    engine.cache.nominator.add(engine.cache.infos.make(promised), "c")
    assert 2 == engine.schedule(pod("p").req(cpu="1").build(), 0.0).feasible_nodes
    engine.cache.remove_node("a")  # c takes its row

    decision = engine.schedule(pod("q").req(cpu="1").build(), 0.0)

    assert ("b", 1) == (decision.node_name, decision.feasible_nodes)


def test_validate_sees_a_lost_term():
    engine = make_engine([node("a").build()])
    engine.cache.put(anti("db", "db", (HOST, "noisy=1"), at="a"))
    counts = engine.cache.table.counts
    counts._terms.clear()

    with pytest.raises(CacheError, match="required-anti terms differ"):
        engine.cache.validate()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda answers: spoil_column(answers, "NodeResourcesFit", "raw"), "NodeResourcesFit: sc"),
        (lambda answers: spoil_column(answers, "NodeUnschedulable", "fails"), "NodeUnschedulable"),
        (lambda answers: spoil_totals(answers), "totals of"),
    ],
    ids=["score", "filter", "totals"],
)
def test_validate_finds_what_is_kept_wrongly(spoil, told):
    engine = two_zones()
    engine.schedule(make_pod("p").req(cpu="1").build(), 0.0)
    engine.validate()

    spoil(engine._cycle.answers_of(engine.profiles["default-scheduler"]))

    with pytest.raises(AssertionError, match=told):
        engine.validate()


def spoil_column(answers, name, column):
    (answer,) = (item for item in answers._answers.values() if item.name == name)
    kept = getattr(answer, column)
    if isinstance(kept, KindColumn):
        kept.said.array += 1
    else:
        kept.values = np.ones(2, dtype=np.int64) if kept.values is None else kept.values + 1


def spoil_totals(answers):
    (totals,) = answers._totals.values()
    totals.masked = totals.masked + 1


@pytest.mark.parametrize("limits", [Limits(), FEW], ids=["roomy", "single digits"])
def test_random_events_leave_nothing_stale(limits):
    """The command `bayplan conformance kept` does the same for longer."""
    for seed in range(4):
        run = Run(f"test-{seed}", limits)
        for _ in range(12):
            assert "" == run.step()


def test_an_answer_is_about_a_facet_not_about_the_pod_that_was_asked_about_last():
    engine = make_engine([node("a").build(), node("b").build()])
    engine.schedule(make_pod("web").label(app="web").build(), 0)
    # From now on a placed pod's term means pods like the first; they have another facet.
    engine.place(make_pod("alone").apart("app=web", HOST).build(), 0)

    engine.validate()
    assert 1 == engine.schedule(make_pod("web-2").label(app="web").build(), 0).feasible_nodes


@pytest.mark.parametrize("domains", [0, 64])
def test_anti_affinity_by_host_follows_pods_row_by_row(domains):
    """With many domains only the rows that changed are asked, and all agree with asking anew."""
    rng = random.Random(domains)
    nodes = [node(f"n{number}").build() for number in range(24)]
    engine = make_engine(nodes, cache=Cache(Limits(domains=domains)))
    placed = []
    for step in range(40):
        body = make_pod(f"p{step}").label(app="web").req({"cpu": "1"}).apart("app=web", HOST)
        decision = engine.place(body.build(), 0)
        if decision.placed:
            placed.append(decision.info.pod)
        elif placed:
            engine.cache.remove_pod(placed.pop(rng.randrange(len(placed))))
        if placed and rng.random() < 0.3:
            engine.cache.remove_pod(placed.pop(rng.randrange(len(placed))))
        engine.validate()
        taken = {info.node_name for info in engine.cache.table.all_pods()}
        assert len(taken) == len(placed)


@pytest.mark.parametrize("placed", [1, 2, 3])
def test_a_node_that_joins_is_known_to_the_leaders_of_its_domain(placed):
    """Pods of one owner score zones as a whole; a new row and an old one change together."""
    meta = ObjectMeta(name="web", namespace="default")
    service = Service(metadata=meta, spec=MapSelectorSpec(selector={"app": "web"}))
    zoned = [make_node(f"n{i}").zone(f"z{i % 2}").capacity(cpu=2, pods=20) for i in range(3)]
    engine = make_engine([item.build() for item in zoned])
    engine.cache.objects.put(service)
    for number in range(placed):
        assert engine.place(pod(f"web-{number}").req(cpu="1").build(), 0.0).placed

    engine.cache.add_node(make_node("n3").zone("z0").capacity(cpu=2, pods=20).build())
    engine.cache.remove_pod(next(iter(engine.cache.table.all_pods())).pod)

    assert engine.place(pod("late").req(cpu="1").build(), 0.0).placed
    engine.validate()


def test_without_scores_and_extenders_the_first_node_that_fits_is_taken():
    """As upstream: looking further would cost and change nothing."""
    config = plugin_config(score={"disabled": [{"name": "*"}]})
    nodes = [make_node(f"n{number}").capacity({"pods": "9"}).build() for number in range(3)]
    engine = make_engine(nodes, config=config)
    decisions = [engine.place(make_pod(f"p{number}").build(), 0.0) for number in range(4)]

    assert [1, 1, 1, 1] == [decision.evaluated_nodes for decision in decisions]
    assert ["n0", "n1", "n2", "n0"] == [decision.node_name for decision in decisions]
