"""Pods come and go, in a dry run or for good: what a kept state says is what a fresh one says."""

import random

import pytest
from msgspec.structs import replace

from bayplan.framework import CycleState
from bayplan.framework.runtime.filtering import call_pre_filter
from bayplan.plugins.pod_topology_spread import hard
from bayplan.testing import make_node, make_pod
from bayplan.testing.builders import HOSTNAME, ZONE
from bayplan.testing.strategies import DrawnCluster
from tests.engine.clusters import world_for
from tests.plugins.test_forms_agree import FILTERS, flat, flat_reference, handle_for, make
from tests.reference.world import SKIP

RACK = "rack"
NODES = [
    make_node(f"n{number}").label({HOSTNAME: f"n{number}", **labels}).build()
    for number, labels in enumerate(
        [
            {ZONE: "z1", RACK: "r1"},
            {ZONE: "z1"},
            {ZONE: "z2", RACK: "r2"},
            {ZONE: "z2", RACK: "r1"},
            {},
        ]
    )
]
NAMES = ("InterPodAffinity", "PodTopologySpread")


def choosy(rng, builder, name):
    """A pod with rules about others."""
    builder.label(app=rng.choice("ab"), tier=rng.choice("xy"))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        key, whom = rng.choice((ZONE, RACK, HOSTNAME)), rng.choice(("app=a", "app=b", "tier=x"))
        if name == "InterPodAffinity":
            getattr(builder, rng.choice(("near", "apart")))(whom, key)
        else:
            least = {"minDomains": rng.randint(1, 3)} if rng.random() < 0.3 else {}
            builder.spread(rng.choice((1, 2)), key, whom, hard=True, **least)
    return builder


def placed(rng, number, name):
    namespace = "default" if rng.random() < 0.8 else "other"
    builder = choosy(rng, make_pod(f"p{number}", namespace), name)
    return builder.node(rng.choice(NODES).name).build()


def wanted(name, pods, pod):
    """What the reference says of each node, or that all fit; None where PreFilter refuses."""
    world = world_for(DrawnCluster(NODES, pods))
    scalar = FILTERS[name](world, pod, {})
    before = scalar.prefilter()
    if before == SKIP:
        return [None] * len(NODES)
    assert before is None or not hasattr(before, "code")
    return [flat_reference(scalar.filter(node)) for node in world.nodes]


def begun(rng, name):
    pods = [placed(rng, number, name) for number in range(rng.randint(0, 7))]
    handle = handle_for(DrawnCluster(NODES, pods))
    pod = choosy(rng, make_pod("incoming"), name).build()
    plugin, profile = make(name, handle)
    return pods, pod, handle, plugin, profile


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_says_what_the_cluster_would(name):
    """And who is not heeded changes nothing by coming or going."""
    rng, heeded, cluster = random.Random(name), set(), DrawnCluster(NODES, [])
    for _ in range(150):
        pods, pod, handle, plugin, profile = begun(rng, name)
        table, state = handle.table, CycleState(handle.infos.make(pod))
        _, status = call_pre_filter(profile, plugin, state, pod, table)
        if status is not None and name == "PodTopologySpread":  # skipped: it has no state
            continue
        kept = [plugin.filter_node(state, pod, table.info(row)) for row in range(len(NODES))]
        trial, infos = state.clone(), {each.name: handle.infos.make(each) for each in pods}
        before = wanted(name, pods, pod)
        assert before == [flat(status) for status in kept]
        for number in range(rng.randint(1, 4)):
            if pods and rng.random() < 0.5:
                moved = pods.pop(rng.randrange(len(pods)))
                move = plugin.remove_pod
            else:
                moved = placed(rng, 10 + number, name)
                infos[moved.name] = handle.infos.make(moved)
                pods.append(moved)
                move = plugin.add_pod
            info = infos[moved.name]
            assert move(trial, pod, info, table.info_of(moved.node_name)) is None
            after = wanted(name, pods, pod)
            rows = range(len(NODES))
            assert after == [flat(plugin.filter_node(trial, pod, table.info(r))) for r in rows]
            verdict = plugin.filter(trial, pod, table)
            assert after == [flat(verdict.status_of(row)) for row in rows]
            heeds = plugin.heeds(state, pod, info)
            assert heeds or before == after
            if name == "PodTopologySpread":
                rules = FILTERS[name](world_for(cluster), pod, {}).constraints("DoNotSchedule")
                means = any(selector.matches(moved.labels) for _, selector in rules)
                assert heeds == (means and moved.namespace == pod.namespace)
            heeded.add((heeds, before == after))
            before = after
        again = [plugin.filter_node(state, pod, table.info(row)) for row in range(len(NODES))]
        assert kept == again, "a dry run changed what it was cloned from"
    assert {(True, True), (True, False), (False, True)} == heeded


@pytest.mark.parametrize(
    ("name", "few", "kinds"),
    [
        ("InterPodAffinity", 0, {"any", "none", "some"}),
        ("InterPodAffinity", 100, {"any", "none"}),
        ("PodTopologySpread", 100, {"any", "none"}),
    ],
)
def test_what_a_move_affects_is_told(name, few, kinds, monkeypatch):
    """All rows whose outcome changes, and none that shares no domain with the pod that moves."""
    monkeypatch.setattr(hard, "_FEW", 4)
    rng, told = random.Random(name), set()
    for _ in range(150):
        pods, pod, handle, plugin, profile = begun(rng, name)
        handle.limits = replace(handle.limits, domains=few)
        table, state = handle.table, CycleState(handle.infos.make(pod))
        infos = {info.pod.name: info for info in table.all_pods()}
        before, moved, facet = None, None, None
        for number in range(rng.randint(2, 6)):
            if facet != (facet := plugin.facet(state, pod)):  # another one has its own state
                state, moved = CycleState(handle.infos.make(pod)), None
            _, status = call_pre_filter(profile, plugin, state, pod, table)
            if status is not None:
                break
            after = wanted(name, pods, pod)
            affected = None
            if moved is not None:
                row = table.row_by_name[moved.node_name]
                affected = plugin.filter_affects(state, pod, [row])
                near = {r for r, node in enumerate(NODES) if shared(node, NODES[row])}
                changed = {r for r in range(len(NODES)) if after[r] != before[r]}
                assert affected is None or changed <= set(affected) <= near
                told.add("any" if affected is None else "some" if affected else "none")
            if affected is None:
                verdict = plugin.filter(state, pod, table)
                assert after == [flat(verdict.status_of(row)) for row in range(len(NODES))]
            assert after == [
                flat(plugin.filter_node(state, pod, table.info(r))) for r in range(len(NODES))
            ]
            before = after
            if pods and rng.random() < 0.5:
                moved = pods.pop(rng.randrange(len(pods)))
                table.remove_pod(infos[moved.name])
            else:
                moved = placed(rng, 10 + number, name)
                pods.append(moved)
                infos[moved.name] = handle.infos.make(moved)
                table.add_pod(infos[moved.name])
    assert kinds == told


@pytest.mark.parametrize("name", NAMES)
def test_a_domain_that_came_later_is_empty(name):
    handle = handle_for(DrawnCluster(NODES, []))
    table, pod = handle.table, make_pod("incoming").label(app="a")
    if name == "InterPodAffinity":
        pod.apart("app=a", ZONE)
    else:
        pod.spread(1, ZONE, "app=a", hard=True)
    plugin, profile = make(name, handle)
    state, pod = CycleState(handle.infos.make(pod.build())), pod.build()
    call_pre_filter(profile, plugin, state, pod, table)
    for zone in ("z3", "z4"):
        table.add_node(make_node(zone).label({ZONE: zone}).build())

    assert plugin.filter_node(state, pod, table.info_of("z3")) is None
    assert plugin.filter_node(state, pod, table.info_of("z4")) is None


def shared(node, other):
    """Whether two nodes are in one domain of any kind."""
    return bool(node.labels.items() & other.labels.items())
