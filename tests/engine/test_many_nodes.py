"""On many nodes kinds of pods in turn, and nodes that come, cost some rows and not all.

Counted are the rows that plugins are asked about, the times that all totals are summed, and bytes.
"""

import pytest

from bayplan.cluster.limits import Limits
from bayplan.engine.answers.totals import Totals
from bayplan.engine.cache import Cache
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine
from tests.engine.test_memory import all_of_its_own, arrays_of

NODES, KINDS = 20_000, 60
BY_NODES, BY_NODE = ("filter", "score"), ("filter_node", "score_node")


class Counted:
    """A plugin whose calls are counted by the rows that they are about."""

    def __init__(self, plugin, tally):
        self._plugin, self._tally = plugin, tally

    def __getattr__(self, name):
        found = getattr(self._plugin, name)
        if name not in BY_NODES + BY_NODE:
            return found

        def call(state, pod, nodes, *more):
            self._tally["rows"] += nodes.count if name in BY_NODES else 1
            return found(state, pod, nodes, *more)

        return call


def counted(new, tally):
    return lambda args, handle: Counted(new(args, handle), tally)


def node(number, cpu=8):
    labels = {"zone": f"z{number % 3}", "kubernetes.io/hostname": f"n{number}"}
    return make_node(f"n{number}").label(labels).capacity(cpu=cpu, pods=110).build()


@pytest.fixture
def world():
    """An engine on many nodes that has seen a pod, and what was asked since."""
    tally = {"rows": 0, "sums": 0}
    plugins = {name: counted(new, tally) for name, new in in_tree_registry().items()}
    engine = make_engine(map(node, range(NODES)), registry=plugins)
    whole = Totals._sum_all

    def sum_all(self):
        tally["sums"] += 1
        whole(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Totals, "_sum_all", sum_all)
        rows, sums = place(engine, tally, [pod("first")])
        assert rows >= NODES  # the first pod is told from nothing
        assert 1 == sums
        yield engine, tally


def pod(name, app="web", cpu="100m"):
    return make_pod(name).label(app=app).req(cpu=cpu)


def place(engine, tally, pods, before=lambda: None):
    """Place pods; the most rows that one of them took, and how often everything was summed."""
    tally["sums"], most = 0, 0
    for item in pods:
        before()
        tally["rows"] = 0
        assert engine.place(item.build(), 0.0).placed
        most = max(most, tally["rows"])
    return most, tally["sums"]


def test_pods_that_differ_in_a_label_that_nobody_reads(world):
    rows, sums = place(*world, [pod(f"u{n}", app=f"own-{n}") for n in range(KINDS)])

    assert rows < 100
    assert 0 == sums


def test_kinds_of_pods_in_turn(world):
    def turn(name):
        return [pod(f"{name}-{n}", cpu=f"{10 + n}m") for n in range(KINDS)]

    place(*world, turn("a"))
    place(*world, turn("b"))
    rows, sums = place(*world, turn("c"))

    assert rows < 100 * KINDS
    assert 0 == sums


def test_a_node_that_comes_before_each_pod(world):
    engine, tally = world
    numbers = iter(range(NODES, NODES + KINDS))
    pods = [pod(f"late-{n}") for n in range(KINDS)]
    place(engine, tally, pods[:2], lambda: engine.cache.put(node(next(numbers))))
    rows, sums = place(engine, tally, pods[2:], lambda: engine.cache.put(node(next(numbers))))

    assert rows < 1000
    assert 0 == sums


def test_a_node_that_offers_something_else_before_each_pod(world):
    engine, tally = world
    numbers = iter(range(KINDS))
    pods = [pod(f"changed-{n}") for n in range(KINDS)]
    place(engine, tally, pods[:2], lambda: engine.cache.put(node(next(numbers), 7)))
    rows, sums = place(engine, tally, pods[2:], lambda: engine.cache.put(node(next(numbers), 7)))

    assert rows < 1000
    assert 0 == sums


def test_a_node_that_comes_once_in_a_round_of_kinds(world):
    engine, tally = world

    def turn(name):
        return [pod(f"{name}-{n}", cpu=f"{200 + n}m") for n in range(KINDS)]

    place(engine, tally, turn("d"))
    place(engine, tally, turn("e"))
    engine.cache.put(node(2 * NODES))
    rows, sums = place(engine, tally, turn("f"))

    assert rows < 100 * KINDS
    assert 0 == sums


def test_what_is_kept_of_kinds_that_share_nothing_is_bounded_in_bytes():
    most = 13 << 20
    cache = Cache(Limits(answer_bytes=most))
    engine = make_engine(map(node, range(NODES)), cache=cache)
    (profile,) = engine.profiles.values()
    answers = engine._cycle.answers_of(profile)
    for number in range(KINDS):
        item = pod(f"own-{number}", app=f"a{number}", cpu=f"{10 + number}m")
        engine.schedule(all_of_its_own(item, f"app=a{number}").build(), 0.0)

    assert 2 < len(answers._recent) < KINDS
    one = answers.bytes / len(answers._recent)
    assert most / 4 < arrays_of(answers) < most + one
