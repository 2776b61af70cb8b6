"""What a plugin says its answers hang on changes what they cost, and nothing else.

One plugin that looks at the sums of a node alone, so that most `Depends` are true of it, is built
into one engine for each, and for each way to tell when answers change. All see the same changes and
are asked about the same pods; the engine that keeps nothing is the model.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.engine.replay import describe
from bayplan.framework import Code, Depends, PreFilterResult, Status, Verdict, unschedulable
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config
from tests.engine.test_agrees import RELAXED

NODES = "abcdefghijkl"
"""Enough for a change of one to be told from a change of most."""
BUSY = 3000
"""From so much CPU in use on a node answers about it are others, in thousandths."""
FULL = unschedulable("too busy")
BROKEN = Status(Code.ERROR, "on fire")
PRE_FILTERS = {
    "passes": (None, None),
    "succeeds": (None, Status(Code.SUCCESS)),
    "skips": (None, Status(Code.SKIP)),
    "rejects": (None, unschedulable("not here")),
    "never": (None, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "nowhere")),
    "fails": (None, Status(Code.ERROR, "boom")),
    "narrows": (PreFilterResult(frozenset("ab")), None),
}
PRE_SCORES = {"passes": None, "skips": Status(Code.SKIP), "fails": Status(Code.ERROR, "boom")}


class Sums:
    """Does what the pod's labels say; what PreFilter and PreScore write, later points read."""

    name = "Sums"

    def __init__(self, handle):
        self.table = handle.table

    def facet(self, state, pod):
        labels = pod.metadata.labels
        return tuple(labels.get(key) for key in ("filters", "scores", "busy", "burns"))

    def pre_filter(self, state, pod, nodes):
        says = pod.metadata.labels["filters"]
        if says not in ("skips", "fails", "never"):
            state.write("filters", BUSY)
        return PRE_FILTERS[says]

    def _busy(self, state):
        return state.read("filters")  # raises where PreFilter said that nobody may ask

    def _fire(self, pod):
        """From so much in use on a node the filter fails about it."""
        return BUSY + 1000 if "burns" in pod.metadata.labels else 1 << 40

    def pre_score(self, state, pod, nodes, feasible):
        says = pod.metadata.labels["scores"]
        if says == "passes":
            state.write("scores", (10, int(pod.metadata.labels["busy"])))
        return PRE_SCORES[says]


class ByNode(Sums):
    """Asked about one node after the other."""

    def filter_node(self, state, pod, node):
        used = node.requested_of("cpu")
        if used >= self._fire(pod):
            return BROKEN
        return FULL if used >= self._busy(state) else None

    def score_node(self, state, pod, node):
        idle, busy = state.read("scores")
        return busy if node.requested_of("cpu") >= BUSY // 2 else idle + len(node.pods)


class ByTable(Sums):
    """Asked about many nodes at once."""

    def filter(self, state, pod, nodes):
        used, busy = nodes.requested(0), self._busy(state)
        if used.max(initial=0) < self._fire(pod):
            return Verdict(used < busy, FULL.code, FULL.reasons)
        return Verdict.by_outcome(
            np.where(used >= self._fire(pod), 2, used >= busy), (FULL, BROKEN)
        )

    def score(self, state, pod, nodes):
        idle, busy = state.read("scores")
        return np.where(nodes.requested(0) >= BUSY // 2, busy, idle + nodes.pod_count)


class Turned:
    """Small scores become large ones."""

    def normalize(self, state, pod, scores, feasible):
        return 100 - scores


class Revised:
    """May hang on anything, and tells when that changed."""

    def revision(self, state, pod):
        return self.table.changes.generation


class Narrow(Revised):
    """Tells what a change of pods reaches, too."""

    def filter_affects(self, state, pod, rows):
        return rows


class OnSums:
    def depends_on(self, pod):
        return Depends.SUMS


class OnUsage:
    def depends_on(self, pod):
        return Depends.USAGE


def engine_with(*parts):
    """An engine with a plugin made of these."""
    kind = type("Sums", parts, {})
    registry = {**in_tree_registry(), "Sums": lambda args, handle: kind(handle)}
    return make_engine(
        config=plugin_config(multiPoint={"enabled": [{"name": "Sums"}]}), registry=registry
    )


@st.composite
def asked(draw, may_burn):
    """A pod that the plugin is asked about."""
    mostly = st.sampled_from(["passes"] * 4 + sorted(PRE_FILTERS))
    scores = st.sampled_from(["passes"] * 4 + sorted(PRE_SCORES))
    busy = st.sampled_from([0, 50, 100, 101, -1])  # the last two are no scores
    burns = draw(st.sampled_from([{}, {}, {"burns": ""}])) if may_burn else {}
    labels = burns | {"filters": draw(mostly), "scores": draw(scores), "busy": str(draw(busy))}
    return make_pod("asked").label(labels).req(cpu=draw(st.sampled_from(["0", "1"]))).build()


@st.composite
def changes(draw, step):
    """What happens to a cluster, to be done to several."""
    name = draw(st.sampled_from(NODES))
    if draw(st.integers(0, 4)) == 0:
        return lambda cache: cache.remove_node(name)
    if draw(st.booleans()):
        cpu = draw(st.sampled_from(["4", "8"]))
        made = make_node(name).capacity(cpu=cpu, memory="8Gi", pods="9").build()
        return lambda cache: cache.put(made)
    cpu = draw(st.sampled_from(["0", "1", "1500m", "3"]))
    placed = make_pod(f"p{step % 6}").req(cpu=cpu).node(name).build()

    def again(cache):
        cache.remove_pod(placed)
        cache.put(placed)

    return again


def told(engine, pod):
    """All that is decided about a pod; scores only where there is something to choose from."""
    decision = engine.schedule(pod, 0.0)
    if decision.feasible_nodes == 1:
        return decision.node_name, engine.node_statuses(decision)
    return decision.node_name, describe(engine, decision)


@pytest.mark.parametrize("turned", [False, True], ids=["as they are", "normalised"])
@pytest.mark.parametrize("promise", [OnSums, OnUsage, Revised, Narrow])
@settings(RELAXED, max_examples=12)
@given(data=st.data())
def test_a_promise_of_what_answers_hang_on_changes_none_of_them(promise, turned, data):
    before = (Turned,) if turned else ()
    kept = {form: engine_with(*before, promise, form) for form in (ByNode, ByTable)}
    model = engine_with(*before, ByNode)
    # What is kept by row fails with any row, what may hang on anything with one that is met.
    may_burn = promise in (Revised, Narrow)
    first = data.draw(st.integers(1, len(NODES)))
    for name in NODES[:first]:
        made = make_node(name).capacity(cpu="8", memory="8Gi", pods="9").build()
        for engine in (model, *kept.values()):
            engine.cache.put(made)
    pods = data.draw(st.lists(asked(may_burn), min_size=1, max_size=3))
    for step in range(data.draw(st.integers(1, 6))):
        happens = [data.draw(changes(step)) for _ in range(data.draw(st.integers(0, 6)))]
        for engine in (model, *kept.values()):
            for change in happens:
                change(engine.cache)
        for pod in pods:
            model.forget_answers()
            expected = told(model, pod)
            for form, engine in kept.items():
                assert expected == told(engine, pod), form
    for engine in kept.values():
        engine.validate()
        for name in NODES:
            engine.cache.remove_node(name)
        engine.validate()
