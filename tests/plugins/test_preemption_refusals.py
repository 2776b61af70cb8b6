"""Preemption that does not help, is not allowed or cannot be worked out: what is said and done."""

import pytest

from bayplan.api import PodGroup, convert
from bayplan.config import FeatureGates
from bayplan.framework import Code, ExtenderError, Status, Victims, failed
from bayplan.plugins import in_tree_registry
from bayplan.plugins.default_preemption.victims import Budgets, choose_victims, compile_budgets
from bayplan.testing import make_budget, make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config
from tests.engine.test_engine import Picky
from tests.plugins.test_preempted_groups import group

NOW = 1_900_000_000.0
GROUPED = FeatureGates({"GenericWorkload": True})


def node(name, cpu="2"):
    return make_node(name).capacity(cpu=cpu, memory="4Gi", pods=9)


def low(name, where="a", cpu="2"):
    return make_pod(name).req(cpu=cpu).priority(1).node(where)


def high(cpu="2"):
    return make_pod("high").req(cpu=cpu).priority(10)


def decide(*objects, pod=None, **more):
    built = [item.build() for item in objects]
    nodes = [item for item in built if item.KIND == "Node"]
    pods = [item for item in built if item.KIND == "Pod"]
    others = [item for item in built if item.KIND not in ("Node", "Pod")]
    engine = make_engine(nodes, pods, others, **more)
    return engine.schedule((pod or high()).build(), NOW)


def outcome(decision):
    """Code and words of preemption, and who goes."""
    status, victims = decision.post_filter_status, decision.victims
    gone = [] if victims is None else [pod.name for pod in victims.pods]
    return (status.code, status.message.removeprefix("preemption: "), gone)


# -- a victim on its way out ----------------------------------------------------------------


LEAVING = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
WAIT = "not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize("gates", [FeatureGates(), GROUPED], ids=["pods", "groups"])
@pytest.mark.parametrize(
    ("condition", "leaves", "priority", "waits"),
    [
        ({}, True, 1, True),
        ({}, False, 1, False),
        ({"type": "Ready"}, True, 1, False),
        ({"status": "False"}, True, 1, False),
        ({"reason": "EvictionByEvictionAPI"}, True, 1, False),
        ({}, True, 9, True),
        ({}, True, 10, False),
    ],
)
def test_a_pod_waits_for_those_that_leave_the_node_it_was_promised(
    condition, leaves, priority, waits, gates
):
    going = make_pod("going").req(cpu="2").priority(priority).node("a")
    going.with_status(conditions=[LEAVING | condition])
    if leaves:
        going.terminating()
    objects = [node("a"), going, low("other", "b"), node("b")]
    if gates is GROUPED:
        objects.append(Built(convert(PodGroup, group("g"))))

    found = decide(*objects, pod=high().nominated("a"), gates=gates)

    assert waits == (outcome(found)[1] == WAIT)
    assert waits == (found.victims is None)


class Built:
    """An object that needs no builder."""

    def __init__(self, item):
        self.build = lambda: item


def test_a_promise_of_a_node_that_can_never_do_is_no_reason_to_wait():
    going = low("going").with_status(conditions=[LEAVING]).terminating()

    found = decide(node("a").cordon(), going, node("b"), low("x", "b"), pod=high().nominated("a"))

    assert ["x"] == outcome(found)[2]


# -- extenders ------------------------------------------------------------------------------


class Judge(Picky):
    """An extender that has a say in who goes."""

    is_filter = is_prioritizer = False
    supports_preemption = True

    def __init__(self, answer, ignorable=False, interested=True):
        super().__init__("ab")
        self.answer, self.ignorable, self._interested = answer, ignorable, interested
        self.asked = []

    def interested(self, pod):
        return self._interested

    def process_preemption(self, pod, victims):
        self.asked.append(sorted(victims))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(victims)


def drop(*names):
    return lambda victims: {name: each for name, each in victims.items() if name not in names}


def spare(*names):
    """Nobody has to go on some nodes."""
    return lambda victims: {n: Victims(()) if n in names else each for n, each in victims.items()}


TWO = (node("a"), low("x", "a"), node("b"), low("y", "b").priority(2))
BROKEN = ExtenderError("connection refused")
NOBODY = 'expected at least one victim pod on node "a"'


@pytest.mark.parametrize(
    ("judges", "found"),
    [
        ([Judge(drop())], (Code.SUCCESS, ["x"])),
        ([Judge(drop("a"))], (Code.SUCCESS, ["y"])),
        ([Judge(drop("a"), interested=False)], (Code.SUCCESS, ["x"])),
        ([Judge(drop("a", "b"))], (Code.UNSCHEDULABLE, "no candidate node for preemption")),
        ([Judge(BROKEN)], (Code.ERROR, "connection refused")),
        ([Judge(BROKEN, ignorable=True)], (Code.SUCCESS, ["x"])),
        ([Judge(spare("a"))], (Code.ERROR, NOBODY)),
        ([Judge(spare("a"), ignorable=True)], (Code.SUCCESS, ["y"])),
        ([Judge(BROKEN, ignorable=True), Judge(drop("a"))], (Code.SUCCESS, ["y"])),
        ([Judge(drop("a")), Judge(BROKEN)], (Code.ERROR, "connection refused")),
    ],
)
def test_extenders_choose_among_the_candidates(judges, found):
    code, words, gone = outcome(decide(*TWO, extenders=judges))

    assert found == (code, gone if code is Code.SUCCESS else words)
    asked = [judge.asked for judge in judges]
    assert asked[0] == ([["a", "b"]] if judges[0].interested(None) else [])


def test_an_extender_without_a_say_is_not_asked_and_none_is_once_nothing_is_left():
    silent, strict, late = Judge(BROKEN), Judge(drop("a", "b")), Judge(drop())
    silent.supports_preemption = False

    decide(*TWO, extenders=[silent, strict, late])

    assert ([], [["a", "b"]], []) == (silent.asked, strict.asked, late.asked)


@pytest.mark.parametrize(
    ("percentage", "absolute", "count"),
    [(10, 100, 20), (10, 1, 2), (50, 1, 10), (10, 5, 5), (100, 0, 20), (9, 1, 1)],
)
def test_so_many_candidates_are_looked_for(percentage, absolute, count):
    args = {
        "minCandidateNodesPercentage": percentage,
        "minCandidateNodesAbsolute": absolute,
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "DefaultPreemptionArgs",
    }
    config = plugin_config()
    config["profiles"][0]["pluginConfig"] = [{"name": "DefaultPreemption", "args": args}]
    nodes = [node(f"n{number}") for number in range(20)]
    pods = [low(f"p{number}", f"n{number}") for number in range(20)]
    judge = Judge(drop())

    decide(*nodes, *pods, config=config, extenders=[judge])

    assert [count] == [len(names) for names in judge.asked]


# -- plugins that fail while pods come and go ----------------------------------------------------


class Touchy:
    """A filter that is told who comes and goes, and fails at some."""

    name = "Touchy"

    def __init__(self, **fails):
        self.fails = fails

    def pre_filter(self, state, pod, nodes):
        state.write("touchy", self)
        return None, None

    def clone(self):
        return self

    def filter_node(self, state, pod, node):
        return self.fails.get("filter", {}).get(tuple(info.pod.name for info in node.pods))

    def add_pod(self, state, pod, added, node):
        return self.fails.get("add", {}).get(added.pod.name)

    def remove_pod(self, state, pod, removed, node):
        return self.fails.get("remove", {}).get(removed.pod.name)


SICK = failed("sick")


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        ({"remove": {"x": SICK}}, 'running RemovePod on PreFilter plugin "Touchy": sick'),
        ({"add": {"x": SICK}}, 'running AddPod on PreFilter plugin "Touchy": sick'),
        ({"filter": {(): SICK}}, 'running "Touchy" filter plugin: sick'),
    ],
)
@pytest.mark.parametrize("gates", [FeatureGates(), GROUPED], ids=["pods", "groups"])
def test_what_fails_while_pods_come_and_go_fails_the_attempt(fails, words, gates):
    config = plugin_config(multiPoint={"enabled": [{"name": "Touchy"}]})
    registry = {**in_tree_registry(), "Touchy": lambda args, handle: Touchy(**fails)}
    objects = [node("a"), low("x"), Built(convert(PodGroup, group("g")))]

    found = decide(*objects, config=config, registry=registry, gates=gates)

    code, told, gone = outcome(found)
    assert (Code.ERROR, []) == (code, gone)
    assert words in told


def test_a_node_on_which_nobody_has_to_go_is_no_candidate():
    """A filter that refused the node before, and does not any more."""
    moods = iter([Status(Code.UNSCHEDULABLE, "moody")])

    class Moody(Touchy):
        def filter_node(self, state, pod, node):
            return next(moods, None)

    config = plugin_config(multiPoint={"enabled": [{"name": "Touchy"}]})
    registry = {**in_tree_registry(), "Touchy": lambda args, handle: Moody()}

    found = decide(node("a", "4"), low("x"), config=config, registry=registry)

    assert (Code.ERROR, 'expected at least one victim pod on node "a"', []) == outcome(found)


# -- the parts ---------------------------------------------------------------------------------


def test_a_node_without_less_important_pods_is_no_help():
    found = choose_victims(None, "a", [], Budgets([]), NOW, asks_again=False)

    assert Code.UNSCHEDULABLE_AND_UNRESOLVABLE is found.code
    assert "No preemption victims found for incoming pod" == found.message


@pytest.mark.parametrize(("selector", "counts"), [("app=x", 1), ("", 0), (None, 0)])
def test_a_budget_protects_only_what_it_names(selector, counts):
    budget = make_budget("b", selector, 1).build()

    assert counts == len(compile_budgets([budget]))


def test_a_budget_that_cannot_be_read_protects_nobody():
    bad = make_budget("bad", "app=x", 0)
    bad.spec["selector"] = {"matchExpressions": [{"key": "app", "operator": "Sideways"}]}
    good = make_budget("good", "app=y", 0)

    (kept,) = compile_budgets([bad.build(), good.build()])

    assert kept.means(make_pod("p").label(app="y").build())
    assert not kept.means(make_pod("p").label(app="x").build())
    assert not kept.means(make_pod("p", "elsewhere").label(app="y").build())
