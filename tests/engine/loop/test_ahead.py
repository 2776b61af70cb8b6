"""Asking extenders about the next pods ahead of their turn decides what asking in turn decides."""

from __future__ import annotations

import random
from zlib import crc32

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bayplan.engine.cycle import ahead as ahead_module
from bayplan.engine.loop import Bind, BindDone, Evict, ExtenderBind, PatchPod, RecordEvent
from bayplan.framework import ExtenderError, ExtenderFilterResult
from bayplan.framework.contract.extender import AheadExtender
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of

GPU = "example.com/gpu"


class Answer:
    """Comes after some looks; asked in its turn or ahead, it is what it is."""

    def __init__(self, owner, find, *, looks, lost):
        self._owner, self._find, self._looks, self._lost = owner, find, looks, lost
        owner.open += 1

    def ready(self):
        self._looks -= 1
        return self._looks < 0

    def drop(self):
        self._owner.open -= 1

    def __call__(self):
        self._owner.open -= 1
        if self._lost:
            raise ExtenderError("no whole answer in time")
        return self._find()


class Oracle:
    """Answers by pod and the exact nodes that it is asked about, also with errors."""

    blocking = False

    def __init__(self, name, seed, ahead, **traits):
        self.name, self._seed, self.ahead = name, seed, ahead
        self.is_filter = traits.get("filters", True)
        self.is_prioritizer = traits.get("scores", True)
        self.is_binder = traits.get("binds", False)
        self.supports_preemption = traits.get("preempts", False)
        self.ignorable = traits.get("ignorable", False)
        self.errors = traits.get("errors", 0)
        self.losses = traits.get("losses", 0)
        self.managed = traits.get("managed", "")
        self.weight = traits.get("weight", 3)
        self.luck = random.Random(seed)
        """Only of what must not matter: when an answer comes, and whether one gets lost ahead."""
        self.open = self.asked = 0
        self.turn = ""
        """The pod whose attempt is being made: its own calls are not lost."""

    def interested(self, pod):
        requests = pod.spec.containers[0].resources.requests
        return not self.managed or self.managed in requests

    def _number(self, *about):
        return crc32(repr((self._seed, self.name, *about)).encode())

    def _error(self, *about):
        if self.errors and not self._number("error", *about) % self.errors:
            raise ExtenderError(f"no answer about {about[1]}")

    def filter(self, pod, nodes):
        return self._filter(pod.name, tuple(node.metadata.name for node in nodes))

    def _filter(self, pod, names):
        self._error("filter", pod, names)
        about = self._number("filter", pod, names)
        fates = {name: self._number(pod, name, about) % 8 for name in names}
        kept = [name for name in names if fates[name] > 1]
        if about % 5 == 0:
            kept = [*reversed(kept), *kept[:1]]
        if about % 23 == 0:
            kept.append("nowhere")
        failed = {name: f"no {fate}" for name, fate in fates.items() if fate == 0}
        for_good = {name: f"never {fate}" for name, fate in fates.items() if fate == 1}
        return ExtenderFilterResult(tuple(kept), failed, for_good)

    def _scores(self, pod, names):
        self._error("prioritize", pod, names)
        about = self._number("prioritize", pod, sorted(names))
        return {name: self._number(name, about) % 11 for name in names}

    def _later(self, find, pod, nodes):
        self.asked += 1
        names = tuple(node.metadata.name for node in nodes)
        lost = self.losses and pod.name != self.turn and not self.luck.randrange(self.losses)
        looks = self.luck.randrange(4)
        return Answer(self, lambda: find(pod.name, names), looks=looks, lost=lost)

    def filter_later(self, pod, nodes):
        return self._later(self._filter, pod, nodes)

    def prioritize_later(self, pod, nodes):
        return self._later(self._scores, pod, nodes)

    def process_preemption(self, pod, victims):
        left = {n: v for n, v in victims.items() if self._number("preempt", pod.name, n) % 3}
        return left or victims


class Drama:
    """One life of a cluster, drawn from a seed; `ahead` must change nothing in it."""

    def __init__(self, seed, ahead, casts, nodes):
        self.draw = random.Random(seed)
        self.extenders = [Oracle(f"http://{n}", seed, ahead, **c) for n, c in enumerate(casts)]
        share = config_of(percentageOfNodesToScore=1)
        self.world = World(config=share, extenders=self.extenders)
        self.count = 0
        self.told = []
        engine = self.world.scheduler.engine
        engine.ahead.most, engine.ahead.rest = self.draw.choice([1, 2, 8]), 2
        self.world.scheduler.validate = lambda: None  # a drama is long; its end is looked at
        self._place, engine.place = engine.place, self._in_turn
        for number in range(nodes):
            self._node(f"n{number}")

    def _in_turn(self, pod, now, late):
        for extender in self.extenders:
            extender.turn = pod.name
        return self._place(pod, now, late)

    def _node(self, name):
        room = {"cpu": self.draw.choice("123"), "memory": "8Gi", "pods": "4", GPU: "2"}
        self.world.show(make_node(name).capacity(room))

    def _pods(self):
        for _ in range(self.draw.randrange(1, 12)):
            self.count += 1
            asks = {"cpu": self.draw.choice(["500m", "1", "2"])}
            if not self.draw.randrange(3):
                asks[GPU] = "1"
            pod = make_pod(f"p{self.count}").uid(f"u{self.count}").req(asks)
            self.world.show(pod.priority(self.draw.choice([0, 0, 0, 5])))

    def _upset(self):
        """Something happens that may or may not matter to what was asked ahead."""
        world, names = self.world, sorted(key for kind, key in self.world.objects if kind == "Node")
        waiting = sorted(
            key
            for (kind, key), item in world.objects.items()
            if kind == "Pod" and not item.spec.node_name
        )
        what = self.draw.randrange(6)
        if what == 0:
            world.change_node(self.draw.choice(names), unschedulable=bool(self.draw.randrange(2)))
        elif what == 1:
            self._node(f"late{self.count}")
        elif what == 2 and waiting:
            world.gone("Pod", self.draw.choice(waiting))
        elif what == 3 and waiting:
            pod = world.objects["Pod", self.draw.choice(waiting)]
            meta = replace(pod.metadata, labels={"touched": str(self.count)})
            world.show(replace(pod, metadata=meta))
        elif what == 4:
            world.now += self.draw.choice([0.5, 2.0, 20.0])

    def _step(self):
        world = self.world
        actions = world.step(1)
        for action in actions:
            self.told.append(_told(action))
            if isinstance(action, ExtenderBind):
                world._bind(Bind(action.pod, action.node_name))
                world.scheduler.handle(BindDone(action.pod.uid, ""), world.now)
            else:
                world.carry_out([action])

    def play(self, rounds=6):
        for _ in range(rounds):
            self._pods()
            for _ in range(self.draw.randrange(1, 14)):
                self._step()
                if not self.draw.randrange(5):
                    self._upset()
        del self.world.scheduler.validate
        self.world.scheduler.validate()
        ahead = self.world.scheduler.engine.ahead
        ahead.drop()
        assert 0 == sum(extender.open for extender in self.extenders)
        return self.told, ahead.counts


def _told(action):
    match action:
        case Bind() | ExtenderBind():
            return "bind", action.pod.key, action.node_name
        case Evict():
            return "evict", action.victim.key, action.preemptor.key
        case PatchPod():
            return "patch", action.pod.key, action.condition, action.nominated_node_name
        case RecordEvent():
            return "event", action.pod.key, action.reason, action.note
    return (type(action).__name__,)


casts = st.lists(
    st.fixed_dictionaries(
        {
            "filters": st.booleans(),
            "scores": st.booleans(),
            "binds": st.booleans(),
            "preempts": st.booleans(),
            "ignorable": st.booleans(),
            "errors": st.sampled_from([0, 0, 5, 40]),
            "losses": st.sampled_from([0, 0, 3, 15]),
            "managed": st.sampled_from(["", "", GPU]),
            "weight": st.integers(1, 20),
        }
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 30), casts, st.sampled_from([3, 12, 120]))
def test_decisions_are_those_of_asking_one_after_the_other(seed, casts, nodes):
    in_turn, none = Drama(seed, False, casts, nodes).play()
    ahead, _ = Drama(seed, True, casts, nodes).play()

    assert not none
    assert in_turn == ahead


def pods(count, cpu="100m"):
    return [make_pod(f"p{n}").uid(f"u{n}").req({"cpu": cpu}) for n in range(count)]


def world_of(oracle, count=20, nodes=5, cpu="100m"):
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    world = World(*[make_node(f"n{n}").capacity(room) for n in range(nodes)], extenders=[oracle])
    world.show(*pods(count, cpu))
    return world


def test_the_oracle_can_be_asked_ahead():
    assert isinstance(Oracle("http://o", 1, True), AheadExtender)


def test_one_more_pod_is_asked_ahead_after_each_answer_that_was_used():
    oracle = Oracle("http://o", 1, True)
    oracle._number = lambda *about: 2
    world, widths = world_of(oracle), []
    for _ in range(12):
        world.carry_out(world.step())
        widths.append(len(world.scheduler.engine.ahead))

    assert [1, 2, 3, 4, 5, 6, 7, 8, 8, 8] == widths[:10]
    assert {"used": 12} == world.scheduler.engine.ahead.counts
    assert oracle.open <= 2 * ahead_module.MOST


def test_a_pod_that_comes_first_unforeseen_throws_answers_away():
    oracle = Oracle("http://o", 1, True)
    oracle._number = lambda *about: 2
    world = world_of(oracle)
    for _ in range(4):
        world.carry_out(world.step())
    world.show(make_pod("vip").uid("vip").req({"cpu": "100m"}).priority(9))
    world.carry_out(world.step())

    counts = world.scheduler.engine.ahead.counts
    assert world.node_of("vip")
    assert 4 == counts["thrown away"]
    world.run()
    assert all(world.node_of(f"p{n}") for n in range(20))


def test_a_full_node_throws_away_what_was_asked_about_it():
    """Each node takes one pod: every placement changes what the next pod is asked about."""
    oracle = Oracle("http://o", 1, True)
    oracle._number = lambda *about: 2
    world = world_of(oracle, count=10, nodes=10, cpu="3")
    world.run()

    assert all(world.node_of(f"p{n}") for n in range(10))
    assert world.scheduler.engine.ahead.counts["thrown away"] > 0


def test_after_a_lost_answer_nobody_is_asked_ahead_for_a_while():
    oracle = Oracle("http://o", 1, True, losses=1)
    oracle._number = lambda *about: 2
    oracle.turn = "p0"
    world = world_of(oracle)
    ahead = world.scheduler.engine.ahead
    for n in range(3):
        oracle.turn = f"p{n}"
        world.carry_out(world.step())

    assert all(world.node_of(f"p{n}") for n in range(3))
    assert 1 == ahead.counts["failed"]
    assert 0 == ahead.window == len(ahead)


@pytest.mark.parametrize("promises", [(True, False), (False,)])
def test_who_does_not_promise_is_asked_in_turn_and_all_with_it(promises):
    oracles = [Oracle(f"http://{n}", 1, promise) for n, promise in enumerate(promises)]
    world = World(make_node("a"), make_node("b"), extenders=oracles)
    world.show(*pods(5))
    for _ in range(5):
        world.carry_out(world.step())

        assert 0 == len(world.scheduler.engine.ahead)
    assert not world.scheduler.engine.ahead.counts


def test_an_old_answer_is_not_used():
    oracle = Oracle("http://o", 1, True)
    oracle._number = lambda *about: 2
    world = world_of(oracle)
    world.carry_out(world.step())
    world.now += 2 * ahead_module.FRESH_SECONDS
    world.carry_out(world.step())

    assert 1 == world.scheduler.engine.ahead.counts["thrown away"]


def test_a_new_configuration_drops_what_is_under_way():
    oracle = Oracle("http://o", 1, True)
    world = world_of(oracle)
    world.carry_out(world.step())
    assert oracle.open > 0

    world.scheduler.reconfigure(config_of(), world.now, extenders=[])

    assert 0 == oracle.open


def test_who_foresees_wrongly_looks_half_as_far_and_rests_when_that_is_nothing():
    world = World(make_node("a"), extenders=[Oracle("o", 1, ahead=True)])
    ahead = world.scheduler.engine.ahead
    ahead.window, ahead.rest = 5, 3
    windows = []
    for _ in range(3):
        ahead._narrow()
        ahead._learn()
        windows.append(ahead.window)
    while not ahead.window:
        ahead._learn()
        windows.append(ahead.window)

    assert [2, 1, 0, 0, 1] == windows
