"""What is left, what is lost and what is written, to the last unit."""

from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace

from bayplan.api import CSINode, Node, PodDisruptionBudget, convert
from bayplan.framework import CycleState, PodInfos, QueueingHint, Victims
from bayplan.plugins import image_locality, inter_pod_affinity
from bayplan.plugins.default_preemption.victims import Budgets, compile_budgets, cost_of
from bayplan.plugins.dynamic_resources.results import bind_calls, deallocate_call
from bayplan.plugins.node_resources_fit import fit
from bayplan.plugins.node_volume_limits import _limits_grew
from bayplan.testing import make_budget, make_node, make_pod, make_resource_claim
from bayplan.testing.builders import HOSTNAME
from bayplan.testing.strategies import DrawnCluster
from tests.plugins.test_forms_agree import assert_scores_agree, handle_for

GPU = "example.com/gpu"


def test_what_a_pod_would_leave():
    """And what comes back to the node with each pod that goes."""
    for offered, used, asked in product((0, 1, 4), (0, 1, 4), (1, 3)):
        node = make_node("n").capacity({"cpu": 9, "pods": 2, GPU: offered}).build()
        placed = make_pod("placed").req({GPU: used}).node("n").build()
        handle = handle_for(DrawnCluster([node], [placed]))
        plugin, state = fit.new(None, handle), CycleState()
        pod = make_pod("p").req({GPU: asked, "cpu": 1}).build()
        table, (info,) = handle.table, handle.table.info(0).pods
        plugin.pre_filter(state, pod, table)
        names = [fit.resource_name(number) for number, *_ in plugin.asked(handle.infos.make(pod))]
        left = {"cpu": 9000 - 1000, GPU: offered - used - asked}

        spare = plugin.spare(state, pod, table)[:, 0].tolist()
        taken = plugin.takes(state, pod, info)
        assert [0, *(left[name] for name in names)] == spare
        assert [1, *({"cpu": 0, GPU: used}[name] for name in names)] == taken
        assert (min(spare) >= 0) == (plugin.filter_node(state, pod, table.info(0)) is None)


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
def test_scores_of_nodes_some_of_which_lack_a_resource(kind):
    points = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    resources = [{"name": "cpu", "weight": 2}, {"name": GPU, "weight": 3}]
    args = {"scoringStrategy": {"type": kind, "resources": resources}}
    if kind == "RequestedToCapacityRatio":
        args["scoringStrategy"]["requestedToCapacityRatio"] = {"shape": points}
    nodes = [
        make_node(f"n{offered}").capacity({"cpu": 4, "pods": 9, **extra}).build()
        for offered, extra in ((0, {}), (1, {GPU: 1}), (4, {GPU: 4}))
    ]
    for used, asked, cpu in product((0, 1, 4), (0, 1, 2, 5), (0, 1, 4, 5)):
        placed = make_pod("placed").req({GPU: used}).node("n4").build()
        pod = make_pod("p").req({GPU: asked, "cpu": cpu} if asked else {"cpu": cpu}).build()
        cluster = DrawnCluster(nodes, [placed])
        assert_scores_agree("NodeResourcesFit", cluster, pod, np.ones(3, dtype=bool), args)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ([5], [6]),
        ([5], [5, 0]),
        ([5, 0], [5, 1]),
        ([5, -(2**31), -(2**31)], [5, -(2**31) + 1]),
        ([-(2**31) + 1, -(2**31), -(2**31)], [-(2**31) + 1, -(2**31) + 1]),
        ([5], [5, -(2**31)]),
    ],
)
def test_what_the_loss_of_victims_weighs(less, more):
    """Sums of priorities that are never below nothing; then the number of pods."""

    def cost(priorities):
        pods = (make_pod("p").priority(each).build() for each in priorities)
        return cost_of(Victims(tuple(pods)), 0.0)

    assert cost(less) < cost(more)


@pytest.mark.parametrize("version", ["", "7"])
def test_a_claim_is_changed_at_the_version_that_was_seen_if_one_was(version):
    claim, pod = make_resource_claim("c").build(), make_pod("p").build()
    claim = replace(claim, metadata=replace(claim.metadata, resource_version=version))
    meta = {"uid": claim.uid} | ({"resourceVersion": "7"} if version else {})

    (reserved,) = bind_calls(claim, None, pod, "now")

    assert meta == reserved.body["metadata"] == deallocate_call(claim).body["metadata"]


def test_limits_of_a_node_that_came_may_have_grown():
    came = convert(CSINode, {"metadata": {"name": "n"}, "spec": {"drivers": []}})

    assert QueueingHint.QUEUE is _limits_grew(make_pod("p").build(), None, came)
    assert QueueingHint.SKIP is _limits_grew(make_pod("p").build(), came, came)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_who_is_being_disrupted_already_uses_up_no_budget(version):
    body = make_budget("b", "app=x", 1).body()
    body["status"]["disruptedPods"] = {"gone": "2026-01-01T00:00:00Z"}
    (budget,) = compile_budgets([convert(PodDisruptionBudget, body)])
    infos = PodInfos()
    pods = [infos.make(make_pod(n).label(app="x").build()) for n in ("a", "gone", "b", "gone")]

    violating, harmless = Budgets([budget], all_count=version == "1.36").split(pods)

    assert ["b"] == [info.pod.name for info in violating]
    assert ["a", "gone", "gone"] == [info.pod.name for info in harmless]


@pytest.mark.parametrize("how", ["near", "apart", "prefer_near", "prefer_apart", ""])
def test_only_pods_that_a_term_means_change_what_affinity_hangs_on(how):
    node = make_node("n").label({HOSTNAME: "n"}).build()
    handle = handle_for(DrawnCluster([node]))
    plugin, pod = inter_pod_affinity.new(None, handle), make_pod("p").label(app="x")
    if how:
        getattr(pod, how)(*((1,) if "prefer" in how else ()), "app=db", HOSTNAME)
    pod, seen = pod.build(), []
    for labels, term in (
        ({"app": "web"}, ""),
        ({"app": "db"}, ""),
        ({"app": "db"}, ""),
        ({"app": "web"}, "app=y"),
        ({"app": "web"}, "app=x"),
    ):
        before = plugin.revision(CycleState(handle.infos.make(pod)), pod)
        came = make_pod(f"came{len(seen)}").label(labels).node("n")
        handle.table.add_pod(
            handle.infos.make((came.apart(term, HOSTNAME) if term else came).build())
        )
        seen.append(before != plugin.revision(CycleState(handle.infos.make(pod)), pod))

    assert [False, bool(how), bool(how), False, True] == seen


def test_a_pod_without_containers_has_no_images():
    image = {"names": ["a:1"], "sizeBytes": 10**9}
    body = make_node("n").body() | {"status": {"images": [image]}}
    handle = handle_for(DrawnCluster([convert(Node, body)]))
    plugin, state = image_locality.new(None, handle), CycleState()
    pod = make_pod("p").build()
    bare = replace(pod, spec=replace(pod.spec, containers=()))

    assert 0 == plugin.score_node(state, bare, handle.table.info(0))
    assert [0] == plugin.score(state, bare, handle.table).tolist()


def test_affinity_goes_on_with_its_counts_until_others_mean_the_pod():
    """Else each attempt would begin anew."""
    handle = handle_for(DrawnCluster([make_node("n").label({HOSTNAME: "n"}).build()]))
    plugin, table = inter_pod_affinity.new(None, handle), handle.table
    pod = make_pod("p").label(app="x").near("app=db", HOSTNAME).build()
    state, kept = CycleState(handle.infos.make(pod)), []
    for term in ("", "app=y", "app=x"):
        plugin.pre_filter(state, pod, table)
        before = state.get("InterPodAffinity/required")
        came = make_pod(f"came{term}").label(app="db").node("n")
        if term:
            came.apart(term, HOSTNAME)
        table.add_pod(handle.infos.make(came.build()))
        plugin.pre_filter(state, pod, table)
        kept.append(before is state.get("InterPodAffinity/required"))

    assert [True, True, False] == kept
