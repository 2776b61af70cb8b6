"""Pod groups below a composite one are placed together, as 1.37 does behind its gate."""

from bayplan.api import CompositePodGroup, PodGroup, convert
from bayplan.config import FeatureGates, from_data
from bayplan.conformance.run import Run
from bayplan.engine.replay import decide
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import HEAD, World
from tests.engine.loop.test_placement_cycle import ON, TOPOLOGY, UNSCHEDULABLE, bound, zoned
from tests.plugins.test_preempted_groups import group, pod

GATES = FeatureGates({**ON, "CompositePodGroup": True}, "1.37")
ALONE = FeatureGates(ON, "1.37")


def composite(name="c", count=1, parent=None, **spec):
    body = {"schedulingPolicy": {"gang": {"minGroupCount": count}}, **spec}
    if parent:
        body["parentCompositePodGroupName"] = parent
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": body}


def part(name, count, parent="c", **spec):
    policy = {"gang": {"minCount": count}}
    return group(name, schedulingPolicy=policy, parentCompositePodGroupName=parent, **spec)


def members(name, count, **more):
    return [pod(f"{name}{number}", group=name, **more) for number in range(count)]


def run(nodes, composites, groups, pods, gates=GATES):
    objects = {"nodes": nodes, "compositePodGroups": composites, "podGroups": groups}
    return Run({"objects": {**objects, "pods": pods}}, gates).run()


def messages(step):
    return {
        key.partition("/")[2]: about["conditions"][0]["message"]
        for key, about in step["podgroups"].items()
    }


def test_all_groups_or_none():
    pods = members("g", 2) + members("h", 2)
    groups = [part("g", 2), part("h", 2)]
    (step,) = run([zoned("a", "x", "4")], [composite(count=2)], groups, pods)
    assert {"g0", "g1", "h0", "h1"} == set(bound(step))

    (step,) = run([zoned("a", "x", "3")], [composite(count=2)], groups, pods)
    short = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    above = f"{UNSCHEDULABLE}, 0/1 placements are available, first placement status: {short}"
    remedy = "pod group preemption: No preemption victims found for incoming preemptor"

    assert not bound(step)
    assert {"g": f"{above}, {remedy}, {remedy}", "h": f"{above}, {remedy}"} == messages(step)
    # g fits, and is told what its composite group is told


def test_enough_groups_go_on():
    pods = members("g", 2) + members("h", 2)
    groups = [part("g", 2), part("h", 2)]
    first, *_ = run([zoned("a", "x", "3")], [composite(count=1)], groups, pods)

    assert {"g0", "g1"} == set(bound(first))
    assert "" == messages(first)["g"]
    assert messages(first)["h"].startswith(f"{UNSCHEDULABLE}, 0/1 placements are available")


def test_without_the_gate_groups_stand_alone():
    pods = members("g", 2) + members("h", 2)
    nodes, groups = [zoned("a", "x", "3")], [part("g", 2), part("h", 2)]
    first, *_ = run(nodes, [composite(count=2)], groups, pods, ALONE)

    assert {"g0", "g1"} == set(bound(first))


def test_a_composite_group_stays_in_one_domain():
    nodes = [zoned("a", "x", "3"), zoned("b", "y", "2"), zoned("c", "y", "2")]
    whole = composite(count=2, schedulingConstraints=TOPOLOGY)
    groups = [part("g", 2), part("h", 2)]
    (step,) = run(nodes, [whole], groups, members("g", 2) + members("h", 2))

    assert {"b", "c"} == set(bound(step).values())


def test_groups_within_groups():
    """The inner one needs both its groups; the outer one is content with the third."""
    composites = [composite("c", 1), composite("d", 2, parent="c")]
    groups = [part("g", 1, "d"), part("h", 9, "d"), part("i", 1, "c")]
    pods = members("g", 1) + members("h", 9) + members("i", 1)
    first, *_ = run([zoned("a", "x", "4")], composites, groups, pods)

    assert {"i0"} == set(bound(first))


def test_room_is_made_for_all_groups():
    whole = composite(count=2, priority=10)
    groups = [part("g", 1, priority=10), part("h", 1, priority=10)]
    pods = [pod("p", "a"), pod("q", "a"), *members("g", 1, priority=10)]
    pods += members("h", 1, priority=10)
    (step,) = run([zoned("a", "x", "2")], [whole], groups, pods)

    assert ["default/p", "default/q"] == sorted(step["deleted"])
    text = "Preempted by compositepodgroup uid-c on node cluster"
    assert text == step["events"]["default/p"]["Preempted"]


def test_a_composite_group_is_preempted_as_one():
    big = pod("big", cpu="2", priority=10)
    for mode, gone in (("all", ["default/g0", "default/h0"]), ("single", ["default/g0"])):
        objects = {
            "nodes": [zoned("a", "x", "2"), zoned("b", "y", "1")],
            "compositePodGroups": [composite(disruptionMode={mode: {}})],
            "podGroups": [part("g", 1), part("h", 1)],
            "pods": [pod("g0", "a", "2", group="g"), pod("h0", "b", "1", group="h")],
        }
        found = decide(objects, big, gates=GATES)["postFilter"]

        assert gone == sorted(found["victims"])


def test_pods_wait_for_their_composite_group():
    made = convert(PodGroup, {"apiVersion": "scheduling.k8s.io/v1beta1", **part("g", 1)})
    node = make_node("n").capacity(cpu="4")
    waiting = make_pod("p").group("g").req(cpu="1")
    world = World(node, made, waiting, config=from_data(HEAD, GATES), gates=GATES)
    world.run()
    assert not world.node_of("p")
    body = {"apiVersion": "scheduling.k8s.io/v1alpha3", **composite()}
    world.show(convert(CompositePodGroup, body))
    world.run()

    assert "n" == world.node_of("p")


def test_pods_wait_until_enough_groups_have_their_pods():
    other = {"apiVersion": "scheduling.k8s.io/v1beta1"}
    groups = [convert(PodGroup, {**other, **part(name, 1)}) for name in "gh"]
    body = {"apiVersion": "scheduling.k8s.io/v1alpha3", **composite(count=2)}
    whole, node = convert(CompositePodGroup, body), make_node("n").capacity(cpu="4")
    first, second = (make_pod(f"p-{name}").group(name).req(cpu="1") for name in "gh")
    world = World(node, whole, *groups, first, config=from_data(HEAD, GATES), gates=GATES)
    world.run()
    assert not world.node_of("p-g")
    world.show(second)
    world.run()

    assert "n" == world.node_of("p-g") == world.node_of("p-h")


def test_the_rest_comes_next_at_the_place_of_the_first_pod_of_all_groups():
    """A single pod that came between the groups is tried after the rest of the later one."""
    pods = [*members("g", 1), pod("w"), *members("h", 2)]
    groups = [part("g", 1), part("h", 1)]
    first, second, *_ = run([zoned("a", "x", "2")], [composite(count=1)], groups, pods)

    assert {"g0", "h0"} == set(bound(first))
    assert ["default/h1"] == list(second["events"])


def test_pods_of_all_groups_must_agree():
    """One group's pods have another priority than the composite group: nobody is placed."""
    pods = members("g", 1) + members("h", 1, priority=5)
    groups = [part("g", 1), part("h", 1, priority=5)]
    step, *_ = run([zoned("a", "x", "4")], [composite(count=2)], groups, pods)

    assert not bound(step)
    text = (
        "all pods in a single pod group should have the same priority as the pod group's "
        "priority, got 5 and 0"
    )
    assert {"g": text, "h": text} == messages(step)
