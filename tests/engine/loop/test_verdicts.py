"""Pods alike share a verdict, and nobody can tell but by the time it takes."""

import random

import msgspec
import pytest

from bayplan.engine.loop import Bind, Evict, PatchPod, RecordEvent
from bayplan.framework import Verdict as FilterVerdict
from bayplan.framework import unschedulable
from bayplan.testing import make_budget, make_node, make_pod
from tests.engine.loop.helper import World, config_of

ENABLED = {"plugins": {"multiPoint": {"enabled": [{"name": "Moody"}]}}}


def node(name, cpu="2"):
    return make_node(name).capacity(cpu=cpu, memory="4Gi", pods="10").label(zone=name[-1])


def test_pods_alike_are_judged_once():
    world = World(node("a"), *(make_pod(f"p{i}").req(cpu="3") for i in range(20)))

    world.run()

    assert world.scheduler.attempts.verdicts.passed_on == 19
    said = {world.condition(f"p{i}").message for i in range(20)}
    assert len(said) == 1
    assert [e.pod.name for e in world.events] == [f"p{i}" for i in range(20)]
    assert len(world.scheduler.records.of(world.pod("p7").uid)) == 1
    assert {item.attempts for item in world.scheduler.queue} == {1}


def test_a_change_of_the_cluster_ends_a_verdict():
    world = World(node("a"), *(make_pod(f"p{i}").req(cpu="3") for i in range(3)))
    world.run()

    world.show(node("b", "4"))
    world.wait(20)

    assert sorted(world.node_of(f"p{i}") for i in range(3)) == ["", "", "b"]


def test_a_pod_with_a_nomination_is_judged_for_itself():
    world = World(node("a"), *(make_pod(f"p{i}").req(cpu="3") for i in range(2)))
    world.show(make_pod("named").req(cpu="3").nominated("a"))

    world.step(limit=3)

    assert world.scheduler.attempts.verdicts.passed_on == 1


def test_a_pod_that_is_being_deleted_is_skipped_among_pods_alike():
    pods = [make_pod(f"p{i}").req(cpu="3") for i in range(6)]
    world = World(node("a"), *pods[:3])
    going = pods[3].build()
    meta = msgspec.structs.replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    world.show(msgspec.structs.replace(going, metadata=meta), *pods[4:])

    world.carry_out(world.step(limit=10))

    said = {event.pod.name: event.note for event in world.events}
    assert said.pop("p3") == "skip schedule deleting pod: default/p3"
    assert len(said) == 5
    assert len(set(said.values())) == 1


def test_a_nomination_that_goes_with_an_attempt_ends_the_row():
    world = World(node("a"), *(make_pod(f"p{i}").req(cpu="3") for i in range(4)))
    world.step()
    nominator = world.scheduler.cache.nominator
    nominator.add(world.scheduler.cache.infos.make(world.pod("p2")), "a")

    world.step(limit=10)

    assert not len(nominator)
    assert {item.attempts for item in world.scheduler.queue} == {1}
    assert world.scheduler.attempts.verdicts.passed_on == 1


def test_plugins_are_asked_for_their_revisions_once_a_step(monkeypatch):
    world = World(node("a"), *(make_pod(f"p{i}").req(cpu="3") for i in range(20)))
    world.step(limit=2)
    engine, asked = world.scheduler.attempts.verdicts.engine, []
    revisions = engine.revisions
    monkeypatch.setattr(
        engine, "revisions", lambda decision: [asked.append(1), revisions(decision)][1]
    )

    world.step(limit=9)
    world.step(limit=9)

    assert world.scheduler.attempts.verdicts.passed_on == 19
    assert len(asked) == 2


class Moody:
    """A filter that counts how often it is asked, and does not say what its answers hang on."""

    name = "Moody"

    def __init__(self):
        self.asked = 0

    def filter(self, state, pod, nodes):
        self.asked += 1
        return FilterVerdict.by_mask(nodes.pick(nodes.table.unschedulable), unschedulable("no"))


class Helper:
    """A PostFilter plugin that does not say that it repeats itself."""

    name = "Moody"

    def __init__(self):
        self.asked = 0

    def post_filter(self, state, pod, statuses):
        self.asked += 1
        return None, unschedulable("no help")


@pytest.mark.parametrize("kind", [Moody, Helper], ids=["filter", "post-filter"])
def test_plugins_that_promise_nothing_are_asked_for_every_pod(kind):
    plugin = kind()
    world = World(
        node("a"),
        *(make_pod(f"p{i}").req(cpu="3") for i in range(5)),
        config=config_of(profiles=[ENABLED]),
        registry={"Moody": lambda args, handle: plugin},
    )

    world.run()

    assert plugin.asked >= 5
    assert world.scheduler.attempts.verdicts.passed_on == 0


def told(world):
    """Everything that somebody outside sees, in order."""
    found = []
    for action in world.actions:
        match action:
            case Bind(pod=pod, node_name=name):
                found.append((pod.key, "bind", name))
            case Evict(victim=victim, preemptor=preemptor):
                found.append((victim.key, "evict", preemptor.key))
            case PatchPod(pod=pod, condition=condition, nominated_node_name=name):
                found.append((pod.key, "patch", condition and condition.message, name))
            case RecordEvent(pod=pod, reason=reason, note=note):
                found.append((pod.key, reason, note))
    queue = sorted(
        (i.key, i.place, i.attempts, i.timestamp, i.rejectors) for i in world.scheduler.queue
    )
    records = [(r.pod_key, r.now, r.message, r.node_name) for r in world.scheduler.records]
    return found, queue, records


def some_pod(rng, name):
    pod = make_pod(name).req(cpu=rng.choice(["1", "2"])).priority(rng.choice([0, 0, 0, 10]))
    pod = pod.label(app=rng.choice("xy"))
    match rng.randrange(8):
        case 0:
            pod = pod.apart("app=x", "zone")
        case 1:
            pod = pod.spread(1, "zone", "app=x")
        case 2:
            pod = pod.node_selector({"zone": "b"})
    return pod


def some_life(seed, limit, at_once=1):
    rng = random.Random(seed)
    world = World(node("n-a"), node("n-b"))
    world.limit = at_once
    world.scheduler.attempts.verdicts.limit = limit
    for i in range(12):
        match rng.randrange(7):
            case 0:
                world.show(node(f"n-{rng.choice('abc')}", rng.choice("124")))
            case 1 if len(world.objects) > 4:
                placed = [k for k, item in world.objects.items() if k[0] == "Pod"]
                world.gone(*rng.choice(placed)) if placed else None
            case 2:
                world.change_node("n-a", unschedulable=rng.random() < 0.5)
            case 3:
                world.show(make_budget(f"b{i}", "app=x"))
            case _:
                shape = some_pod(rng, f"p{i}").build()
                for number in range(rng.randint(1, 4)):
                    meta = msgspec.structs.replace(
                        shape.metadata, name=f"p{i}-{number}", uid=f"u{i}-{number}"
                    )
                    world.show(msgspec.structs.replace(shape, metadata=meta))
        world.run()
        world.wait(rng.choice([0, 1, 15]))
    return world


@pytest.mark.parametrize("at_once", [1, 3, 64])
@pytest.mark.parametrize("seed", range(25))
def test_lives_go_the_same_way_with_and_without(seed, at_once):
    assert told(some_life(seed, 0, at_once)) == told(some_life(seed, 256, at_once))


def test_lives_share_verdicts_at_all():
    assert sum(some_life(seed, 256).scheduler.attempts.verdicts.passed_on for seed in range(5)) > 10
