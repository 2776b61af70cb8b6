"""PodGroupPostFilter: plugins that make room for a group that found none, also one of a user."""

import pytest

from bayplan.config import FeatureGates, from_data
from bayplan.config.fields import InvalidConfig
from bayplan.engine.loop import Scheduler
from bayplan.engine.loop.actions import CallApi, Evict, RecordEvent
from bayplan.framework import (
    ApiCall,
    Effects,
    NominatingInfo,
    NominatingMode,
    PodGroupPostFilterResult,
    unresolvable,
    unschedulable,
)
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod, make_pod_group, make_resource_claim

GATES = FeatureGates({"GenericWorkload": True}, "1.37")
OLD = FeatureGates(
    {"GenericWorkload": True, "GangScheduling": True, "WorkloadAwarePreemption": True}, "1.36"
)
POINT = "podGroupPostFilter"
EMPTY = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class Guests:
    """Makes room for a group by sending away pods with a label, whatever their priority."""

    name = "Guests"

    def __init__(self, handle):
        self._table = handle.table
        self.seen = []

    def pod_group_post_filter(self, state, group, trial):
        self.seen.append([(each.info.pod.name, each.node_name) for each in trial.tried])
        guests = [info for info in self._table.all_pods() if "guest" in info.pod.metadata.labels]
        for info in guests:
            trial.remove_pod(info)
        proposed, status = trial.schedule()
        if status is not None:
            return None, status
        placed = trial.follow(proposed)
        stay = []
        for info in guests:
            trial.add_pod(info)
            if trial.fits(placed):
                stay.append(info)
            else:
                trial.remove_pod(info)
        gone = tuple(info.pod for info in guests if info not in stay)
        nodes = {
            each.info.uid: NominatingInfo(each.node_name, NominatingMode.OVERRIDE)
            for each in placed
        }
        return PodGroupPostFilterResult(nodes, gone), None


def scheduler(gates=GATES, make=Guests, **plugins):
    made = []

    def new(args, handle):
        made.append(make(handle))
        return made[0]

    document = {**EMPTY, "profiles": [{"plugins": plugins}]}
    registry = {**in_tree_registry(), make.name: new}
    found = Scheduler(from_data(document, gates), registry, gates=gates)
    for name in ("n1", "n2", "n3"):
        found.put(make_node(name).capacity(cpu="2").build(), 0.0)
        found.put(make_pod(f"own-{name}").node(name).req(cpu="1").priority(50).build(), 0.0)
        guest = make_pod(f"guest-{name}").node(name).req(cpu="1").priority(50)
        found.put(guest.label(guest="yes").build(), 0.0)
    found.put(make_pod_group("g", 2).build(), 0.0)
    for name in ("p", "q"):
        found.put(make_pod(name).group("g").req(cpu="1").build(), 0.0)
    return found, made[0] if made else None


def act(found):
    actions = found.step(0.0)
    found.validate()
    found.engine.validate()
    return actions


def evicted(actions):
    return sorted(each.victim.name for each in actions if isinstance(each, Evict))


def told(actions):
    """What the group's condition says."""
    bodies = [call.body for each in actions if isinstance(each, CallApi) for call in each.calls]
    (condition,) = [c for body in bodies if body for c in body["status"]["conditions"]]
    return condition["message"]


def nominated(found):
    return {
        info.pod.name: name
        for name in ("n1", "n2", "n3")
        for info in found.cache.nominator.pods_for(name)
    }


BOTH = [{"name": "Guests"}, {"name": "DefaultPreemption"}]


@pytest.mark.parametrize(
    "plugins",
    [{"multiPoint": {"enabled": [{"name": "Guests"}]}}, {POINT: {"enabled": [{"name": "Guests"}]}}],
    ids=["multiPoint", "its own point"],
)
def test_a_plugin_of_a_user_says_who_goes(plugins):
    """Nobody is less important, so preemption gives up for good; it has to be switched off."""
    plugins[POINT] = {**plugins.get(POINT, {}), "disabled": [{"name": "DefaultPreemption"}]}
    found, plugin = scheduler(**plugins)
    before = {name: list(found.cache.table.pods_of(name)) for name in ("n1", "n2", "n3")}
    actions = act(found)

    assert [[("p", "")]] == plugin.seen  # the cycle ends when the demand cannot be met
    assert 1 == len(evicted(actions))  # the last of the two goes when the first is gone
    assert 2 == len(nominated(found))
    assert before == {name: found.cache.table.pods_of(name) for name in before}


def test_the_first_that_helps_ends_the_round():
    found, _ = scheduler(podGroupPostFilter={"enabled": BOTH, "disabled": [{"name": "*"}]})
    actions = act(found)

    assert evicted(actions)[0].startswith("guest-")


def test_who_gives_up_for_good_ends_the_round():
    last = {"enabled": BOTH[::-1], "disabled": [{"name": "*"}]}
    found, plugin = scheduler(podGroupPostFilter=last)
    actions = act(found)

    assert not plugin.seen
    assert not evicted(actions)
    assert "No preemption victims found for incoming preemptor" in told(actions)


def test_without_plugins_nobody_goes():
    nobody = {"disabled": [{"name": "*"}]}
    found, _ = scheduler(podGroupPostFilter=nobody)

    assert "preemption" not in told(act(found))


class Teller:
    """Answers what a test wants."""

    name = "Teller"

    def __init__(self, handle):
        self._table = handle.table

    def pod_group_post_filter(self, state, group, trial):
        for info in list(self._table.all_pods()):
            trial.remove_pod(info)
        return self.answer(group)


def teller(answer):
    made = type("Made", (Teller,), {"answer": lambda self, group: answer()})
    only = {"enabled": [{"name": "Teller"}], "disabled": [{"name": "*"}]}
    return scheduler(make=made, podGroupPostFilter=only)[0]


def test_a_plugin_that_raises_fails_the_attempt_and_leaves_all_as_it_was():
    def answer():
        raise RuntimeError("no idea")

    found = teller(answer)
    before = {name: list(found.cache.table.pods_of(name)) for name in ("n1", "n2", "n3")}
    actions = act(found)
    text = told(actions)
    notes = {each.pod.name: each.note for each in actions if isinstance(each, RecordEvent)}

    assert {"p": text, "q": text} == notes  # also the pod that was tried and found no node
    assert text.startswith('error in "Teller" PodGroupPostFilter plugins: ')
    assert "no idea" in text
    assert before == {name: found.cache.table.pods_of(name) for name in before}


@pytest.mark.parametrize("make", [unschedulable, unresolvable])
def test_a_refusal_is_told(make):
    assert told(act(teller(lambda: (None, make("not today"))))).endswith(", not today")


def test_what_a_plugin_wants_written_is_written_even_if_it_does_not_help():
    call = ApiCall("delete", "pods", "default", "x")
    result = PodGroupPostFilterResult(effects=Effects((call,)))
    actions = act(teller(lambda: (result, unschedulable("asked for it"))))

    assert [(call,)] == [
        each.calls for each in actions if isinstance(each, CallApi) and call in each.calls
    ]


def test_1_36_asks_whoever_can_and_knows_no_such_point():
    only = {"enabled": [{"name": "Guests"}], "disabled": [{"name": "DefaultPreemption"}]}
    found, plugin = scheduler(OLD, multiPoint=only)

    assert evicted(act(found))
    assert 1 == len(plugin.seen)
    with pytest.raises(InvalidConfig, match=r'unknown field "profiles\[0\].plugins.podGroupPost'):
        scheduler(OLD, podGroupPostFilter=only)


def test_the_point_is_checked_as_others_are():
    with pytest.raises(Exception, match=r"NodeName.* does not extend PodGroupPostFilterPlugin"):
        scheduler(podGroupPostFilter={"enabled": [{"name": "NodeName"}]})


def test_claims_of_pods_without_a_node_are_given_back():
    """The claim is allocated on a node that is gone; only its pod holds it."""
    found = Scheduler(from_data(EMPTY, GATES), in_tree_registry(), gates=GATES)
    found.put(make_node("n").capacity(cpu="2").build(), 0.0)
    claim = make_resource_claim("c").exactly("r", {"deviceClassName": "gpu"})
    claim.allocated(("driver", "pool", "d"), node="gone").reserved_for("p")
    found.put(claim.build(), 0.0)
    found.put(make_pod_group("g", 1).build(), 0.0)
    found.put(make_pod("p").group("g").device_claim("c").req(cpu="1").build(), 0.0)
    actions = act(found)
    calls = [call for each in actions if isinstance(each, CallApi) for call in each.calls]

    (given_back,) = [call for call in calls if call.resource.startswith("resourceclaims")]
    assert given_back.body["status"]["allocation"] is None


def test_another_condition_of_the_group_is_not_taken_for_its_own():
    quiet, _ = scheduler()
    found, _ = scheduler()
    other = {"type": "Other", "status": "True", "reason": "", "message": ""}
    found.put(make_pod_group("g", 2).with_status(conditions=[other]).build(), 0.0)

    assert told(act(quiet)) == told(act(found))
