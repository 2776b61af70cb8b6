"""Pods of a pod group are asked about, and moved, as the group that they are."""

import pytest

from bayplan.inspect import Cluster, load_settings
from bayplan.inspect.why import why_on_node, why_pending
from bayplan.inspect.why.render import render
from bayplan.testing import make_node, make_pod, make_pod_group
from tests.engine.loop.helper import World

GATES = "GenericWorkload=true,GangScheduling=true"
NODE = {"cpu": 2, "memory": "4Gi", "pods": 10}


def node(number):
    return make_node(f"node-{number}").capacity(**NODE)


def member(number, node=""):
    return make_pod(f"p{number}").group("g").req(cpu="1").node(node)


def cluster(*items, version="1.37", gates=GATES):
    settings = load_settings(feature_gates=gates, emulated_version=version)
    return Cluster.from_objects([item.body() for item in items], settings=settings)


BOTH = pytest.mark.parametrize("version", ["1.36", "1.37"])


@BOTH
def test_a_pod_whose_group_is_missing_or_too_small_says_so(version):
    alone = cluster(node(0), member(0), version=version).why("p0")
    two = cluster(node(0), make_pod_group("g", 3), member(0), member(1), version=version)
    small = two.why("p0")

    assert 'waiting for pods\'s pod group "g" to appear' in alone.message
    assert ('there is no PodGroup "default/g"',) == alone.funnel[0].facts
    assert "waiting for minCount pods from a gang" in small.message
    assert ('gang "default/g" needs 3 pods, and there are 2',) == small.funnel[0].facts
    assert [('lower minCount of the pod group "g" from 3 to 2', "node-0")] == [
        (fix.change, fix.node) for fix in small.fixes
    ]
    (command,) = small.fixes[0].commands
    assert command.startswith(
        {"1.36": "# a group keeps", "1.37": "kubectl patch podgroup"}[version]
    )


@BOTH
def test_every_pod_of_a_gang_that_does_not_fit_is_told_what_its_scheduler_says(version):
    """The live scheduler's loop is the judge."""
    items = [node(0), make_pod_group("g", 3), *(member(number) for number in range(3))]
    asked = cluster(*items, version=version)
    world = World(*items, gates=asked.settings.gates, config=asked.settings.config)
    world.run()

    for name in ("p0", "p1", "p2"):
        answer = asked.why(name)
        assert world.condition(name).message == answer.message
        assert sum(row.nodes for row in answer.funnel) == answer.nodes == 1
    if version == "1.36":  # as tests/kube/test_why_gangs.py heard it
        assert asked.why("p0").message == (
            "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
            "one or more plugins asked to wait and no plugin rejected pod"
        )
    notes = asked.why("p0").notes
    assert 'gang "default/g": 3 pods, 3 needed at once, 0 have a node, 2 find one now' == notes[0]
    assert notes[1].startswith("default/p2 finds none: 0/1 nodes are available")


@BOTH
def test_a_gang_that_fits_is_told_where_each_pod_goes_and_leaves_no_trace(version):
    items = [node(0), node(1), make_pod_group("g", 3), *(member(number) for number in range(3))]
    asked = cluster(*items, version=version)

    answers = [asked.why(f"p{number}") for number in range(3)]

    assert ["fits"] * 3 == [answer.state for answer in answers]
    assert {"node-0", "node-1"} == {answer.node for answer in answers}
    assert 0 == asked.engine.cache.pod_count
    assert answers == [asked.why(f"p{number}") for number in range(3)]


def test_the_least_number_of_nodes_that_is_enough_is_found():
    members = [member(number) for number in range(8)]
    asked = cluster(node(0), make_pod_group("g", 8), *members)
    first, last = (" ".join(f.change for f in asked.why(name).fixes) for name in ("p0", "p7"))

    assert "add 3 more nodes like node-0" in first
    assert "add 3 more nodes like node-0" in last
    assert "lower minCount" in first
    assert "lower minCount" not in last  # the two that fit are others


def test_pods_that_run_count_and_a_pod_of_a_file_is_one_more():
    asked = cluster(node(0), make_pod_group("g", 2), member(0, "node-0"))
    fresh = member(1).build()

    assert "fits" == asked.why(fresh).state
    assert "fits" == asked.why(fresh).state
    assert (
        "waiting for minCount"
        in cluster(node(0), make_pod_group("g", 2), member(0)).why("p0").message
    )


def test_a_gang_is_tried_once_however_many_pods_it_has():
    members = [member(number) for number in range(12)]
    asked = cluster(node(0), make_pod_group("g", 12), *members)
    before = asked.engine.cache.table.changes.generation

    found = why_pending(asked, with_fixes=False)

    assert 12 == found.count
    # two fit and are taken back, a few times, not once a pod
    assert asked.engine.cache.table.changes.generation - before < 12 * 4


def test_without_the_gate_it_is_said_that_pods_are_decided_alone():
    answer = cluster(node(0), make_pod_group("g", 3), member(0), gates="").why("p0")

    assert "fits" == answer.state
    assert "--feature-gates GenericWorkload=true" in " ".join(answer.notes)


def of_job(number, node=""):
    return member(number, node).owner("Job", "train", uid="train")


@BOTH
def test_a_drain_moves_a_pod_of_a_gang_only_with_room_for_as_many_as_it_needs(version):
    gang = [make_pod_group("g", 2), *(of_job(number, f"node-{number}") for number in range(2))]
    roomy = cluster(node(0), node(1), node(2), *gang, version=version)
    tight = cluster(node(0), make_node("node-1").capacity(cpu=1, pods=9), *gang, version=version)

    assert roomy.what_if("drain=node-0").ok
    stuck = tight.what_if("drain=node-0").stuck
    assert ["default/p0"] == [item.pod for item in stuck]
    assert 2 == tight.engine.cache.pod_count


@BOTH
def test_nodes_that_come_let_a_whole_gang_start_or_none_of_it(version):
    gang = [make_pod_group("g", 4), *(of_job(number) for number in range(4))]
    asked = cluster(node(0), *gang, version=version)

    assert 4 == asked.what_if().still_pending
    assert (0, 4) == (len(asked.what_if().starts), asked.what_if().still_pending)
    more = asked.what_if("add=1xnode-0")
    assert 4 == len(more.starts)
    assert 0 == asked.engine.cache.pod_count
    assert 4 == asked.what_if().still_pending


@BOTH
def test_a_gang_that_may_preempt_sends_victims_away(version):
    small = [make_pod(f"small{n}").req(cpu="1").node("node-0").owner("Job", "j") for n in range(2)]
    group = make_pod_group("g", 2).with_spec(priority=100)
    gang = [of_job(number).priority(100) for number in range(2)]
    asked = cluster(node(0), group, *gang, *small, version=version)

    assert "nominated" == asked.why("p0").state
    found = asked.what_if()
    assert ["default/p0", "default/p1"] == sorted(item.pod for item in found.anyway)
    assert 2 == asked.engine.cache.pod_count


ZONED = f"{GATES},TopologyAwareWorkloadScheduling=true"


def zoned(number, zone):
    return node(number).label({"topology.kubernetes.io/zone": zone})


def staying(count):
    """The group `g`, which stays in one zone."""
    constraints = {"topology": [{"key": "topology.kubernetes.io/zone"}]}
    return make_pod_group("g", count).with_spec(schedulingConstraints=constraints)


@BOTH
def test_a_bound_pod_of_a_group_stays_where_its_group_is(version):
    nodes = [zoned(0, "x"), zoned(1, "y"), zoned(2, "y"), zoned(3, "x")]
    items = [*nodes, staying(2), member(0, "node-1"), member(1, "node-2")]
    asked = cluster(*items, version=version, gates=ZONED)
    pod = asked.pod("p0")

    answer = asked.why(pod)
    there, near = (why_on_node(asked, pod, name) for name in ("node-0", "node-2"))

    assert {"node-1", "node-2"} == {score.node for score in answer.scores}
    assert "ahead of node-2 by NodeResourcesFit" in answer.notes[0]
    assert 'node-0 does not take it: its pod group "g" runs in "y" and stays there' == there.summary
    assert "node-2 fits with " in near.summary


def test_a_group_that_fits_in_no_zone_says_so_of_each_node_and_nothing_twice():
    nodes = [zoned(0, "x"), zoned(1, "y"), zoned(2, "y")]
    asked = cluster(*nodes, staying(2), *(member(n).req(cpu="9") for n in (0, 1)), gates=ZONED)

    answers = [asked.why(f"p{number}") for number in (0, 1)]

    for answer in answers:
        assert 3 == sum(row.nodes for row in answer.funnel)
        assert all("".join(row.reasons) for row in answer.funnel)
        text = " ".join(" ".join(render(answer)).split())
        assert text.count("pod group is unschedulable") <= 1
    assert "pod group is unschedulable" in answers[1].message
