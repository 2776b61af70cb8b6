"""The loop's core: long and short forms of what happened, rest, and places in words."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayplan.api import PodGroup, convert
from bayplan.config import FeatureGates
from bayplan.engine.loop import Bind, BindDone, Scheduler
from bayplan.engine.loop.gangs import mismatch
from bayplan.engine.loop.inputs import Added, Deleted, Updated
from bayplan.engine.queue.pods import Place, QueuedPod
from bayplan.framework import Code, Status
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of, kinds
from tests.engine.loop.test_binding import Preparer, world_with
from tests.plugins.test_preempted_groups import group

NODE = make_node("a").capacity(cpu="2", memory="4Gi", pods="10").build()
WORDS = st.lists(
    st.tuples(st.sampled_from(["put", "gone", "step", "bound", "failed"]), st.sampled_from("pqr")),
    max_size=12,
)


@settings(max_examples=30, deadline=None, database=None)
@given(WORDS)
@example([("put", "p"), ("step", "p"), ("bound", "p"), ("put", "q"), ("gone", "q")])
def test_the_short_forms_do_what_the_long_ones_do(words):
    """Whatever happens, in whichever form it is told, the two schedulers stay alike."""
    long, short = (Scheduler(config_of(), in_tree_registry(), now=1000.0) for _ in range(2))
    now, on_way = 1000.0, []
    long.handle(Added(NODE), now)
    short.put(NODE, now)
    for number, (word, name) in enumerate(words):
        now += 1.0
        pod = make_pod(name).req(cpu="1").build()
        if word == "put":
            long.handle(Updated(pod, pod) if number % 2 else Added(pod), now)
            short.put(pod, now)
        elif word == "gone":
            long.handle(Deleted(pod), now)
            short.delete(pod, now)
        elif word == "step":
            told = [scheduler.step(now) for scheduler in (long, short)]
            assert [type(one) for one in told[0]] == [type(one) for one in told[1]]
            on_way += [bind.pod.metadata.uid for bind in kinds(told[0], Bind)]
        elif on_way:
            uid, error = on_way.pop(0), "" if word == "bound" else "no answer"
            long.handle(BindDone(uid, error), now)
            short.bind_done(uid, error, now)
        for known in "pqr":
            key = f"default/{known}"
            assert long.place_of(key) == short.place_of(key)
            assert long.story(key) == short.story(key)
        assert long.next_wake() == short.next_wake()
        assert (long.ready, long.calm) == (short.ready, short.calm)


@pytest.mark.parametrize("tell", ["step", "handle", "put", "delete", "bind_done"])
def test_a_clock_set_back_is_noticed_by_whatever_is_told_first(tell):
    """A wait that had ten seconds to go still has ten, in the clock that is now."""
    world = World(NODE, make_pod("p").req(cpu="3"))
    world.run()
    before = world.scheduler.next_wake() - world.now
    back = world.now - 500.0
    other = make_node("b").capacity(cpu="1").build()
    {
        "step": lambda: world.scheduler.step(back, 0),
        "handle": lambda: world.scheduler.handle(BindDone("nobody"), back),
        "put": lambda: world.scheduler.put(make_pod("q").scheduler("x").build(), back),
        "delete": lambda: world.scheduler.delete(other, back),
        "bind_done": lambda: world.scheduler.bind_done("nobody", "", back),
    }[tell]()

    assert before == world.scheduler.next_wake() - back


def test_a_deletion_that_cannot_be_taken_is_counted_and_the_rest_goes_on(monkeypatch):
    world = World(NODE)

    def broken(old):
        raise ValueError("no such thing")

    with monkeypatch.context() as planted:
        planted.setattr(world.scheduler._objects, "deleted", broken)
        world.scheduler.delete(NODE, world.now)
    world.show(make_pod("p"))
    world.run()

    assert {"Node: ValueError": 1} == dict(world.scheduler.problems)
    assert "a" == world.node_of("p")


def test_calm_is_a_scheduler_without_a_pod_that_waits_for_anything():
    plugin = Preparer()
    world = world_with(plugin)
    assert world.scheduler.calm
    world.show(make_pod("p"))
    assert not world.scheduler.calm, "it is queued"
    world.run()
    assert not world.scheduler.calm, "its claim is waited for"
    plugin.status = Status(Code.SUCCESS)
    world.wait(1)
    assert world.scheduler.calm, "it is bound"


@pytest.mark.parametrize(("on", "groups"), [(False, 1), (True, 0), (True, 1)])
def test_groups_are_there_where_gates_and_objects_say_so(on, groups):
    gates = FeatureGates({"GenericWorkload": on}, "1.37")
    body = group("g", schedulingPolicy={"gang": {"minCount": 2}})
    made = convert(PodGroup, {"apiVersion": "scheduling.k8s.io/v1beta1", **body})
    world = World(NODE, *[made] * groups, gates=gates)

    assert world.scheduler.has_groups is (on and groups > 0)
    assert world.scheduler.calm is not on, "a pod of a group may wait for any other"


def test_places_in_words():
    world = World(NODE, make_pod("p").req(cpu="1"), make_pod("q").req(cpu="9"))
    world.show(make_pod("held").with_spec(schedulingGates=[{"name": "x"}]))
    world.show(make_pod("other").scheduler("another"))
    place = world.scheduler.place_of
    assert "active" == place("default/p")
    world.step(limit=2)

    assert "binding on a" == place("default/p")
    assert "unschedulable" == place("default/q")
    assert "gated by SchedulingGates" == place("default/held")
    assert "not queued" == place("default/other")
    assert "unknown" == place("default/nobody")


WHERE = [
    (Place.UNSCHEDULABLE, "Gate", (), "gated by Gate"),
    (Place.UNSCHEDULABLE, "", ("Fit",), "unschedulable"),
    (Place.ACTIVE, "", (), "active"),
    (Place.ACTIVE, "Gate", (), "active"),
    (Place.BACKOFF, "", ("Fit",), "backoff"),
    (Place.BACKOFF, "", (), "backoff"),
    (Place.ERROR_BACKOFF, "", (), "error backoff"),
    (Place.ERROR_BACKOFF, "", ("Fit",), "backoff"),
]


@pytest.mark.parametrize(("place", "gate", "rejectors", "words"), WHERE)
def test_where_a_queued_pod_is(place, gate, rejectors, words):
    for pending in (False, True):
        item = QueuedPod(make_pod("p").build(), 0.0)
        item.place, item.gating_plugin = place, gate
        item.rejected_by(*(((), rejectors) if pending else (rejectors, ())))
        assert words == item.where


def test_what_pods_of_a_group_contradict_each_other_in():
    def pod(name, priority=0, scheduler="default-scheduler", policy=None):
        made = make_pod(name).priority(priority).scheduler(scheduler)
        return (made.with_spec(preemptionPolicy=policy) if policy else made).build()

    first, never = pod("a"), "Never"
    name = (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        'got: "other" and "default-scheduler"'
    )
    policy = (
        "all pods in a single pod group should have the same preemption policy, "
        "got Never and PreemptLowerPriority"
    )
    rank = (
        "all pods in a single pod group should have the same priority as the pod group's "
        "priority, got 7 and 0"
    )
    same = pod("b", policy="PreemptLowerPriority")
    for pods, scheduled, priority, text in [
        ([first], [], 0, ""),
        ([first, same], [same], 0, ""),
        ([first, pod("b", scheduler="other")], [], 0, name),
        ([first, pod("b", scheduler="other")], [], None, name),
        ([first], [pod("b", scheduler="other")], 0, name),
        ([first, pod("b", policy=never)], [], 0, policy),
        ([first], [pod("b", policy=never)], 0, policy),
        ([first, pod("b", policy=never)], [], None, ""),
        ([first, pod("b", 7)], [], 0, rank),
        ([first], [pod("b", 7)], 0, rank),
        ([first, pod("b", 7)], [], None, ""),
        ([pod("a", 7), pod("b", 7)], [], 7, ""),
    ]:
        assert text == mismatch(pods, scheduled, priority)
