"""Preemptions are carried out in kube-scheduler's order and told in its words."""

import pytest
from msgspec.structs import replace

from bayplan.engine.loop import Bind, Evict, Evicted, PatchPod
from bayplan.engine.loop.actions import Observe
from bayplan.engine.loop.pod_attempts import MOST_SLICES
from bayplan.engine.loop.timing import Timing
from bayplan.framework import Code, Status
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of, kinds

NODE = make_node("a").capacity(cpu="2", memory="4Gi", pods="10")


def low(name, cpu="1"):
    return make_pod(name).req(cpu=cpu).priority(1).node("a")


def high(cpu="2"):
    return make_pod("high").req(cpu=cpu).priority(100)


def test_victims_go_and_the_preemptor_gets_the_node():
    world = World(NODE, low("x"), low("y"), high())

    world.run()
    world.wait(3)

    assert world.node_of("high") == "a"
    uid = world.pod("high").uid
    notes = [event.note for event in world.events if event.reason == "Preempted"]
    assert notes == [f"Preempted by pod {uid} on node a"] * 2
    event = next(event for event in world.events if event.reason == "Preempted")
    assert (event.type, event.action) == ("Normal", "Preempting")
    assert event.related.name == "high"


def test_victim_is_told_why_it_goes():
    world = World(NODE, low("x", "2"), high())
    actions = world.step()
    (evict,) = kinds(actions, Evict)

    (condition,) = evict.condition_body()["status"]["conditions"]

    assert condition["type"] == "DisruptionTarget"
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    (patch,) = kinds(actions, PatchPod)
    assert patch.nominated_node_name == "a"
    assert patch.condition.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement "
        "for pod on node a, preempting 1 victims"
    )


def test_last_victim_goes_last():
    world = World(NODE, low("x"), low("y"), high())
    first = kinds(world.step(), Evict)
    assert len(first) == 1
    uid = world.pod("high").uid

    world.scheduler.handle(Evicted(uid, first[0].victim.uid), world.now)
    second = kinds(world.step(limit=0), Evict)

    assert len(second) == 1
    assert {first[0].victim.name, second[0].victim.name} == {"x", "y"}
    world.scheduler.handle(Evicted(uid, second[0].victim.uid), world.now)
    world.scheduler.validate()
    assert len(world.scheduler.preemptions) == 0


def test_preemptor_waits_while_victims_are_removed():
    world = World(NODE, low("x"), low("y"), high())
    actions = world.step()
    world.carry_out(kinds(actions, PatchPod))
    key = "default/high"

    world.show(make_node("b").capacity(cpu="1", memory="1Gi", pods="10"))
    world.scheduler.queue.activate([world.pod("high")], world.now)

    assert world.scheduler.place_of(key) == "gated by DefaultPreemption"


def test_preemptor_need_not_wait_for_the_report_of_its_last_victim():
    world = World(NODE, low("x", "2"), high())
    actions = world.step()
    world.carry_out(kinds(actions, PatchPod))

    world.gone("Pod", "default/x")
    world.wait(3)

    assert world.node_of("high") == "a"


def test_failed_eviction_brings_the_preemptor_back_at_once():
    world = World(NODE, low("x", "2"), high())
    (evict,) = kinds(world.step(), Evict)

    world.scheduler.handle(Evicted(world.pod("high").uid, evict.victim.uid, "forbidden"), world.now)

    assert world.scheduler.place_of("default/high") == "active"
    assert len(world.scheduler.preemptions) == 0


def test_victim_that_is_already_going_needs_no_call():
    going = low("x", "2").terminating()
    world = World(NODE, going, high())

    actions = world.step()

    assert kinds(actions, Evict) == []
    assert kinds(actions, PatchPod)[0].nominated_node_name == "a"


def test_less_important_nomination_on_the_node_is_cleared():
    world = World(NODE, low("x", "2"), make_pod("middle").req(cpu="2").priority(50))
    actions = world.step()
    world.carry_out(kinds(actions, PatchPod))
    assert world.pod("middle").status.nominated_node_name == "a"

    world.show(high())
    patches = [a for a in kinds(world.step(), PatchPod) if a.pod.name == "middle"]

    assert [patch.nominated_node_name for patch in patches] == [""]


def test_victim_that_waits_on_permit_is_sent_back_in_memory():
    class Waiter:
        name = "Waiter"

        def permit(self, state, pod, node_name):
            return (Status(Code.WAIT), 60.0) if pod.priority < 10 else (None, 0.0)

        def events_to_register(self):
            return ()

    config = config_of(profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "Waiter"}]}}}])
    registry = {"Waiter": lambda args, handle: Waiter()}
    waiting = make_pod("low").req(cpu="2").priority(1)
    world = World(NODE, waiting, config=config, registry=registry)
    world.run()

    world.show(high())
    actions = world.step()
    world.carry_out(actions)
    world.wait(5)

    assert kinds(actions, Evict) == []
    notes = [event.note for event in world.events if event.reason == "Preempted"]
    assert notes[0].endswith("on node a (in kube-scheduler memory).")
    assert world.node_of("high") == "a"
    assert world.node_of("low") == ""


def test_preemptor_that_is_deleted_ends_nothing_early():
    world = World(NODE, low("x"), low("y"), high())
    actions = world.step()

    world.gone("Pod", "default/high")
    world.carry_out(actions)
    world.run()

    assert len(world.scheduler.preemptions) == 0


def test_nominated_pod_is_respected_until_it_is_placed():
    world = World(NODE, low("x", "2"), high())
    actions = world.step()
    world.carry_out(actions)
    world.show(make_pod("late").req(cpu="1").priority(5))

    world.wait(3)

    assert world.node_of("high") == "a"
    assert world.node_of("late") == ""


def test_pod_that_may_not_preempt():
    world = World(NODE, low("x", "2"), high().never_preempts())

    world.run()

    assert world.condition("high").message.endswith(
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    assert replace(world.pod("x")).spec.node_name == "a"


def world_in_a_hurry(*objects):
    """A world whose clock ticks whenever it is read, so that a step's time is soon up."""
    ticks = iter(range(1_000_000))
    timing = Timing(lambda: float(next(ticks)), lambda *_: None)
    return World(*objects, timing=timing)


def crowded(count):
    nodes = [make_node(f"n{i}").capacity(cpu="2", memory="4Gi", pods=9) for i in range(count)]
    pods = [make_pod(f"v{i}").req(cpu="2").priority(1).node(f"n{i}") for i in range(count)]
    return [*nodes, *pods]


def sliced(world, change=lambda world, turn: None):
    """Steps without any time until something is decided, and how many it took."""
    for turn in range(1000):
        actions = world.scheduler.step(world.now, limit=3, until=0.0)
        world.scheduler.validate()
        if kinds(actions, PatchPod):
            return actions, turn
        change(world, turn)
    raise AssertionError("nothing was decided")


def victim_of(actions):
    return [evict.victim.name for evict in kinds(actions, Evict)]


def test_search_for_victims_stops_when_time_is_up_and_goes_on():
    whole = World(*crowded(12), high())
    world = world_in_a_hurry(*crowded(12), high())

    actions, turns = sliced(world)

    assert turns > 3
    assert victim_of(whole.step()) == victim_of(actions)


def test_a_change_of_what_was_seen_begins_the_search_anew():
    world = world_in_a_hurry(*crowded(12), high())
    for _ in range(3):
        world.scheduler.step(world.now, limit=3, until=0.0)

    world.gone("Pod", "default/v0")
    (bind,) = kinds(world.scheduler.step(world.now, limit=3, until=0.0), Bind)

    assert "n0" == bind.node_name


def test_a_pod_that_goes_while_its_victims_are_sought_takes_nobody_with_it():
    world = world_in_a_hurry(*crowded(12), high())
    world.scheduler.step(world.now, limit=3, until=0.0)
    assert world.scheduler.ready

    world.gone("Pod", "default/high")
    actions = world.scheduler.step(world.now, limit=3)

    assert [] == kinds(actions, Evict)
    assert not world.scheduler.ready
    world.scheduler.validate()


def test_a_search_that_never_gets_far_is_finished_in_the_end():
    def one_more(world, turn):
        node = make_node(f"extra{turn}").capacity(cpu="1m", pods=1)
        world.show(node)

    world = world_in_a_hurry(*crowded(12), high())

    actions, turns = sliced(world, one_more)

    assert MOST_SLICES == turns
    assert 1 == len(victim_of(actions))


@pytest.mark.parametrize("asked", [True, False])
def test_an_attempt_tells_whether_preemption_was_tried(asked):
    off = {"postFilter": {"disabled": [{"name": "*"}]}}
    config = config_of(profiles=[{"plugins": {} if asked else off}])
    world = World(
        make_node("a").capacity(cpu="1", pods="9"), make_pod("p").req(cpu="2"), config=config
    )
    told = [action for action in world.step() if isinstance(action, Observe)]

    assert [("unschedulable", asked)] == [(each.result, each.preemption_tried) for each in told]
