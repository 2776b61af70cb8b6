"""One attempt: winners, failures, groups, extenders, broken plugins, records."""

import numpy as np
import pytest

from bayplan.engine.cycle.extending import Conversation
from bayplan.errors import BayplanError, ConfigError
from bayplan.framework import (
    Code,
    ExtenderError,
    ExtenderFilterResult,
    PreFilterResult,
    Status,
    Verdict,
    Victims,
    unschedulable,
)
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_budget, make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config
from tests.framework.test_profile import Fake

NOW = 1_700_000_000.0


def nodes(*names, cpu="4", **more):
    return [make_node(name).capacity(cpu=cpu, memory="8Gi", pods=110).build() for name in names]


def test_pods_spread_over_equal_nodes_in_heap_order():
    engine = make_engine(nodes("a", "b", "c"))

    chosen = [
        engine.place(make_pod(f"p{i}").req({"cpu": "1"}).build(), NOW).node_name for i in range(6)
    ]
    assert ["a", "b", "c", "a", "b", "c"] == chosen
    engine.cache.validate()


def test_without_nodes_the_text_is_upstreams():
    decision = make_engine().schedule(make_pod("p").build(), NOW)

    assert "no nodes available to schedule pods" == decision.message
    assert set() == decision.unschedulable_plugins


def test_a_pod_for_another_scheduler_is_an_error():
    engine = make_engine(nodes("a"))

    with pytest.raises(ConfigError, match='scheduler "other"; profiles: default-scheduler'):
        engine.schedule(make_pod("p").with_spec(schedulerName="other").build(), NOW)


def test_a_failure_names_reasons_and_rejecting_plugins():
    engine = make_engine([*nodes("a", "b"), make_node("c").taint("k", "NoSchedule").build()])
    decision = engine.schedule(make_pod("p").req({"cpu": "64"}).build(), NOW)

    assert decision.message.startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )
    assert {"NodeResourcesFit", "TaintToleration"} == decision.unschedulable_plugins


def broken(**methods):
    registry = in_tree_registry() | {"Broken": lambda args, handle: Fake("Broken", **methods)}
    points = {"preFilter", "filter", "score", "reserve", "permit"}
    from bayplan.framework import implements

    used = [p for p in points if implements(Fake("Broken", **methods), p)]
    config = plugin_config(**{point: {"enabled": [{"name": "Broken"}]} for point in used})
    return make_engine(nodes("a", "b"), config=config, registry=registry)


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        pytest.param({"filter": lambda *a: 1 / 0}, "ZeroDivisionError in filter", id="filter"),
        pytest.param({"filter_node": lambda *a: 1 / 0}, "ZeroDivisionError", id="scalar filter"),
        pytest.param(
            {"filter": lambda *a: Verdict(np.ones(9, dtype=bool))}, "9 rows", id="verdict shape"
        ),
        pytest.param({"score": lambda *a: [1, 2]}, "list from score", id="score type"),
        pytest.param({"score": lambda *a: np.ones(2)}, "float64 from score", id="score dtype"),
        pytest.param({"score_node": lambda *a: 900}, "invalid score 900", id="score range"),
        pytest.param({"pre_filter": lambda *a: 7}, "TypeError in pre_filter", id="pre_filter"),
    ],
)
def test_a_broken_plugin_fails_the_attempt_by_name_and_the_engine_goes_on(methods, text):
    engine = broken(**methods)
    decision = engine.place(make_pod("p").build(), NOW)

    assert not decision.placed
    assert Code.ERROR is decision.status.code
    assert "Broken" in decision.message
    assert text in decision.message
    assert set() == decision.unschedulable_plugins
    assert 0 == engine.cache.pod_count
    again = engine.place(make_pod("q").build(), NOW)
    assert "Broken" in again.message
    engine.cache.validate()


def test_a_plugin_that_recovers_is_asked_again():
    calls = []

    def moody(state, pod, node):
        calls.append(node.name)
        if len(calls) < 2:
            raise RuntimeError("not yet")

    engine = broken(filter_node=moody)

    assert not engine.place(make_pod("p").build(), NOW).placed
    assert engine.place(make_pod("p").build(), NOW).placed


def test_a_refused_reservation_is_undone():
    undone = []
    engine = broken(reserve=unschedulable("taken"), unreserve=lambda *a: undone.append(a[2]))
    decision = engine.place(make_pod("p").build(), NOW)

    assert "0/1 nodes are available: 1 taken." == decision.message
    assert {"Broken"} == decision.unschedulable_plugins
    assert ["a"] == undone
    assert 0 == engine.cache.pod_count


def test_permit_may_park_a_pod():
    engine = broken(permit=(Status(Code.WAIT, "gang"), 30.0))
    decision = engine.place(make_pod("p").build(), NOW)

    assert decision.placed
    assert decision.waits
    assert {"Broken": 30.0} == decision.timeouts
    engine.undo(decision)
    assert 0 == engine.cache.pod_count


def test_a_group_is_placed_together_or_not_at_all():
    engine = make_engine(nodes("a", "b", cpu="2"))
    pods = [make_pod(f"p{i}").req({"cpu": "1"}).build() for i in range(5)]

    result = engine.place_all(pods, NOW)
    assert not result.placed
    assert 0 == engine.cache.pod_count
    assert engine.trial(pods[:4], NOW).placed
    assert 0 == engine.cache.pod_count
    assert engine.place_all(pods, NOW, needed=4).placed
    assert 4 == engine.cache.pod_count
    engine.cache.validate()


def test_nominated_pods_keep_their_place():
    engine = make_engine(nodes("a", cpu="2"))
    waiting = make_pod("vip").priority(10).req({"cpu": "2"}).build()
    engine.cache.nominator.add(engine.cache.infos.make(waiting), "a")

    assert not engine.schedule(make_pod("p").req({"cpu": "1"}).build(), NOW).placed
    assert engine.schedule(make_pod("q").priority(11).req({"cpu": "1"}).build(), NOW).placed
    assert engine.place(waiting, NOW).placed
    assert 0 == len(engine.cache.nominator)


@pytest.mark.parametrize(
    ("priority", "placed"),
    [
        pytest.param(9, False, id="less important"),
        pytest.param(10, False, id="as important: who was nominated first keeps the place"),
        pytest.param(11, True, id="more important"),
    ],
)
def test_a_nominated_pod_gives_way_to_the_more_important_only(priority, placed):
    engine = make_engine(nodes("a", cpu="2"))
    waiting = make_pod("vip").priority(10).req({"cpu": "2"}).build()
    engine.cache.nominator.add(engine.cache.infos.make(waiting), "a")
    other = make_pod("p").priority(priority).req({"cpu": "1"}).build()

    assert placed == engine.schedule(other, NOW).placed


@pytest.mark.parametrize("first", [False, True], ids=["not the first", "the first"])
def test_the_nominated_node_is_tried_first(first):
    both = [*nodes("a"), *nodes("b", cpu="2")]
    engine = make_engine(both[::-1] if first else both)
    pod = make_pod("p").req({"cpu": "1"}).with_status(nominatedNodeName="b").build()

    assert "b" == engine.schedule(pod, NOW).node_name
    assert "a" == engine.schedule(make_pod("q").req({"cpu": "1"}).build(), NOW).node_name


def test_sampling_starts_where_the_last_search_ended():
    many = nodes(*(f"n{i:03}" for i in range(200)))
    config = plugin_config() | {"percentageOfNodesToScore": 50}
    engine = make_engine(many, config=config)
    first, second = (engine.place(make_pod(name).build(), NOW) for name in "pq")

    assert (100, 100) == (first.feasible_nodes, first.evaluated_nodes)
    assert "n000" == first.node_name
    assert "n100" == second.node_name
    assert 0 == engine.next_start


def test_preemption_takes_the_least_important_and_spares_budgets():
    placed = [
        make_pod("low-a").priority(1).req({"cpu": "4"}).label({"app": "x"}).node("a").build(),
        make_pod("low-b").priority(1).req({"cpu": "4"}).node("b").build(),
        make_pod("mid-c").priority(5).req({"cpu": "4"}).node("c").build(),
    ]
    budget = make_budget("guard", "app=x", 0).build()
    engine = make_engine(nodes("a", "b", "c"), placed, [budget])
    decision = engine.place(make_pod("vip").priority(10).req({"cpu": "2"}).build(), NOW)

    assert not decision.placed
    assert "b" == decision.nominating.nominated_node_name
    assert ["default/low-b"] == [pod.key for pod in decision.victims.pods]
    assert decision.record.victims is decision.victims


class Picky:
    """An extender for tests."""

    name = "http://picky"
    ignorable = False
    is_filter = is_prioritizer = True
    is_binder = supports_preemption = False
    weight = 2

    def __init__(self, keep, scores=None, fails=False):
        self.keep, self.scores, self.fails = keep, scores or {}, fails

    def interested(self, pod):
        return True

    def filter(self, pod, nodes):
        if self.fails:
            raise ExtenderError("connection refused")
        names = [node.name for node in nodes]
        left = tuple(name for name in names if name in self.keep)
        return ExtenderFilterResult(left, {n: "not picky enough" for n in names if n not in left})

    def prioritize_later(self, pod, nodes):
        return lambda: self.scores

    def process_preemption(self, pod, victims: dict[str, Victims]):
        return victims


def test_extenders_filter_and_score_after_the_plugins():
    engine = make_engine(nodes("a", "b", "c"), extenders=[Picky("bc", {"c": 10})])

    assert "c" == engine.schedule(make_pod("p").build(), NOW).node_name
    none = make_engine(nodes("a", "b"), extenders=[Picky("")]).schedule(make_pod("p").build(), NOW)
    assert none.message.startswith("0/2 nodes are available: 2 not picky enough.")
    assert {"Extender"} == none.unschedulable_plugins


def test_a_node_that_an_extender_gives_up_for_good_stays_so():
    """It may be named in both lists: then preemption must not try it."""

    class TwoMinds(Picky):
        def filter(self, pod, nodes):
            return ExtenderFilterResult((), {"a": "busy"}, {"a": "broken"})

    talk = Conversation([TwoMinds("")], make_pod("p").build(), nodes("a"))

    assert talk.filter() is None
    assert Code.UNSCHEDULABLE_AND_UNRESOLVABLE == talk.failed["a"].code


def test_an_ignorable_extender_may_fail():
    strict, lenient = Picky("a", fails=True), Picky("a", fails=True)
    lenient.ignorable = True
    pod = make_pod("p").build()

    assert not make_engine(nodes("a", "b"), extenders=[strict]).schedule(pod, NOW).placed
    assert make_engine(nodes("a", "b"), extenders=[lenient]).schedule(pod, NOW).placed


def test_a_record_explains_the_decision():
    full = make_pod("full").req({"cpu": "4"}).node("c").build()
    engine = make_engine(nodes("a", "b", "c"), [full])
    decision = engine.place(make_pod("p").req({"cpu": "1"}).build(), NOW)
    engine.place(make_pod("q").req({"cpu": "1"}).build(), NOW)
    record = decision.record

    assert ("Insufficient cpu",) == record.status_of("c").reasons
    assert record.status_of("a") is None
    assert {"Insufficient cpu": 1} == record.reasons()
    assert record.total_of("a") == record.total_of("b")
    assert 300 == record.scores_of("a")["TaintToleration"]
    assert "a" == record.node_name
    assert [record] == engine.records.of("uid-default-p")


def test_a_bad_selector_fails_that_pod_only():
    engine = make_engine(nodes("a", "b"))
    bad = make_pod("bad").with_spec(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Sideways"}]},
            }
        ]
    )
    decision = engine.place(bad.build(), NOW)

    assert '"Sideways" is not a valid label selector operator' in decision.message
    assert "PodTopologySpread" in decision.message
    assert engine.place(make_pod("good").build(), NOW).placed


def test_an_impossible_quantity_in_a_pod_is_refused_by_name():
    engine = make_engine(nodes("a"))

    with pytest.raises(BayplanError, match="1Zi"):
        engine.place(make_pod("p").req({"cpu": "1Zi"}).build(), NOW)
    assert engine.place(make_pod("q").build(), NOW).placed


def test_reasons_that_quote_values_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("bayplan.framework.contract.diagnosis._CROWD", 20)
    asked = iter(range(10_000))
    engine = broken(filter_node=lambda s, p, n: unschedulable(f"try {next(asked)}"))
    for number in range(40):
        decision = engine.place(make_pod(f"p{number}").build(), NOW)
        assert decision.message.startswith(f"0/2 nodes are available: 1 try {2 * number}, 1 try ")
    assert len(engine.outcomes.statuses) < 30


def test_narrow_integers_are_fine_as_scores():
    wide = np.iinfo(np.int64).max
    engine = broken(score=lambda s, p, nodes: np.full(nodes.count, 100, dtype=np.int8))
    chosen = [engine.place(make_pod(f"p{i}").req({"cpu": "1"}).build(), NOW) for i in range(6)]

    assert all(decision.placed for decision in chosen)
    assert wide > chosen[0].record.total_of("a") > 100


class Arranger:
    """Says where the pods of a group go that found no room one by one."""

    name = "Arranger"

    def post_filter(self, state, pod, statuses):
        return None, unschedulable("no")

    def arrange_group(self, pods, needed):
        return {pod.uid: "large" if pod.name == "big" else "small" for pod in pods}


def test_a_group_goes_where_a_plugin_arranges_it():
    config = plugin_config(postFilter={"enabled": [{"name": "Arranger"}]})
    registry = {**in_tree_registry(), "Arranger": lambda args, handle: Arranger()}
    nodes = [make_node("large").capacity(cpu=2, pods=9), make_node("small").capacity(cpu=1, pods=9)]
    engine = make_engine([node.build() for node in nodes], config=config, registry=registry)
    pods = [make_pod("little").req(cpu="1").build(), make_pod("big").req(cpu="2").build()]

    group = engine.place_all(pods, 0.0)

    assert group.placed
    assert ["small", "large"] == [decision.node_name for decision in group.decisions]


class Counts(Picky):
    """Prioritizes as it is told, at a weight."""

    is_filter = False

    def __init__(self, weight, **scores):
        super().__init__("", scores)
        self.weight = weight


@pytest.mark.parametrize(
    ("weight", "score", "total"),
    [
        (1, 10, 100),
        (2, -3, -60),
        (1, 1 << 62, -(1 << 63)),
        (1, (1 << 63) - 1, -10),
        (1, 1 << 63, 0),
        (1, (1 << 64) + 7, 70),
        (1, -(1 << 63) - 1, -10),
        (1 << 40, 1 << 20, 10 << 60),
        ((1 << 62) + 1, 1, (10 << 62) + 10),
    ],
)
def test_scores_of_extenders_overflow_as_those_of_go(weight, score, total):
    """Two's complement in 64 bits, whatever size of number an extender sends."""
    pod, both = make_pod("p").build(), nodes("a", "b")
    talk = Conversation([Counts(weight, a=score), Counts(1, b=3)], pod, both)

    assert talk.filter() is None
    wrapped = (total + (1 << 63)) % (1 << 64) - (1 << 63)
    assert [wrapped, 30] == talk.scores().tolist()


def test_a_pod_of_a_group_that_is_placed_is_promised_no_node_any_more():
    """Else other pods would count it twice: where it is, and where it was to go."""
    engine = make_engine(nodes("a", "b"))
    info = engine.cache.infos.make(make_pod("p").req({"cpu": "3"}).build())
    engine.cache.nominator.add(info, "a")
    decision = engine.place_in_group(info, NOW, "b")

    assert "b" == decision.node_name
    assert 0 == len(engine.cache.nominator)
    big = make_pod("q").priority(-1).req({"cpu": "4"}).build()
    assert "a" == engine.place(big, NOW).node_name


@pytest.mark.parametrize("cpu", ["1", "6"], ids=["one fits", "none fits"])
def test_nodes_that_pre_filter_left_out_are_told_apart_from_those_that_filters_reject(cpu):
    left = PreFilterResult(frozenset(("a", "full")))
    engine = broken(pre_filter=lambda *given: (left, None))
    for node in (*nodes("a"), *nodes("full", cpu="0"), *nodes("b", "c")):
        engine.cache.put(node)

    found = engine.node_statuses(engine.schedule(make_pod("p").req({"cpu": cpu}).build(), NOW))

    who = {name: None if status is None else status.plugin for name, status in found.items()}
    fit = "NodeResourcesFit"
    out = dict.fromkeys("bc", "PreFilterResult")
    assert {"a": None if cpu == "1" else fit, "full": fit, **out} == who
