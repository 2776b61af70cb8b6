"""The pure core of the live scheduler: what it does with one event after the other."""

import pytest
from msgspec.structs import replace

from bayplan.engine.loop import Bind, BindDone, PatchPod, RecordEvent
from bayplan.engine.loop.actions import Observe
from bayplan.errors import ConfigError
from bayplan.framework import unschedulable
from bayplan.framework.contract.events import ActionType, Resource, on
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of, kinds

SMALL = {"cpu": "2", "memory": "4Gi", "pods": "10"}


def node(name, **more):
    return make_node(name).capacity({**SMALL, **more})


def test_pod_is_bound_and_an_event_says_so():
    world = World(node("a"), make_pod("p").req(cpu="1"))

    world.run()

    assert world.node_of("p") == "a"
    event = world.events[0]
    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert event.note == "Successfully assigned default/p to a"
    assert event.scheduler_name == "default-scheduler"
    assert [note.what for note in world.scheduler.story("default/p")] == ["bound"]


def test_assumed_pod_counts_before_the_api_server_shows_it():
    world = World(node("a"), make_pod("p").req(cpu="1500m"), make_pod("q").req(cpu="1500m"))

    binds = kinds(world.step(limit=5), Bind)

    assert [bind.pod.name for bind in binds] == ["p"]
    assert world.scheduler.place_of("default/p") == "binding on a"
    assert world.scheduler.place_of("default/q") == "unschedulable"


def test_no_event_is_kept_for_a_pod_on_its_way_to_a_node():
    """No plugin can reject it any more; binding may take long and events are many."""
    world = World(node("a"), make_pod("p"))
    binds = kinds(world.step(), Bind)

    world.show(node("b"), node("c"))

    assert 1 == len(binds)
    assert 0 == world.scheduler.queue.in_flight_event_count


def test_pod_that_fits_nowhere_says_why():
    world = World(node("a"), make_pod("p").req(cpu="3"))

    world.run()

    message = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    condition = world.condition("p")
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert condition.message == message
    event = world.events[0]
    assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert event.note == message


def test_same_failure_again_sends_an_event_but_no_patch():
    world = World(node("a"), make_pod("p").req(cpu="3"))
    world.run()
    first = len(kinds(world.actions, PatchPod))

    world.wait(400)

    assert len(world.events) > 1
    assert len(kinds(world.actions, PatchPod)) == first


def test_without_nodes():
    world = World(make_pod("p"))

    world.run()

    condition = world.condition("p")
    assert condition.message == "no nodes available to schedule pods"
    assert condition.reason == "Unschedulable"
    assert world.scheduler.place_of("default/p") == "error backoff"


def test_new_node_wakes_the_pod():
    world = World(node("a"), make_pod("p").req(cpu="3"))
    world.run()

    world.show(node("b", cpu="8"))
    world.run()

    assert world.node_of("p") == "b"


def test_uncordoned_node_wakes_the_pod():
    world = World(node("a").cordon(), make_pod("p"))
    world.run()

    world.change_node("a", unschedulable=False)
    world.run()

    assert world.node_of("p") == "a"


def test_pod_of_another_scheduler_is_left_alone():
    world = World(node("a"), make_pod("p").scheduler("other"))

    world.run()

    assert world.node_of("p") == ""
    assert world.actions == []


def test_gated_pod_waits_without_a_condition():
    world = World(node("a"), make_pod("p").gate("x"))
    world.run()
    assert world.actions == []

    world.show(make_pod("p"))
    world.run()

    assert world.node_of("p") == "a"


def test_terminating_pod_is_skipped_with_an_event():
    world = World(node("a"), make_pod("p").terminating())

    world.run()

    assert world.notes() == ["skip schedule deleting pod: default/p"]
    assert world.node_of("p") == ""


def test_failed_bind_is_undone_and_tried_again_after_backoff():
    world = World(node("a"), make_pod("p").req(cpu="1500m"))
    world.fail_binds = ["the server is on fire"]

    world.run()

    condition = world.condition("p")
    assert condition.reason == "SchedulerError"
    assert condition.message == 'running Bind plugin "DefaultBinder": the server is on fire'
    assert world.scheduler.place_of("default/p") == "error backoff"
    assert world.scheduler.cache.pod_count == 0
    world.wait(3)
    assert world.node_of("p") == "a"


def test_failed_bind_wakes_pods_that_wait_for_the_room():
    world = World(node("a"), make_pod("p").req(cpu="1500m"), make_pod("q").req(cpu="1500m"))
    world.fail_binds = ["no"]

    world.run()

    assert world.node_of("q") == "a"


def test_bind_that_worked_although_it_reported_an_error():
    world = World(node("a"), make_pod("p"))
    bind = kinds(world.step(), Bind)[0]
    spec = replace(bind.pod.spec, node_name="a")

    world.show(replace(world.pod("p"), spec=spec))
    world.scheduler.handle(BindDone(bind.pod.uid, "timeout"), world.now)
    world.run()

    assert world.scheduler.place_of("default/p") == "unknown"
    assert world.scheduler.cache.pod(bind.pod.uid).node_name == "a"
    assert kinds(world.actions, PatchPod) == []


def test_pod_bound_by_somebody_else_leaves_the_queue():
    world = World(node("a"), make_pod("p"))

    world.show(make_pod("p").node("a"))
    world.run()

    assert kinds(world.actions, Bind) == []
    assert world.scheduler.story("default/p")[0].what == "bound by somebody else"


def test_pod_deleted_while_binding_frees_its_room_at_once():
    world = World(node("a"), make_pod("p").req(cpu="1500m"), make_pod("q").req(cpu="1500m"))
    actions = world.step(limit=5)

    world.gone("Pod", "default/p")
    world.carry_out(world.step(limit=5))
    world.carry_out(actions)
    world.run()

    assert world.node_of("q") == "a"
    assert world.scheduler.story("default/p")[-1].what == "dropped"


def test_assumed_pod_that_is_being_deleted_frees_its_room():
    world = World(node("a"), make_pod("p").req(cpu="1500m"))
    world.step()

    world.show(make_pod("p").req(cpu="1500m").terminating())

    assert world.scheduler.cache.pod_count == 0


def test_pod_made_anew_while_the_old_one_is_bound():
    world = World(node("a"), make_pod("p").uid("1"))
    old = kinds(world.step(), Bind)

    world.gone("Pod", "default/p")
    world.show(make_pod("p").uid("2"))
    world.carry_out(old)
    world.run()

    assert world.pod("p").uid == "2"
    assert world.node_of("p") == "a"


def test_missed_deletion_shows_as_another_uid():
    world = World(node("a").taint("x"), make_pod("p").uid("1"))
    world.run()

    world.show(make_pod("p").uid("2").tolerate("x", operator="Exists"))
    world.run()

    assert world.node_of("p") == "a"


def test_finished_pod_frees_its_node():
    world = World(node("a"), make_pod("p").node("a").req(cpu="2"), make_pod("q").req(cpu="2"))
    world.run()
    assert world.node_of("q") == ""

    world.show(make_pod("p").node("a").req(cpu="2").phase("Succeeded"))
    world.wait(3)

    assert world.node_of("q") == "a"


def test_events_twice_and_late_do_no_harm():
    world = World(node("a"), make_pod("p"))
    early = world.pod("p")
    world.scheduler.put(early, world.now)
    world.run()

    world.scheduler.put(early, world.now)
    world.scheduler.put(world.pod("p"), world.now)
    world.scheduler.put(world.pod("p"), world.now)
    world.scheduler.validate()
    world.gone("Pod", "default/p")
    world.scheduler.delete(early, world.now)
    world.scheduler.validate()
    world.run()

    assert len(kinds(world.actions, Bind)) == 1


def test_node_that_goes_keeps_its_pods_aside():
    world = World(node("a"), make_pod("p"))
    world.run()

    world.gone("Node", "a")
    world.show(make_pod("q"))
    world.run()

    assert world.condition("q").message == "no nodes available to schedule pods"


def test_long_note_is_cut_but_the_condition_is_not():
    class Talker:
        name = "Talker"

        def filter_node(self, state, pod, info):
            return unschedulable("x" * 2000)

    profile = {"plugins": {"filter": {"enabled": [{"name": "Talker"}]}}}
    world = World(
        node("a"),
        make_pod("p"),
        config=config_of(profiles=[profile]),
        registry={"Talker": lambda args, handle: Talker()},
    )

    world.run()

    assert len(world.notes()[0]) == 1024
    assert world.notes()[0].endswith("x ...")
    assert len(world.condition("p").message) > 2000


def test_plugin_that_raises_fails_that_pod_only():
    class Broken:
        name = "Broken"

        def filter_node(self, state, pod, info):
            if pod.name == "bad":
                raise ZeroDivisionError("division by zero")

    profile = {"plugins": {"filter": {"enabled": [{"name": "Broken"}]}}}
    world = World(
        node("a"),
        make_pod("bad"),
        make_pod("good").label(a="b"),
        config=config_of(profiles=[profile]),
        registry={"Broken": lambda args, handle: Broken()},
    )

    world.run()

    assert world.node_of("good") == "a"
    assert world.node_of("bad") == ""
    assert "Broken" in world.condition("bad").message
    assert "division by zero" in world.condition("bad").message
    assert world.condition("bad").reason == "SchedulerError"


def test_gates_and_hints_that_raise_count_among_the_problems_of_their_profile():
    """That is where the metric of plugins' errors and the log look."""

    class Broken:
        name = "Broken"

        def pre_enqueue(self, pod):
            if pod.name == "held":
                raise ZeroDivisionError("a gate that fails")

        def filter_node(self, state, pod, info):
            return None if "more" in info.node.metadata.name else unschedulable("one more")

        def events_to_register(self):
            return [on(Resource.NODE, ActionType.ADD, self.hint)]

        def hint(self, pod, old, new):
            raise ZeroDivisionError("a hint that fails")

    points = {name: {"enabled": [{"name": "Broken"}]} for name in ("preEnqueue", "filter")}
    world = World(
        node("a"),
        make_pod("held"),
        make_pod("p"),
        config=config_of(profiles=[{"plugins": points}]),
        registry={"Broken": lambda args, handle: Broken()},
    )
    world.run()
    world.show(node("more"))
    world.wait(3)

    (profile,) = world.scheduler.engine.profiles.values()
    assert set(profile.problems) == {("Broken", "pre_enqueue"), ("Broken", "hint")}
    assert world.node_of("p") == "more"
    assert world.node_of("held") == ""


def test_two_profiles_serve_their_pods():
    config = config_of(
        profiles=[
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "most",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "MostAllocated"}},
                    }
                ],
            },
        ]
    )
    world = World(
        node("a"), node("b"), make_pod("x").node("a").req(cpu="1", memory="2Gi"), config=config
    )

    world.show(make_pod("p").req(cpu="100m", memory="200Mi"))
    world.show(make_pod("q").req(cpu="100m", memory="200Mi").scheduler("most"))
    world.run()

    assert world.node_of("p") == "b"
    assert world.node_of("q") == "a"
    assert {event.scheduler_name for event in world.events} == {"default-scheduler", "most"}


def test_reconfigured_scheduler_takes_over_and_gives_up_pods():
    world = World(node("a").taint("x"), make_pod("p"), make_pod("q").scheduler("second"))
    world.run()
    config = config_of(profiles=[{"schedulerName": "second"}], podInitialBackoffSeconds=2)

    world.scheduler.reconfigure(config, world.now)
    world.scheduler.validate()
    world.change_node("a", taints=())
    world.run()

    assert world.node_of("p") == ""
    assert world.node_of("q") == "a"
    assert world.scheduler.queue.backoff.initial == 2


def test_bad_configuration_changes_nothing():
    world = World(node("a"), make_pod("p"))
    config = config_of(profiles=[{"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}])

    with pytest.raises(ConfigError, match="Nope"):
        world.scheduler.reconfigure(config, world.now)
    world.run()

    assert world.node_of("p") == "a"


def test_nomination_that_goes_wakes_pods_of_no_higher_priority():
    world = World(
        node("a"),
        make_pod("high").req(cpu="2").priority(10).nominated("a").gate("x"),
        make_pod("low").req(cpu="2").priority(5),
    )
    world.scheduler._shared.nominations.from_status(world.pod("high"))
    world.run()
    assert world.node_of("low") == ""

    world.gone("Pod", "default/high")
    world.wait(3)

    assert world.node_of("low") == "a"


def test_story_and_actions_are_data():
    world = World(node("a"), make_pod("p"))
    (bind,) = kinds(world.step(), Bind)

    assert bind.body()["target"] == {"kind": "Node", "name": "a"}
    assert bind.body()["metadata"]["uid"] == bind.pod.uid


def test_patch_body_says_only_what_differs():
    pod = (
        make_pod("p")
        .with_status(
            nominatedNodeName="x",
            conditions=[
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                 "message": "old"},
                {"type": "Other", "status": "True"},
            ],
        )
    )  # fmt: skip
    world = World(node("a").taint("k"), pod)
    world.run()
    patch = kinds(world.actions, PatchPod)[0]

    status = patch.body()["status"]

    assert status["$setElementOrder/conditions"] == [{"type": "PodScheduled"}, {"type": "Other"}]
    assert set(status["conditions"][0]) == {"type", "message"}
    assert status["nominatedNodeName"] is None


def test_first_condition_has_a_transition_time():
    world = World(node("a").taint("k"), make_pod("p"))
    world.run()
    patch = kinds(world.actions, PatchPod)[0]

    condition = patch.body()["status"]["conditions"][0]

    assert condition["lastTransitionTime"] == "1970-01-01T00:16:40Z"
    assert condition["status"] == "False"


def test_nothing_to_do_means_no_wake():
    world = World(node("a"), make_pod("p"))
    world.run()

    assert world.scheduler.next_wake() == float("inf")
    assert not world.scheduler.ready
    assert kinds(world.actions, RecordEvent)


def test_clock_set_back_delays_nobody():
    world = World(node("a"), make_pod("p"))
    world.fail_binds = ["no"]
    world.run()

    world.now -= 3600
    world.run()
    world.wait(3)

    assert world.node_of("p") == "a"


def test_object_that_cannot_be_taken_is_left_out():
    world = World(node("a"), make_pod("p"))

    world.scheduler.put(make_node("bad").capacity(cpu="many").build(), world.now)
    world.scheduler.put(make_pod("x").uid("").node("a").build(), world.now)
    world.run()

    assert world.node_of("p") == "a"
    assert sum(world.scheduler.problems.values()) == 2


def test_a_pod_that_the_engine_cannot_take_fails_and_is_tried_again(monkeypatch):
    """A bug meets one pod; others go on, and so does it when the bug is gone."""
    world = World(node("a"), make_pod("p"), make_pod("q"))
    engine = world.scheduler.engine
    place = engine.place

    def broken(pod, *given):
        if pod.metadata.name == "p":
            raise KeyError("a bug")
        return place(pod, *given)

    monkeypatch.setattr(engine, "place", broken)
    world.run()
    told = world.condition("p")

    assert ("", "a") == (world.node_of("p"), world.node_of("q"))
    assert ("False", "SchedulerError") == (told.status, told.reason)
    assert "a bug" in told.message
    assert {"KeyError": 1} == dict(world.scheduler.problems)
    monkeypatch.undo()
    world.wait(3)
    assert "a" == world.node_of("p")


def test_a_muted_scheduler_decides_the_same_and_tells_less():
    objects = [node("a"), *(make_pod(f"p{n}").req(cpu="1") for n in range(6))]
    told, muted = World(*objects), World(*objects)
    muted.scheduler.mute(events=True, metrics=True)

    first, second = told.step(limit=10), muted.step(limit=10)

    silent = [action for action in first if not isinstance(action, RecordEvent | Observe)]
    assert len(first) > len(silent) > 2
    assert [type(action) for action in silent] == [type(action) for action in second]
    for name in ("p0", "p5"):
        key = f"default/{name}"
        assert told.scheduler.place_of(key) == muted.scheduler.place_of(key)
