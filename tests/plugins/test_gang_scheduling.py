"""A gang gets its nodes together, or none of it gets any."""

import random

import pytest

from bayplan.api import CompositePodGroup, PodGroup, convert
from bayplan.cluster.pod_groups import GroupMembers
from bayplan.config import FeatureGates, from_data
from bayplan.framework import Code, CycleState, Handle, QueueingHint
from bayplan.framework.contract.permits import WaitingPod
from bayplan.plugins import gang_scheduling
from bayplan.testing import make_node, make_pod, make_pod_group
from tests.engine.loop.helper import HEAD, World
from tests.engine.loop.test_composite_cycle import GATES as COMPOSITE
from tests.engine.loop.test_composite_cycle import composite, part

GATES = FeatureGates({"GenericWorkload": True})


def member(number, cpu="1"):
    return make_pod(f"p{number}").group("g").req(cpu=cpu)


@pytest.fixture
def handle():
    return Handle()


def test_pods_without_a_group_pass(handle):
    plugin = gang_scheduling.new(None, handle)
    pod = make_pod().build()

    assert plugin.pre_enqueue(pod) is None
    assert (None, 0.0) == plugin.permit(CycleState(), pod, "n")


def test_pods_wait_for_their_group_and_for_each_other(handle):
    plugin = gang_scheduling.new(None, handle)
    first, second = member(1).build(), member(2).build()

    text = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
    assert text == plugin.pre_enqueue(first).message
    handle.objects.put(make_pod_group("g", 2).build())
    assert gang_scheduling.REASON_MEMBERS == plugin.pre_enqueue(first).message
    assert plugin.pre_enqueue(second) is None
    assert plugin.pre_enqueue(first) is None


def test_pods_wait_for_the_tree_above_their_group():
    handle = Handle(gates=COMPOSITE)
    plugin = gang_scheduling.new(None, handle)
    for body, kind in ((composite(count=2), CompositePodGroup), (part("g", 1), PodGroup)):
        handle.objects.put(convert(kind, body))

    text = 'waiting for composite pod group "c" tree to meet quorum'
    assert text == plugin.pre_enqueue(member(1).build()).message
    handle.objects.put(convert(PodGroup, part("h", 1)))
    assert plugin.pre_enqueue(make_pod("q").group("h").build()) is None
    state = CycleState()
    plugin.reserve(state, member(1).build(), "n")
    status, seconds = plugin.permit(state, member(1).build(), "n")
    assert (Code.WAIT, text, 300) == (status.code, status.message, seconds)


def test_a_basic_group_needs_no_company(handle):
    handle.objects.put(make_pod_group("g").build())

    assert gang_scheduling.new(None, handle).pre_enqueue(member(1).build()) is None


def test_permit_waits_until_enough_have_a_node(handle):
    plugin = gang_scheduling.new(None, handle)
    handle.objects.put(make_pod_group("g", 2).build())
    first, second = member(1).build(), member(2).build()
    for pod in (first, second):
        plugin.pre_enqueue(pod)
    state = CycleState()
    plugin.reserve(state, first, "n")
    status, seconds = plugin.permit(state, first, "n")

    assert (Code.WAIT, 300.0) == (status.code, seconds)
    assert [second.key] == list(state.read("kubernetes.io/pods-to-activate"))

    waiting = WaitingPod(first, "n", {gang_scheduling.NAME: seconds}, 0.0)
    handle.waiting.add(waiting)
    plugin.reserve(CycleState(), second, "n")
    assert (None, 0.0) == plugin.permit(CycleState(), second, "n")
    assert waiting.outcome is not None
    assert waiting.outcome.success


def test_hints(handle):
    pod_event, group_event, _ = gang_scheduling.new(None, handle).events_to_register()
    mine, other = member(1).build(), make_pod().build()

    assert pod_event.hint(mine, None, member(2).build()) is QueueingHint.QUEUE
    assert pod_event.hint(mine, None, other) is QueueingHint.SKIP
    assert pod_event.hint(other, None, other) is QueueingHint.SKIP
    assert group_event.hint(mine, None, make_pod_group("g").build()) is QueueingHint.QUEUE
    assert group_event.hint(mine, None, make_pod_group("h").build()) is QueueingHint.SKIP


def world(*objects):
    return World(*objects, config=from_data(dict(HEAD), GATES), gates=GATES)


def nodes_of(world, count):
    return [world.node_of(f"p{i}") for i in range(count)]


def test_a_whole_gang_is_placed():
    cluster = world(make_node("a").capacity(cpu=2), make_node("b").capacity(cpu=2))
    cluster.show(make_pod_group("g", 3))
    cluster.show(*(member(i) for i in range(3)))
    cluster.run()

    assert all(nodes_of(cluster, 3))


def test_a_gang_that_does_not_fit_holds_no_node():
    cluster = world(make_node("a").capacity(cpu=2))
    cluster.show(make_pod_group("g", 3))
    cluster.show(*(member(i) for i in range(3)))
    cluster.run()

    assert ["", "", ""] == nodes_of(cluster, 3)
    assert 0 == cluster.scheduler.cache.assumed_count
    short = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert f"pod group is unschedulable, {short}" in cluster.notes()[0]
    other = make_pod("other").req(cpu="2")
    cluster.show(other)
    cluster.run()
    assert "a" == cluster.node_of("other")


def test_a_gang_is_placed_once_there_is_room():
    cluster = world(make_node("a").capacity(cpu=2))
    cluster.show(make_pod_group("g", 3))
    cluster.show(*(member(i) for i in range(3)))
    cluster.run()
    cluster.show(make_node("b").capacity(cpu=2))
    cluster.wait(60)

    assert all(nodes_of(cluster, 3))


def test_pods_of_a_group_must_agree_with_it():
    cluster = world(make_node("a").capacity(cpu=2))
    cluster.show(make_pod_group("g", 1))
    cluster.show(member(0).priority(7))
    cluster.run()

    assert [
        "all pods in a single pod group should have the same priority as the pod group's priority, "
        "got 7 and 0"
    ] == cluster.notes()


def test_a_gang_is_tried_again_when_its_backoff_is_over():
    cluster = world(make_node("a").capacity(cpu=2))
    cluster.show(make_pod_group("g", 5))
    cluster.show(*(member(i) for i in range(5)))
    cluster.run()
    before = len(cluster.scheduler.records)
    cluster.show(make_node("b").capacity(cpu=1))
    cluster.wait(60)

    assert not any(nodes_of(cluster, 5))
    # In a round three find room, the next does not, which ends it. The next rounds come 1, 2, 4, 8,
    # 16 and at last 10 times the root of five seconds after the one before, whatever happens.
    assert 6 * 4 == len(cluster.scheduler.records) - before


def test_a_pod_that_joins_a_gang_waits_for_its_backoff():
    cluster = world(make_node("a").capacity(cpu=2))
    cluster.show(make_pod_group("g", 3))
    cluster.show(*(member(i) for i in range(3)))
    cluster.run()
    before = len(cluster.scheduler.records)
    cluster.show(make_node("b").capacity(cpu=2), member(3))
    cluster.run()

    assert before == len(cluster.scheduler.records)
    waiting = [cluster.scheduler.queue.get(f"default/p{i}") for i in range(4)]
    assert {"backoff"} == {item.where for item in waiting}
    ends = {cluster.scheduler.queue.backoff.expiration(item) for item in waiting}
    assert 1 == len(ends)
    cluster.wait(3)
    assert all(nodes_of(cluster, 4))


def test_pods_beyond_the_minimum_are_placed_one_by_one():
    cluster = world(make_node("a").capacity(cpu=3))
    cluster.show(make_pod_group("g", 2))
    cluster.show(*(member(i) for i in range(4)))
    cluster.run()

    assert 3 == sum(map(bool, nodes_of(cluster, 4)))


def test_the_group_may_come_after_its_pods():
    cluster = world(make_node("a").capacity(cpu=4))
    cluster.show(member(0), member(1))
    cluster.run()
    assert ["", ""] == nodes_of(cluster, 2)
    cluster.show(make_pod_group("g", 2))
    cluster.run()

    assert ["a", "a"] == nodes_of(cluster, 2)


def test_members_that_go_are_forgotten():
    cluster = world(make_node("a").capacity(cpu=4))
    cluster.show(make_pod_group("g", 2))
    cluster.show(member(0))
    cluster.gone("Pod", "default/p0")
    cluster.show(member(1))
    cluster.run()

    assert "" == cluster.node_of("p1")
    members = gang_scheduling.members_of(cluster.scheduler.cache.objects)
    members.validate([cluster.pod("p1")])


def test_two_gangs_that_do_not_both_fit_do_not_hold_each_others_nodes():
    cluster = world(make_node("n").capacity(cpu=5), make_pod_group("a", 3), make_pod_group("b", 3))
    for number in range(3):
        for name in "ab":
            cluster.now += 0.001
            cluster.show(make_pod(f"{name}{number}").group(name).req(cpu="1"))
    cluster.run()

    placed = [name for name in "ab" if all(cluster.node_of(f"{name}{i}") for i in range(3))]
    assert ["a"] == placed
    assert not any(cluster.node_of(f"b{i}") for i in range(3))
    assert 0 == cluster.scheduler.cache.assumed_count


def test_a_gang_that_does_not_fit_is_tried_once_not_once_a_pod():
    cluster = world(make_node("n").capacity(cpu=5), make_pod_group("g", 8))
    cluster.show(*(member(i) for i in range(8)))
    cluster.run()

    attempts = [cluster.scheduler.queue.get(f"default/p{i}").attempts for i in range(8)]
    assert [1] * 8 == attempts
    # after three that do not fit it is clear that eight will not
    assert 6 == len(list(cluster.scheduler.records))


def test_a_gang_of_which_one_pod_is_gated_waits_for_it():
    cluster = world(make_node("n").capacity(cpu=5), make_pod_group("g", 2))
    cluster.show(member(0), member(1).gate("wait"))
    cluster.run()
    assert ["", ""] == nodes_of(cluster, 2)
    cluster.show(member(1))
    cluster.run()
    cluster.wait(60)

    assert ["n", "n"] == nodes_of(cluster, 2)


def test_pods_of_a_group_that_needs_fewer_are_tried():
    node, config = make_node("n").capacity(cpu="4"), from_data(HEAD, GATES)
    world = World(node, make_pod_group("g", 2), member(1), config=config, gates=GATES)
    world.run()
    assert not world.node_of("p1")
    world.show(make_pod_group("g", 1))
    world.run()

    assert "n" == world.node_of("p1")


def test_pods_with_a_node_are_counted_as_they_come_and_go():
    """Reserved, given back, bound or deleted, in any order."""
    rng = random.Random(5)
    members, known = GroupMembers(), {}
    for _ in range(400):
        number = rng.randrange(6)
        made = make_pod(f"p{number}").group("gh"[number % 2])
        kind = rng.randrange(4)
        pod = (made.node("n") if kind == 1 else made).build()
        if kind == 3:
            members.delete(pod)
            known.pop(pod.uid, None)
        elif kind == 2 and pod.uid in known:
            members.unreserve(pod)
        else:
            (members.reserve if kind == 0 else members.put)(pod)
            known[pod.uid] = pod
        members.validate(known.values())
        for key in ("default/g", "default/h"):
            assert len(members.placed(key)) == members.scheduled(key)


@pytest.mark.parametrize(
    ("before", "after", "worthwhile"), [(3, 2, True), (2, 2, False), (2, 3, False)]
)
def test_a_group_is_worth_another_try_when_it_needs_fewer_pods(before, after, worthwhile):
    plugin = gang_scheduling.new(None, Handle())
    pod = make_pod("p").group("g").build()
    groups = [make_pod_group("g", count).build() for count in (before, after)]
    others = [make_pod_group("other", count).build() for count in (before, after)]

    hint = plugin._group_changed(pod, *groups)

    assert worthwhile is (hint is QueueingHint.QUEUE)
    assert plugin._group_changed(pod, *others) is QueueingHint.SKIP
    assert plugin._group_changed(pod, None, groups[1]) is QueueingHint.QUEUE
