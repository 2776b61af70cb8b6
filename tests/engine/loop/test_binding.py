"""Binding cycles: Permit, PreBind, binders of all kinds, and what happens when they fail."""

import pytest

from bayplan.engine.loop import (
    Bind,
    BindDone,
    CallApi,
    CallsDone,
    ExtenderBind,
    PatchPod,
    PermitDecision,
)
from bayplan.engine.loop.actions import Observe
from bayplan.framework import ApiCall, Code, Effects, Status, unschedulable
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of, kinds

NODE = make_node("a").capacity(cpu="2", memory="4Gi", pods="10")


def world_with(plugin, *objects, **options):
    names = [{"name": plugin.name}]
    config = config_of(profiles=[{"plugins": {"multiPoint": {"enabled": names}}}])
    registry = {plugin.name: lambda args, handle: plugin}
    return World(NODE, *objects, config=config, registry=registry, **options)


class Waiter:
    """Permit: everybody waits for a minute."""

    name = "Waiter"

    def __init__(self):
        self.unreserved = []

    def permit(self, state, pod, node_name):
        return Status(Code.WAIT), 60.0

    def reserve(self, state, pod, node_name):
        return None

    def unreserve(self, state, pod, node_name):
        self.unreserved.append(pod.name)

    def events_to_register(self):
        return ()


def test_pod_waits_until_it_is_allowed():
    world = world_with(Waiter(), make_pod("p"))
    world.run()
    assert world.scheduler.place_of("default/p") == "waiting on a"
    assert world.pod("p").status.nominated_node_name == "a"
    assert world.scheduler.next_wake() == world.now + 60

    world.scheduler.handle(PermitDecision(world.pod("p").uid, "Waiter", True), world.now)
    world.run()

    assert world.node_of("p") == "a"


def test_pod_that_is_rejected_goes_back():
    plugin = Waiter()
    world = world_with(plugin, make_pod("p"))
    world.run()

    decision = PermitDecision(world.pod("p").uid, "Waiter", False, "not today")
    world.scheduler.handle(decision, world.now)
    world.run()

    condition = world.condition("p")
    assert condition.message == "0/1 nodes are available: 1 not today."
    assert condition.reason == "Unschedulable"
    assert plugin.unreserved == ["p"]
    assert world.scheduler.place_of("default/p") == "unschedulable"
    assert world.scheduler.cache.pod_count == 0
    assert world.pod("p").status.nominated_node_name == ""


def test_pod_whose_time_is_up_goes_back():
    world = world_with(Waiter(), make_pod("p"))

    world.run()
    world.wait(61)

    text = "rejected due to timeout after waiting 1m0s at plugin Waiter"
    assert world.condition("p").message == f"0/1 nodes are available: 1 {text}."


def test_waiting_pod_that_is_deleted_goes():
    world = world_with(Waiter(), make_pod("p").req(cpu="2"))
    world.run()

    world.gone("Pod", "default/p")
    world.run()

    assert len(world.scheduler.bindings) == 0
    assert world.scheduler.cache.pod_count == 0
    assert world.scheduler.queue.in_flight_count == 0


def test_update_while_waiting_counts_when_the_pod_comes_back():
    world = world_with(Waiter(), make_pod("p"))
    world.run()

    world.show(make_pod("p").label(new="label"))
    decision = PermitDecision(world.pod("p").uid, "Waiter", False, "no")
    world.scheduler.handle(decision, world.now)
    world.step(limit=0)

    assert world.scheduler.queue.get("default/p").pod.labels == {"new": "label"}


def test_two_waiting_pods_let_go_by_a_third():
    class Three:
        name = "Three"

        def __init__(self):
            self.handle = None

        def permit(self, state, pod, node_name):
            if len(self.handle.waiting) < 2:
                return Status(Code.WAIT), 60.0
            for waiting in self.handle.waiting:
                waiting.allow(self.name)
            return None, 0.0

    plugin = Three()

    def new(args, handle):
        plugin.handle = handle
        return plugin

    config = config_of(profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "Three"}]}}}])
    pods = [make_pod(name) for name in "pqr"]
    world = World(NODE, *pods, config=config, registry={"Three": new})

    world.run()

    assert [world.node_of(name) for name in "pqr"] == ["a", "a", "a"]


@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (unschedulable("full"), "0/1 nodes are available: 1 full.", "Unschedulable"),
        (
            Status(Code.ERROR, "boom"),
            'running Reserve plugin "Reserver": boom',
            "SchedulerError",
        ),
    ],
    ids=["rejected", "error"],
)
def test_reserve_that_refuses(status, message, reason):
    class Reserver:
        name = "Reserver"

        def reserve(self, state, pod, node_name):
            return status

        def unreserve(self, state, pod, node_name):
            pass

        def events_to_register(self):
            return ()

    world = world_with(Reserver(), make_pod("p"))

    world.run()

    assert (world.condition("p").message, world.condition("p").reason) == (message, reason)
    assert world.scheduler.cache.pod_count == 0


class Preparer:
    """PreBind: one call, then waits until told."""

    name = "Preparer"

    def __init__(self, status=None, seconds=0.0):
        self.status = status
        self.seconds = seconds

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None, None

    def pre_bind(self, state, pod, node_name):
        call = ApiCall("patch", "persistentvolumeclaims", "default", "c", {})
        return Effects((call,), lambda: self.status, self.seconds)


def test_pre_bind_is_called_and_awaited():
    plugin = Preparer()
    world = world_with(plugin, make_pod("p"))
    actions = world.step()
    (call,) = kinds(actions, CallApi)
    (patch,) = kinds(actions, PatchPod)
    assert patch.nominated_node_name == "a"
    assert world.scheduler.place_of("default/p") == "pre bind on a"

    world.scheduler.handle(CallsDone(call.work), world.now)
    world.scheduler.validate()
    assert kinds(world.step(), Bind) == []
    assert world.scheduler.next_wake() == world.now + 1
    plugin.status = Status(Code.SUCCESS)
    world.wait(1)

    assert world.node_of("p") == "a"


def test_pre_bind_that_only_waits_is_looked_at_a_second_later():
    plugin = Preparer()
    plugin.pre_bind = lambda state, pod, node_name: Effects((), lambda: plugin.status, 0.0)
    world = world_with(plugin, make_pod("p"))

    assert kinds(world.step(), Bind) == []
    assert world.scheduler.next_wake() == world.now + 1
    plugin.status = Status(Code.SUCCESS)
    world.wait(1)

    assert world.node_of("p") == "a"


def test_pre_bind_goes_on_when_an_object_changes():
    plugin = Preparer()
    world = world_with(plugin, make_pod("p"))
    world.run()

    plugin.status = Status(Code.SUCCESS)
    from bayplan.testing import make_claim

    world.show(make_claim("c"))
    world.run()

    assert world.node_of("p") == "a"


@pytest.mark.parametrize(
    ("plugin", "error", "message"),
    [
        (Preparer(), "conflict", 'running PreBind plugin "Preparer": conflict'),
        (Preparer(Status(Code.ERROR, "lost")), "", 'running PreBind plugin "Preparer": lost'),
        (Preparer(None, 5.0), "", 'running PreBind plugin "Preparer": timed out after 5s'),
    ],
    ids=["call fails", "wait fails", "time is up"],
)
def test_pre_bind_that_fails(plugin, error, message):
    world = world_with(plugin, make_pod("p"))
    (call,) = kinds(world.step(), CallApi)

    world.scheduler.handle(CallsDone(call.work, error), world.now)
    for _ in range(6):
        world.now += 1
        actions = world.step(limit=0)
        world.carry_out([a for a in actions if not isinstance(a, CallApi)])

    assert world.condition("p").message == message
    assert world.scheduler.cache.pod_count == 0


def test_bind_plugin_of_ones_own():
    class Binder:
        name = "Binder"

        def bind(self, state, pod, node_name):
            return Effects((ApiCall("create", "pods", "default", pod.name, {}, "binding"),))

    config = config_of(
        profiles=[
            {"plugins": {"bind": {"enabled": [{"name": "Binder"}], "disabled": [{"name": "*"}]}}}
        ]
    )
    world = World(
        NODE, make_pod("p"), config=config, registry={"Binder": lambda args, handle: Binder()}
    )
    (call,) = kinds(world.step(), CallApi)

    world.scheduler.handle(CallsDone(call.work), world.now)
    world.run()

    assert "Successfully assigned default/p to a" in world.notes()


class FakeExtender:
    """Binds and does nothing else."""

    name = "http://extender"
    is_filter = is_prioritizer = supports_preemption = False
    is_binder = True
    blocking = False
    weight = 1

    def __init__(self, ignorable=False):
        self.ignorable = ignorable

    def interested(self, pod):
        return True


def test_extender_binds():
    world = World(NODE, make_pod("p"), extenders=[FakeExtender()])
    (bind,) = kinds(world.step(), ExtenderBind)

    world.scheduler.handle(BindDone(bind.pod.uid), world.now)
    world.run()

    assert "Successfully assigned default/p to a" in world.notes()


@pytest.mark.parametrize("ignorable", [False, True])
def test_extender_that_fails_to_bind(ignorable):
    world = World(NODE, make_pod("p"), extenders=[FakeExtender(ignorable)])
    (bind,) = kinds(world.step(), ExtenderBind)

    world.scheduler.handle(BindDone(bind.pod.uid, "no answer"), world.now)
    world.run()

    assert world.node_of("p") == ("a" if ignorable else "")
    if not ignorable:
        assert world.condition("p").message == "no answer"


def test_post_bind_and_pods_to_activate():
    told = []

    class Herald:
        name = "Herald"

        def reserve(self, state, pod, node_name):
            state.write("kubernetes.io/pods-to-activate", {"default/q": world.pod("q")})

        def unreserve(self, state, pod, node_name):
            pass

        def post_bind(self, state, pod, node_name):
            told.append((pod.name, node_name))

        def events_to_register(self):
            return ()

    world = world_with(Herald(), make_pod("q").req(cpu="3"))
    world.run()
    before = world.scheduler.queue.incoming["active", "ForceActivate"]

    world.show(make_pod("p"))
    world.run()

    assert told == [("p", "a")]
    assert world.scheduler.queue.incoming["active", "ForceActivate"] == before + 1


class Patient:
    """PreBind: waits half a minute for something that never comes."""

    name = "Patient"

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None, None

    def pre_bind(self, state, pod, node_name):
        return Effects((), done=lambda: None, timeout_seconds=30.0)


@pytest.mark.parametrize("every", [1.5, 0.5, 0.01], ids=["quiet", "busy", "very busy"])
def test_pre_bind_times_out_however_busy_the_scheduler_is(every):
    world = world_with(Patient(), make_pod("p").req(cpu="1"))
    world.step()
    begin = world.now
    while world.scheduler.place_of("default/p") == "pre bind on a":
        world.now += every
        assert world.now < begin + 40
        world.scheduler.step(world.now, 64)

    assert 30 <= world.now - begin <= 32


class Binder:
    """Bind: a plain Binding, but not by DefaultBinder."""

    name = "Binder"

    def __init__(self, target):
        self.target = target

    def bind_target(self, pod, node_name):
        return node_name if self.target else ""

    def bind(self, state, pod, node_name):
        return Effects((ApiCall("create", "pods", "default", pod.name, {}, subresource="x"),))


@pytest.mark.parametrize(("target", "action"), [(True, Bind), (False, CallApi)])
def test_any_binder_may_name_the_node_and_leave_the_call_to_the_scheduler(target, action):
    plugin = Binder(target)
    points = {"bind": {"enabled": [{"name": "Binder"}], "disabled": [{"name": "*"}]}}
    world = World(
        NODE,
        make_pod("p").req(cpu="1"),
        config=config_of(profiles=[{"plugins": points}]),
        registry={"Binder": lambda args, handle: plugin},
    )

    assert 1 == len(kinds(world.step(), action))


class Pair:
    """Permit: the first pod waits, the second lets it go."""

    name = "Pair"

    def __init__(self, handle):
        self.handle = handle

    def permit(self, state, pod, node_name):
        others = list(self.handle.waiting)
        for waiting in others:
            waiting.allow(self.name)
        return (None, 0.0) if others else (Status(Code.WAIT), 60.0)

    def events_to_register(self):
        return ()


def test_a_pod_that_is_let_go_is_bound_in_the_step_of_who_let_it_go():
    config = config_of(profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "Pair"}]}}}])
    registry = {"Pair": lambda args, handle: Pair(handle)}
    world = World(NODE, make_pod("p"), make_pod("q"), config=config, registry=registry)

    binds = kinds(world.step(limit=2), Bind)

    assert ["p", "q"] == sorted(bind.pod.name for bind in binds)


@pytest.mark.parametrize(("events", "metrics"), [(False, False), (True, False), (False, True)])
def test_what_nobody_reads_is_not_told(events, metrics):
    world = World(NODE, make_pod("p"))
    world.scheduler.mute(events=events, metrics=metrics)
    world.run()

    told = [each.result for each in kinds(world.actions, Observe)]
    assert ([] if metrics else ["scheduled"]) == told
    assert ([] if events else ["Scheduled"]) == [event.reason for event in world.events]


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_the_node_that_was_refused_is_told_with_who_refused_it(point):
    class Refuser:
        name = "Refuser"

        def reserve(self, state, pod, node_name):
            return unschedulable("no desk") if point == "reserve" else None

        def unreserve(self, state, pod, node_name):
            pass

        def permit(self, state, pod, node_name):
            return (unschedulable("no desk") if point == "permit" else None), 0.0

        def events_to_register(self):
            return ()

    world = world_with(Refuser(), make_pod("p"))
    decision = world.scheduler.engine.place(world.pod("p"), world.now)
    told = decision.fit_error.diagnosis.status_of("a")

    assert ("Refuser", ("no desk",)) == (told.plugin, told.reasons)
    assert {"Refuser"} == decision.fit_error.unschedulable_plugins


@pytest.mark.parametrize("shown", [False, True], ids=["leaves", "is bound by somebody else"])
@pytest.mark.parametrize("end", ["reject", "preempt"])
def test_a_pod_whose_wait_ends_badly_wakes_others_only_if_it_leaves_its_node(end, shown):
    world = world_with(Waiter(), make_pod("p").req(cpu="2"), make_pod("next").req(cpu="1"))
    world.run()
    if shown:
        world.show(make_pod("p").req(cpu="2").node("a"))
    world.wait(20)
    assert "unschedulable" == world.scheduler.place_of("default/next")

    getattr(world.scheduler.cache.waiting.get(world.pod("p").uid), end)("Waiter", "not today")
    world.step(limit=0)

    place = "unschedulable" if shown else "active"
    assert place == world.scheduler.place_of("default/next")
    assert int(shown) == world.scheduler.cache.pod_count
    assert {} == dict(world.scheduler.problems)
    assert 0 == len(world.scheduler.bindings)
