"""Binding cycles against a plain model: all pairs of what two plugins may answer."""

from itertools import product

import pytest

from bayplan.config import FeatureGates
from bayplan.engine.loop import Bind, BindDone, CallApi, CallsDone, PatchPod, PermitDecision
from bayplan.framework import ApiCall, Code, Effects, PreBindPreFlightResult, Status, unschedulable
from bayplan.framework.contract.state import PODS_TO_ACTIVATE
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of, kinds
from tests.engine.loop.test_binding import Waiter, world_with

NODE = make_node("a").capacity(cpu="2", memory="4Gi", pods="10")
CALL = ApiCall("patch", "persistentvolumeclaims", "default", "c", {})
BOOM = Status(Code.ERROR, "boom")
NO = unschedulable("no")
GOOD = ("skips", "nothing", "success", "at once", "later", "call", "call and later")
BAD = (
    "preflight fails",
    "fails",
    "rejects",
    "raises",
    "call fails",
    "at once fails",
    "later fails",
    "later rejects",
    "later raises",
)


class Step:
    """A PreBind plugin that behaves as it is told."""

    def __init__(self, name, kind, together):
        self.name, self.kind, self.together = name, kind, together
        self.world = None
        self.unreserved = 0

    def reserve(self, state, pod, node_name):
        return None

    def unreserve(self, state, pod, node_name):
        self.unreserved += 1

    def events_to_register(self):
        return ()

    def pre_bind_pre_flight(self, state, pod, node_name):
        if self.kind == "preflight fails":
            return None, BOOM
        if self.kind == "skips":
            return None, Status(Code.SKIP)
        return PreBindPreFlightResult(allow_parallel=self.together), None

    def pre_bind(self, state, pod, node_name):
        kind, due = self.kind, self.world.now + 0.5
        plain = {"nothing": None, "success": Status(Code.SUCCESS), "fails": BOOM, "rejects": NO}
        if kind in plain:
            return plain[kind]
        if kind == "raises":
            raise ValueError("boom")
        calls = (CALL,) if kind.startswith("call") else ()
        if kind in ("at once", "call", "call fails"):
            return Effects(calls)
        if kind == "at once fails":
            return Effects(done=lambda: BOOM)

        def done():
            if self.world.now < due:
                return None
            if kind == "later raises":
                raise ValueError("boom")
            said = {"later fails": BOOM, "later rejects": NO}
            return said.get(kind, Status(Code.SUCCESS))

        return Effects(calls, done)


def expected(steps, together):
    """What comes of it: nothing if the pod is bound, else who failed and how."""
    for name, kind in steps:
        if kind == "preflight fails":
            return name, kind
    acting = [(name, kind) for name, kind in steps if kind != "skips"]
    for group in [acting] if together else [[step] for step in acting]:
        at_once = [step for step in group if step[1] in ("fails", "rejects", "raises")]
        polled = [step for step in group if step[1] == "at once fails"]
        calls = [step for step in reversed(group) if step[1] == "call fails"]
        later = [step for step in group if step[1].startswith("later ")]
        for failed in (at_once, polled, calls, later):
            if failed:
                return failed[0]
    return None


def is_told(failed, condition):
    name, kind = failed
    if kind.endswith("rejects"):
        return (condition.message, condition.reason) == ("no", "Unschedulable")
    doing = f'PreBindPreFlight "{name}"' if "flight" in kind else f'PreBind plugin "{name}"'
    whose = f'plugin "{name}" raised ValueError in PreBind: ' if kind == "raises" else ""
    begins = condition.message.startswith(f"running {doing}: {whose}boom")
    return begins and condition.reason == "SchedulerError"


def run(kinds_of, together):
    plugins = [Step(name, kind, together) for name, kind in zip("XY", kinds_of, strict=True)]
    names = [{"name": plugin.name} for plugin in plugins]
    config = config_of(profiles=[{"plugins": {"multiPoint": {"enabled": names}}}])
    registry = {plugin.name: lambda args, handle, it=plugin: it for plugin in plugins}
    world = World(NODE, config=config, registry=registry)
    for plugin in plugins:
        plugin.world = world
    world.show(make_pod("p").req(cpu="1"))
    bound, limit = [], 1
    for _ in range(7):
        actions, limit = world.step(limit), 0
        for action in reversed(kinds(actions, CallApi)):  # the later one is answered first
            kind = next(plugin.kind for plugin in plugins if plugin.name == action.plugin)
            world.report(CallsDone(action.work, "boom" if kind == "call fails" else ""))
        bound += kinds(actions, Bind)
        world.carry_out([item for item in actions if not isinstance(item, CallApi | Bind)])
        world.now += 0.5
    return world, plugins, bound


@pytest.mark.parametrize("together", [False, True], ids=["in turn", "together"])
@pytest.mark.parametrize("first", GOOD + BAD)
def test_all_pairs_of_plugins_end_as_the_model_says(first, together):
    for second in GOOD + BAD:
        steps = [("X", first), ("Y", second)]
        world, plugins, bound = run((first, second), together)
        failed = expected(steps, together)
        if failed is None:
            assert ["p"] == [bind.pod.name for bind in bound], steps
            assert "binding on a" == world.scheduler.place_of("default/p")
            assert not world.scheduler.bindings.polls
            continue
        assert not bound, steps
        assert is_told(failed, world.condition("p")), (steps, world.condition("p"))
        assert [1, 1] == [plugin.unreserved for plugin in plugins]
        assert 0 == len(world.scheduler.bindings) == world.scheduler.cache.pod_count
        assert not world.scheduler.bindings.polls, "nobody is asked any more"


class Binder:
    """Bind: says what it is told to."""

    name = "Binder"

    def __init__(self, answer):
        self.answer = answer

    def bind(self, state, pod, node_name):
        state.write(PODS_TO_ACTIVATE, {"default/q": make_pod("q").build()})
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def bind_world(answer):
    points = {"bind": {"enabled": [{"name": "Binder"}], "disabled": [{"name": "*"}]}}
    registry = {"Binder": lambda args, handle: Binder(answer)}
    return World(
        NODE, make_pod("p"), config=config_of(profiles=[{"plugins": points}]), registry=registry
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, ""),
        (Status(Code.SUCCESS), ""),
        (Effects(), ""),
        (Effects(done=lambda: Status(Code.SUCCESS)), ""),
        (BOOM, 'running Bind plugin "Binder": boom'),
        (ValueError("boom"), 'running Bind plugin "Binder": plugin "Binder" raised ValueError'),
        (Effects(done=lambda: BOOM), 'running Bind plugin "Binder": boom'),
        (Effects(done=lambda: NO), "no"),
        (NO, "no"),
        (Status(Code.SKIP, "not mine"), ""),
    ],
)
def test_what_a_bind_plugin_may_answer_itself(answer, message):
    world = bind_world(answer)
    world.carry_out(world.step())
    world.carry_out(world.step(limit=0))
    fails = bool(message) or answer == Status(Code.SKIP, "not mine")

    assert ([] if fails else ["Successfully assigned default/p to a"]) == [
        note for note in world.notes() if note.startswith("Success")
    ]
    assert 0 == len(world.scheduler.bindings)
    if fails:
        assert world.condition("p").message.startswith(message)
        assert 0 == world.scheduler.cache.pod_count


def test_only_a_cycle_that_prepares_can_be_cancelled():
    def outcomes(world):
        uid = world.pod("p").uid
        return world.scheduler.bindings.cancel(uid, "another needs the room")

    assert not World(NODE).scheduler.bindings.cancel("nobody", "why")
    world = world_with(Waiter(), make_pod("p"))
    world.run()
    assert not outcomes(world), "it waits on Permit: it is rejected instead"
    world = World(NODE, make_pod("p"))
    world.step()
    assert "binding on a" == world.scheduler.place_of("default/p")
    assert not outcomes(world), "its Binding may be there already"

    class Slow:
        name = "Slow"

        def pre_bind(self, state, pod, node_name):
            return Effects(done=lambda: None)

    world = world_with(Slow(), make_pod("p"))
    world.step()
    assert outcomes(world)
    world.carry_out(world.step(limit=0))
    assert "another needs the room" == world.condition("p").message
    assert 0 == len(world.scheduler.bindings)


def test_a_cycle_that_ends_another_ends_it_once():
    ended, ready = [], []

    class Together:
        """Whose pods go on together, or not at all."""

        name = "Together"

        def reserve(self, state, pod, node_name):
            return None

        def unreserve(self, state, pod, node_name):
            ended.append(pod.name)
            other = world.pod("q" if pod.name == "p" else "p")
            world.scheduler.bindings.cancel(other.uid, "the other one failed")

        def pre_bind(self, state, pod, node_name):
            return Effects(done=lambda: BOOM if ready else None)

    world = world_with(Together(), make_pod("p"), make_pod("q"))
    world.step(limit=2)
    ready.append(True)
    world.wait(1)

    assert ["p", "q"] == sorted(ended)
    assert 0 == len(world.scheduler.bindings) == world.scheduler.cache.pod_count


def test_a_slow_bind_after_what_was_prepared_at_once_is_waited_for():
    """A pod is bound when its Binding was made, not when somebody looks at the cluster again."""
    world = world_with(Step("Ready", "at once", False))
    world.scheduler.engine.profiles["default-scheduler"].pre_bind[-1].world = world
    world.show(make_pod("p"))
    (bind,) = kinds(world.step(), Bind)
    world.wait(3)

    assert "binding on a" == world.scheduler.place_of("default/p")
    assert not world.notes()
    world.report(BindDone(bind.pod.uid, "no answer"))
    world.run()
    assert 'running Bind plugin "DefaultBinder": no answer' == world.condition("p").message


@pytest.mark.parametrize("on", [False, True])
def test_what_plugins_announce_counts_behind_its_gate_alone(on):
    """Without NominatedNodeNameForExpectation nobody is asked ahead, and no node is published."""
    gates = FeatureGates({"NominatedNodeNameForExpectation": on}, "1.37")
    asked = []

    class Shy:
        name = "Shy"

        def pre_bind_pre_flight(self, state, pod, node_name):
            asked.append("preflight")
            return None, Status(Code.SKIP)

        def pre_bind(self, state, pod, node_name):
            asked.append("pre bind")

    world = world_with(Shy(), make_pod("p"), gates=gates)
    actions = world.step()

    assert ["preflight" if on else "pre bind"] == asked
    assert 1 == len(kinds(actions, Bind))
    assert not kinds(actions, PatchPod)
    waiting = world_with(Waiter(), make_pod("p"), gates=gates).step()
    assert on == bool(kinds(waiting, PatchPod))


def test_room_of_a_pod_that_is_refused_late_wakes_others_and_not_the_pod_itself():
    world = world_with(Waiter(), make_pod("p").req(cpu="2"))
    world.run()
    world.show(make_pod("q").req(cpu="2"))
    world.run()
    assert "unschedulable" == world.scheduler.place_of("default/q")
    refused = PermitDecision(world.pod("p").uid, "Waiter", False, "no")
    world.report(refused)
    world.carry_out(world.step(limit=0))

    assert "unschedulable" == world.scheduler.place_of("default/p")
    assert "backoff" == world.scheduler.place_of("default/q")


def test_reports_about_nobody_change_nothing():
    world = World(NODE, make_pod("p"))
    world.report(BindDone("nobody"))
    world.report(CallsDone(77, "lost"))
    world.run()

    assert "a" == world.node_of("p")


def test_one_pod_that_waits_for_ever_does_not_hold_up_the_next():
    """Two pods wait at once; that of the first which is done is seen though another is not."""
    ready = set()

    class Each:
        name = "Each"

        def pre_bind(self, state, pod, node_name):
            name = pod.name
            return Effects(done=lambda: Status(Code.SUCCESS) if name in ready else None)

    for done, stays in product("pq", "pq"):
        if done == stays:
            continue
        ready.clear()
        world = world_with(Each(), make_pod("p"), make_pod("q"))
        world.step(limit=2)
        assert world.scheduler.bindings.polls
        ready.add(done)
        world.wait(1)
        assert ("a", "") == (world.node_of(done), world.node_of(stays))
        assert "pre bind on a" == world.scheduler.place_of(f"default/{stays}")
