"""Preemptions are carried out in kube-scheduler's order and told in its words."""

from msgspec.structs import replace

from bayplan.engine.loop import Evict, Evicted, PatchPod
from bayplan.framework import Code, Status
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of

NODE = make_node("a").capacity(cpu="2", memory="4Gi", pods="10")


def kinds(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


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
