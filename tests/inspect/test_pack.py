"""`bayplan pack`: the certificate, the plan of moves and what is said about pods that stay."""

import json
from collections import Counter

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from bayplan import extras
from bayplan.cli import pack as pack_command
from bayplan.framework import unschedulable
from bayplan.inspect import Cluster, InspectError, load_settings
from bayplan.inspect.pack import Wishes
from bayplan.inspect.pack.ask import Asking
from bayplan.plugins import in_tree_registry
from bayplan.testing.builders import HOSTNAME, make_node, make_pod


def pack(asked, wishes=None):
    """With time enough for a busy machine; all of these are solved at once on an idle one."""
    return asked.pack(replace(wishes or Wishes(), seconds=120.0))


def node(name, cpu=4, **labels):
    found = make_node(name).label({HOSTNAME: name, **labels})
    return found.capacity(cpu=cpu, memory="8Gi", pods=20)


def web(name, on, cpu=1):
    pod = make_pod(name).label(app="web").req(cpu=cpu).owner("ReplicaSet", "web", uid="rs-web")
    return pod.node(on).phase("Running")


def budget(name, selector, least):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": selector}},
    }


def cluster(*builders):
    return Cluster.from_objects(b.body() if hasattr(b, "body") else b for b in builders)


def four_half_empty():
    """Four nodes with one pod each; one node would do."""
    return [node(f"n{i}") for i in range(4)] + [web(f"web-{i}", f"n{i}") for i in range(4)]


def test_half_empty_nodes_are_packed_and_it_is_proven_least():
    found = pack(cluster(*four_half_empty()))

    assert (4, 1, 1) == (found.in_use, found.would_do, found.proven_least)
    assert found.proven
    assert 3 == found.moves == len(found.empties)
    assert str(found).startswith("4 nodes in use, 1 would do, proven least")


def test_pods_that_are_kept_or_have_no_owner_keep_their_node():
    alone = make_pod("alone").node("n1").req(cpu="500m")
    kept = web("kept", "n2", "500m").label(app="kept")

    found = pack(cluster(*four_half_empty(), alone, kept), Wishes(keep="app=kept"))

    assert 2 == found.would_do
    assert ("n0", "n3") == found.empties
    assert 2 == sum(found.stay.values())


def test_a_pod_without_an_owner_moves_if_it_is_forced():
    alone = make_pod("alone").node("b").req(cpu=1)

    found = pack(cluster(node("a"), node("b"), web("w-1", "a"), alone), Wishes(force=True))

    assert (1, {}) == (found.would_do, found.stay)


def test_daemon_pods_stay_and_do_not_count_as_use():
    daemons = [make_pod(f"d-{i}").node(f"n{i}").req(cpu=1) for i in range(4)]
    daemons = [pod.owner("DaemonSet", "d", uid="ds") for pod in daemons]

    found = pack(cluster(*four_half_empty(), *daemons))

    assert (4, 2) == (found.in_use, found.would_do)  # three of four cpus are left on a node


def test_a_pod_on_a_cordoned_node_may_stay_or_leave():
    found = pack(cluster(node("a").cordon(), node("b"), web("w-1", "a"), web("w-2", "b")))

    assert ("a",) == found.empties
    assert {"default/w-1": "b"} == found.placement


def test_a_pod_that_breaks_a_constraint_stays():
    two = [web(f"w-{i}", "a").apart("app=web") for i in range(2)]

    found = pack(cluster(node("a"), node("b"), *two))

    assert 1 == found.would_do == found.in_use
    assert {"breaks a hard constraint where it is": 2} == found.stay


def test_least_cost_prefers_one_cheap_large_node():
    sizes = [node("big", 8, type="big"), node("s1", type="small"), node("s2", type="small")]
    pods = [web("w-1", "s1", 3), web("w-2", "s2", 3), web("w-3", "big", 1)]

    found = pack(cluster(*sizes, *pods), Wishes(prices=("type=big=1.5", "type=small=1")))

    assert ("s1", "s2") == found.empties
    assert (35000, 15000, 15000) == (found.cost_now, found.cost_best, found.cost_bound)


def test_a_price_of_a_label_that_no_node_has_is_noted():
    found = pack(cluster(node("a"), web("w-1", "a")), Wishes(prices=("type=bgi=2", "1")))

    assert "no node has the label of --price type=bgi" in found.notes


class FewOnANode:
    """A filter of somebody else that looks at pods: packing cannot know what it will say."""

    name = "FewOnANode"

    def filter_node(self, state, pod, node):
        return None if len(node.pods) < 2 else unschedulable("node(s) had enough pods")


FEW = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {filter: {enabled: [{name: FewOnANode}]}}}]
"""


def test_what_is_not_in_the_numbers_is_checked_by_the_filters(tmp_path):
    path = tmp_path / "ksc.yaml"
    path.write_text(FEW)
    registry = in_tree_registry() | {"FewOnANode": lambda args, handle: FewOnANode()}
    settings = load_settings(str(path), registry=registry)

    found = pack(cluster(*four_half_empty()).with_settings(settings), Wishes())

    assert 1 == found.proven_least
    assert 2 <= found.would_do < 4
    per_node = Counter(found.placement.values())
    assert all(count <= 1 for count in per_node.values())
    assert any("FewOnANode" in note for note in found.notes)


def test_a_cluster_without_nodes_or_pods_has_an_answer():
    nothing = pack(cluster())
    (waiting,) = pack(cluster(make_pod("p").owner("ReplicaSet", "r", uid="r"))).pending

    assert (0, 0) == (nothing.in_use, nothing.proven_least)
    assert ("there is no node at all",) == waiting.because


@pytest.mark.parametrize(
    ("prices", "text"),
    [
        pytest.param(("type=big=1",), "has no price", id="a node without a price"),
        pytest.param(("type=big=x",), "is no number", id="no number"),
        pytest.param(("big",), "is no number", id="a word"),
        pytest.param(("=1=1",), "write KEY=VALUE=COST", id="no key"),
    ],
)
def test_a_wrong_price_is_told(prices, text):
    with pytest.raises(InspectError, match=text):
        pack(cluster(node("a"), web("w-1", "a")), Wishes(prices=prices))


def test_the_plan_moves_pod_by_pod_and_respects_budgets():
    objects = [*four_half_empty(), budget("web", {"app": "web"}, 3)]

    plan = pack(cluster(*objects), Wishes(plan=True)).plan

    assert plan.complete
    assert 3 == plan.moves == len(plan.empties)
    assert "cordon" == plan.steps[0].do


def test_a_budget_that_allows_nothing_leaves_no_plan():
    objects = [*four_half_empty(), budget("web", {"app": "web"}, 4)]

    found = pack(cluster(*objects), Wishes(plan=True))

    assert 1 == found.would_do
    assert not found.plan.complete
    assert 0 == found.plan.moves
    assert "allows no disruption" in found.plan.why_not


def test_who_stops_it_gets_the_best_so_far():
    """As Ctrl-C does; here as soon as anything is told."""
    asking = Asking(cluster(*four_half_empty()), Wishes(seconds=3600.0), lambda _: asking.stop())

    found = asking.run()

    assert asking.stopped
    assert found.proven_least <= found.would_do <= found.in_use


def test_bound_and_best_are_told_while_it_searches():
    told = []

    Asking(cluster(*four_half_empty()), Wishes(seconds=120.0), told.append).run()

    assert 4 == told[0].best
    assert (1, 1) == (told[-1].bound, told[-1].best)


def test_max_moves_is_kept():
    found = pack(cluster(*four_half_empty()), Wishes(max_moves=2, plan=True))

    assert (2, 2) == (found.moves, found.would_do)
    assert 1 == found.proven_least


def test_the_command_prints_commands_and_changes_nothing(tmp_path):
    path = tmp_path / "cluster.json"
    items = [item.body() for item in four_half_empty()]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    run = CliRunner().invoke(pack_command.command, ["--from", str(path), "-o", "commands"])

    assert 0 == run.exit_code, run.output
    assert "kubectl cordon" in run.output
    assert 3 == run.output.count("kubectl create --raw")


@pytest.mark.parametrize(
    ("checkout", "remedy"),
    [("pyproject.toml", "make setup"), ("elsewhere", "pip install 'bayplan[optimize]'")],
)
def test_without_the_solver_the_command_tells_how_to_get_it(
    monkeypatch, tmp_path, checkout, remedy
):
    def missing(name):
        raise ImportError(name)

    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(extras, "CHECKOUT", tmp_path / checkout)
    monkeypatch.setattr(extras.importlib, "import_module", missing)
    run = CliRunner().invoke(pack_command.command, ["--from", str(tmp_path)])

    assert f"this needs ortools, which is not installed; run: {remedy}" == str(run.exception)
