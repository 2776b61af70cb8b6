"""What a pod group and its pods are told when an attempt ends, also one that a bug ends."""

from functools import partial
from itertools import product

import pytest

from bayplan.api import CompositePodGroup, PodGroup, convert
from bayplan.config import FeatureGates, from_data
from bayplan.engine.loop import CallApi
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import HEAD, World, kinds
from tests.engine.loop.test_composite_cycle import GATES as TREES
from tests.engine.loop.test_composite_cycle import composite, part
from tests.plugins.test_preempted_groups import group

GATES = {
    "1.36": FeatureGates({"GenericWorkload": True, "GangScheduling": True}, "1.36"),
    "1.37": FeatureGates({"GenericWorkload": True}, "1.37"),
}
KINDS = {"1.36": "PodGroupScheduled", "1.37": "PodGroupInitiallyScheduled"}
POLICY = {"gang": {"minCount": 2}}


def gang_of(*pods, version="1.37", status=None):
    """A world with a node for two of these pods, which are a gang."""
    body = {"apiVersion": "scheduling.k8s.io/v1beta1", **group("g", schedulingPolicy=POLICY)}
    made = convert(PodGroup, {**body, "status": status or {}})
    gates = GATES[version]
    node = make_node("a").capacity(cpu="2", memory="4Gi", pods="10")
    return World(node, made, *pods, gates=gates, config=from_data(HEAD, gates))


def conditions_told(world):
    calls = [call for action in kinds(world.step(), CallApi) for call in action.calls]
    return [found for call in calls for found in call.body["status"]["conditions"]]


def gang_with(condition, cpu, version):
    pods = [make_pod(name).group("g").req(cpu=cpu) for name in "pq"]
    kind = KINDS[version]
    status = {"conditions": [{"type": kind, **condition}]} if condition else {}
    return gang_of(*pods, version=version, status=status)


@pytest.mark.parametrize("version", KINDS)
@pytest.mark.parametrize("cpu", ["1", "2"], ids=["fits", "does not fit"])
def test_a_group_is_told_what_is_new_and_one_that_was_scheduled_stays_so(cpu, version):
    (first,) = conditions_told(gang_with(None, cpu, version))
    now = {name: first[name] for name in ("status", "reason", "message")}
    others = [(now[name], "other") for name in ("reason", "message")]
    for status, reason, message in product(("True", "False"), *others):
        before = {"status": status, "reason": reason, "message": message}
        regress = (status, now["status"]) == ("True", "False")
        changes = status != now["status"]

        told = conditions_told(gang_with(before, cpu, version))

        expected = {"type": KINDS[version], **now}
        if changes:
            expected["lastTransitionTime"] = first["lastTransitionTime"]
        assert ([] if regress or before == now else [expected]) == told, before


def tree_of(*pods):
    """Two pod groups below a composite one."""
    head = {"apiVersion": "scheduling.k8s.io/v1alpha3"}
    whole = convert(CompositePodGroup, {**head, **composite(count=2)})
    parts = [convert(PodGroup, {**head, **part(name, 1)}) for name in "gh"]
    node = make_node("a").capacity(cpu="4", memory="4Gi", pods="10")
    return World(node, whole, *parts, *pods, gates=TREES, config=from_data(HEAD, TREES))


@pytest.mark.parametrize(
    ("world_of", "groups"),
    [
        pytest.param(gang_of, "gg", id="in its own group"),
        pytest.param(partial(gang_of, version="1.36"), "gg", id="in its own group, 1.36"),
        pytest.param(tree_of, "gh", id="in another group of the tree"),
    ],
)
def test_an_object_that_cannot_be_taken_fails_its_group_and_nothing_stays_placed(world_of, groups):
    """The first pod finds a node; the second asks for what is no quantity."""
    pods = [make_pod(name).group(at) for name, at in zip("pq", groups, strict=True)]
    world = world_of(pods[0].req(cpu="1"), pods[1].req(cpu="many"))
    world.run()

    for name in "pq":
        told = world.condition(name)
        assert ("False", "SchedulerError") == (told.status, told.reason)
        assert "many" in told.message
        assert "error backoff" == world.scheduler.place_of(f"default/{name}")
    assert {"QuantityError": 2} == dict(world.scheduler.problems)
    assert 0 == world.scheduler.cache.pod_count
    assert 0 == world.scheduler.queue.in_flight_count
