"""A plugin that says which rows a change of pods reaches is kept right, and asked no more."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayplan.framework import Code, Status, unschedulable
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config

NAMES = [f"n{number:02}" for number in range(48)]
FULL = unschedulable("the next one is full")


class Whole:
    """A node is refused while the next one of the row has two pods; four are an error."""

    name = "Neighbours"

    def __init__(self, handle, tells):
        self.handle, self.tells = handle, tells
        self.asked = []

    def revision(self, state, pod):
        return tuple(sorted(self.counts().items()))

    def counts(self):
        found = dict.fromkeys(NAMES, 0)
        table = self.handle.table
        for row in range(table.count):
            info = table.info(row)
            found[info.name] = len(info.pods)
        return found

    def pre_filter(self, state, pod, nodes):
        state.write("counts", self.counts())
        return None, None

    def filter_node(self, state, pod, node):
        self.asked.append(node.name)
        beside = state.read("counts")[NAMES[(NAMES.index(node.name) + 1) % len(NAMES)]]
        if beside >= 4:
            return Status(Code.ERROR, "crushed")
        return FULL if beside >= 2 else None


class Neighbours(Whole):
    """The same, and it can tell which rows a change of pods reaches."""

    def filter_affects(self, state, pod, rows):
        if self.tells == "raises":
            raise ValueError("no idea")
        if self.tells == "nothing":
            return None
        names = [self.handle.table.info(row).name for row in rows]
        wanted = {NAMES[NAMES.index(name) - 1] for name in names}
        table = self.handle.table
        return [row for row in range(table.count) if table.info(row).name in wanted]


MOVES = st.lists(st.tuples(st.booleans(), st.integers(0, len(NAMES) - 1)), min_size=1, max_size=16)


def engine_and_plugin(tells):
    made = []

    def new(args, handle):
        made.append((Neighbours if tells else Whole)(handle, tells))
        return made[-1]

    nodes = [make_node(name).capacity(cpu="64", pods="99").build() for name in NAMES]
    config = plugin_config(multiPoint={"enabled": [{"name": "Neighbours"}]})
    engine = make_engine(nodes, config=config, registry={**in_tree_registry(), "Neighbours": new})
    return engine, made[-1]


def expected(placed):
    """Which nodes fail, counted anew; None if some node fails with an error."""
    beside = {name: placed[NAMES[(NAMES.index(name) + 1) % len(NAMES)]] for name in NAMES}
    if max(beside.values()) >= 4:
        return None
    return {name for name, count in beside.items() if count >= 2}


@settings(max_examples=40, deadline=None, database=None)
@given(MOVES, st.sampled_from(["rows", "nothing", ""]), st.integers(1, 12))
@example([(True, 0)] * 4 + [(False, 0)] * 4, "rows", 1)  # to an error and back
@example(
    [(True, 0)] + [(True, number // 2) for number in range(12)], "rows", 12
)  # more rows than are asked singly
@example([(True, 5), (True, 5), (False, 5)], "rows", 1)
@example([(True, 5), (True, 5), (False, 5)], "", 1)  # one that says nothing of the kind
def test_what_follows_pods_is_what_is_counted_anew(moves, tells, every):
    engine, _ = engine_and_plugin(tells)
    placed, pods = dict.fromkeys(NAMES, 0), {name: [] for name in NAMES}
    for step, (adds, which) in enumerate(moves):
        name = NAMES[which]
        if adds:
            pod = make_pod(f"x{step}").node(name).build()
            pods[name].append(pod)
            engine.cache.put(pod)
            placed[name] += 1
        elif pods[name]:
            engine.cache.remove_pod(pods[name].pop())
            placed[name] -= 1
        if step % every:
            continue
        decision = engine.schedule(make_pod("asks").build(), 0.0)
        wanted = expected(placed)
        if wanted is None:
            assert "crushed" in decision.message
        else:
            assert decision.placed, decision.message
            found = engine.node_statuses(decision)
            assert wanted == {name for name, status in found.items() if status is not None}
            assert all(found[name].reasons == FULL.reasons for name in wanted)
            engine.validate()


def test_only_rows_that_a_change_reaches_are_asked_about_again():
    engine, plugin = engine_and_plugin("rows")
    engine.schedule(make_pod("asks").build(), 0.0)
    plugin.asked.clear()
    for number in range(2):
        engine.cache.put(make_pod(f"x{number}").node("n05").build())
        decision = engine.schedule(make_pod("asks").build(), 0.0)
    assert ["n04", "n04"] == plugin.asked
    assert {"n04"} == {n for n, said in engine.node_statuses(decision).items() if said is not None}

    engine, plugin = engine_and_plugin("nothing")
    engine.schedule(make_pod("asks").build(), 0.0)
    plugin.asked.clear()
    engine.cache.put(make_pod("x").node("n05").build())
    engine.schedule(make_pod("asks").build(), 0.0)
    assert NAMES == sorted(plugin.asked), "it could not tell, so all are asked about"


def test_one_that_cannot_say_what_a_change_reaches_fails_the_pod():
    engine, plugin = engine_and_plugin("raises")
    assert engine.schedule(make_pod("asks").build(), 0.0).placed
    engine.cache.put(make_pod("x").node("n05").build())
    failed = engine.schedule(make_pod("asks").build(), 0.0)

    assert Code.ERROR is failed.status.code
    assert 'plugin "Neighbours" raised ValueError in filter_affects: no idea' in failed.message
    plugin.tells = "rows"
    assert engine.schedule(make_pod("asks").build(), 0.0).placed
    engine.validate()
