"""All that is said of preemptors, victims and groups, in order and to the letter."""

from bayplan.api import PodGroup, convert
from bayplan.config import FeatureGates, from_data
from bayplan.engine.loop import Evict, Evicted, PatchPod
from bayplan.framework import Effects
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import HEAD, kinds
from tests.engine.loop.test_told import WAITS
from tests.engine.loop.told import NODE, Steps, Told, world_with
from tests.plugins.test_preempted_groups import group


def low(name, cpu="1"):
    return make_pod(name).req(cpu=cpu).priority(1).node("a")


def high(cpu="2"):
    return make_pod("high").req(cpu=cpu).priority(100)


def test_victims_go_one_after_the_other_and_the_preemptor_follows():
    world = Told(NODE, low("x"), low("y"), high())
    world.run()

    expected = """
        0 observe high preempted victims=2
        0 evict x from a for pod high at 0
        0 observe high unschedulable preemption_tried=1
        0 event high failed: ROOM 2 victims
        0 patch high at 0 nominated to a Unschedulable: ROOM 2 victims
        0 event x PREEMPTED
        0 evict y from a for pod high at 0
        0 event y PREEMPTED
        0 bind high to a
        0 event high scheduled: Successfully assigned default/high to a
        0 observe high scheduled attempts=2
        high: 0 preempts: default/x, default/y on a
        high: 0 failed, now unschedulable: ROOM 2 victims
        high: 0 bound: a
        x: 0 preempted: by default/high
        y: 0 preempted: by default/high
        """
    world.said(expected, "high", "x", "y")


def test_a_victim_that_cannot_be_evicted_ends_the_preemption():
    world = Told(NODE, low("x"), low("y"), high())
    (evict,) = kinds(world.step(), Evict)
    world.now += 1
    world.report(Evicted(world.pod("high").uid, evict.victim.uid, "forbidden"))
    world.step()

    expected = """
        0 observe high preempted victims=2
        0 evict x from a for pod high at 0
        0 observe high unschedulable preemption_tried=1
        0 event high failed: ROOM 2 victims
        0 patch high at 0 nominated to a Unschedulable: ROOM 2 victims
        1 observe high preempted victims=2
        1 evict x from a for pod high at 1
        1 observe high unschedulable preemption_tried=1
        1 event high failed: ROOM 2 victims
        1 patch high at 1 nominated to a Unschedulable: ROOM 2 victims
        high: 0 preempts: default/x, default/y on a
        high: 0 failed, now unschedulable: ROOM 2 victims
        high: 1 preemption failed: forbidden
        high: 1 preempts: default/x, default/y on a
        high: 1 failed, now unschedulable: ROOM 2 victims
        """
    world.said(expected, "high", "x")


def test_a_victim_on_its_way_to_the_node_is_sent_back_in_memory():
    effects = Effects((), lambda: None, 30.0)
    world = world_with(Steps(pre_bind=effects, flight=(None, None)), make_pod("x").req(cpu="2"))
    world.run()
    world.now += 1
    world.show(high())
    world.step()

    expected = """
        0 patch x at 0 nominated to a
        1 observe high preempted victims=1
        1 observe x error seconds=1
        1 event x failed: preempted by DefaultPreemption
        1 patch x at 1 nominated to nothing SchedulerError: preempted by DefaultPreemption
        1 event x PREEMPTED (in kube-scheduler memory).
        1 observe high unschedulable preemption_tried=1
        1 event high failed: ROOM 1 victims
        1 patch high at 1 nominated to a Unschedulable: ROOM 1 victims
        high: 1 preempts: default/x on a
        high: 1 failed, now backoff: ROOM 1 victims
        x: 1 failed, now error backoff: preempted by DefaultPreemption
        x: 1 preempted: by default/high
        """
    world.said(expected, "high", "x")


def test_a_victim_that_waits_on_permit_is_sent_back_in_memory():
    plugin = Steps(permit=WAITS)
    world = world_with(plugin, make_pod("x").req(cpu="2"))
    world.run()
    world.now += 1
    world.show(high())
    world.step()
    world.step()

    expected = """
        0 patch x at 0 nominated to a
        1 observe high preempted victims=1
        1 event x PREEMPTED (in kube-scheduler memory).
        1 observe high unschedulable preemption_tried=1
        1 event high failed: ROOM 1 victims
        1 patch high at 1 nominated to a Unschedulable: ROOM 1 victims
        1 observe x error seconds=1
        1 event x failed: waiting on permit for pod: preempted
        1 patch x at 1 nominated to nothing SchedulerError: waiting on permit for pod: preempted
        1 patch high at 1 nominated to a
        high: 1 preempts: default/x on a
        high: 1 failed, now unschedulable: ROOM 1 victims
        high: 1 waits on permit: a
        x: 0 waits on permit: a
        x: 1 preempted: by default/high
        x: 1 failed, now error backoff: waiting on permit for pod: preempted
        """
    world.said(expected, "high", "x")


def test_a_nomination_that_is_in_the_way_is_taken_back():
    world = Told(NODE, low("x", "2"), make_pod("middle").req(cpu="2").priority(50))
    world.carry_out(kinds(world.step(), PatchPod))
    world.show(high())
    world.told()
    world.step()

    expected = """
        0 patch middle at 0 nominated to nothing
        0 observe high preempted victims=1
        0 evict x from a for pod high at 0
        0 observe high unschedulable preemption_tried=1
        0 event high failed: ROOM 1 victims
        0 patch high at 0 nominated to a Unschedulable: ROOM 1 victims
        """
    world.said(expected)


GANGS = FeatureGates({"GenericWorkload": True}, "1.37")


def gang_of(*pods, count=2, **more):
    body = group("g", schedulingPolicy={"gang": {"minCount": count}}, **more)
    made = convert(PodGroup, {"apiVersion": "scheduling.k8s.io/v1beta1", **body})
    return Told(NODE, made, *pods, gates=GANGS, config=from_data(HEAD, GANGS))


def test_a_gang_that_fits_is_placed_as_one():
    world = gang_of(*(make_pod(name).group("g").req(cpu="1") for name in "pq"))
    world.run()

    expected = """
        0 bind p to a
        0 bind q to a
        0 call 0 of nobody for p: patch podgroups/g scheduled=True Scheduled
        0 event p scheduled: Successfully assigned default/p to a
        0 observe p scheduled attempts=1
        0 event q scheduled: Successfully assigned default/q to a
        0 observe q scheduled attempts=1
        p: 0 bound: a
        q: 0 bound: a
        """
    world.said(expected, "p", "q")
    assert [("algorithm", (), 0.0)] == world.took("algorithm")


def test_a_gang_that_does_not_fit_waits_as_one():
    world = gang_of(*(make_pod(name).group("g").req(cpu="2") for name in "pq"))
    world.run()
    world.now += 20
    world.show(make_node("a").capacity(cpu="4", memory="4Gi", pods="10"))
    world.wait(5)

    expected = """
        0 observe p unschedulable
        0 event p failed: pod group is unschedulable, GANG
        0 patch p at 0 Unschedulable: pod group is unschedulable, GANG
        0 observe q unschedulable
        0 event q failed: FULL
        0 patch q at 0 Unschedulable: FULL
        0 call 0 of nobody for p: patch podgroups/g scheduled=False Unschedulable: GANG
        20 bind p to a
        20 bind q to a
        20 call 0 of nobody for p: patch podgroups/g scheduled=True Scheduled
        20 event p scheduled: Successfully assigned default/p to a
        20 observe p scheduled attempts=2 sli_seconds=20
        20 event q scheduled: Successfully assigned default/q to a
        20 observe q scheduled attempts=2 sli_seconds=20
        p: 0 failed, now backoff: pod group is unschedulable, GANG
        p: 20 bound: a
        q: 0 failed, now backoff: FULL
        q: 20 bound: a
        """
    world.said(expected, "p", "q")


def test_what_a_placed_gang_leaves_over_preempts():
    pods = [make_pod(name).group("g").req(cpu="1").priority(100) for name in "pqr"]
    world = gang_of(low("x"), *pods, count=1, priority=100)
    for _ in range(3):
        world.now += 0.25
        world.step(limit=1)

    expected = """
        0.25 bind p to a
        0.25 observe q unschedulable
        0.25 event q failed: FULL
        0.25 patch q at 0.25 Unschedulable: FULL
        0.25 observe r unschedulable
        0.25 event r failed: FULL
        0.25 patch r at 0.25 Unschedulable: FULL
        0.25 call 0 of nobody for p: patch podgroups/g scheduled=True Scheduled
        0.5 observe q preempted victims=1
        0.5 evict x from cluster for podgroup q at 0.5
        0.5 observe q unschedulable
        0.5 event q failed: FULL
        0.5 patch q at 0.5 nominated to a Unschedulable: FULL
        0.5 observe r unschedulable
        0.5 event r failed: FULL
        0.5 patch r at 0.5 Unschedulable: FULL
        0.5 call 0 of nobody for q: patch podgroups/g scheduled=False Unschedulable: PLAN
        q: 0.25 failed, now unschedulable: FULL
        q: 0.5 preempts: default/x on cluster
        q: 0.5 failed, now gated by DefaultPreemption: FULL
        r: 0.25 failed, now unschedulable: FULL
        r: 0.5 failed, now gated by DefaultPreemption: FULL
        """
    world.said(expected, "p", "q", "r")


def test_a_gang_whose_pods_contradict_it_fails():
    pods = [make_pod(name).group("g").req(cpu="1").priority(100) for name in "pq"]
    world = gang_of(*pods)
    world.step()

    expected = """
        0 observe p error
        0 event p failed: PRIORITY
        0 patch p at 0 SchedulerError: PRIORITY
        0 observe q error
        0 event q failed: PRIORITY
        0 patch q at 0 SchedulerError: PRIORITY
        0 call 0 of nobody for p: patch podgroups/g scheduled=False SchedulerError: PRIORITY
        p: 0 failed, now error backoff: PRIORITY
        q: 0 failed, now error backoff: PRIORITY
        """
    world.said(expected, "p", "q")
