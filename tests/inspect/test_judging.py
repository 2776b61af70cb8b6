"""Every node with its verdict: the answers for programs, and the page, leave none out."""

import json
from collections import Counter

import pytest
import yaml
from click.testing import CliRunner

from bayplan.cli.why import command
from bayplan.config import from_data
from bayplan.inspect import Cluster, load_settings
from bayplan.inspect.http import Questions
from bayplan.inspect.why import why_on_node, why_owner
from bayplan.inspect.why.judging import counted
from bayplan.page.questions import packed_verdicts
from bayplan.testing import make_node, make_pod, make_pod_group
from bayplan.testing.clusters import cluster_objects

ROOM = {"cpu": 2, "memory": "4Gi", "pods": 10}
GANGS = "GenericWorkload=true,GangScheduling=true"
ZONED = f"{GANGS},TopologyAwareWorkloadScheduling=true"
ZONE = "topology.kubernetes.io/zone"


def node(name):
    return make_node(name).capacity(**ROOM)


def some():
    """Four nodes: one fits, one is full, one is shut, one is tainted."""
    return [
        node("free"),
        node("full"),
        node("shut").cordon(),
        node("taken").taint("team"),
        make_pod("old").node("full").req(cpu="2"),
        make_pod("small").req(cpu="1"),
        make_pod("large").req(cpu="8"),
        make_pod("gated").gate("later"),
        make_pod("tied").require_node(fields=("metadata.name in (full)",)).req(cpu="1"),
        make_pod("pinned").require_node(fields=("metadata.name in (free)",)).req(cpu="1"),
        make_pod("theirs").scheduler("another"),
        make_pod("done").node("free").phase("Succeeded"),
    ]


def cluster(*items, **settings):
    bodies = [item.body() for item in items]
    return Cluster.from_objects(bodies, settings=load_settings(**settings))


def whole(answer):
    """That nothing is left out, and that the counts are of the same verdicts."""
    names = [item.node for item in answer.judged]
    assert len(set(names)) == len(names) == answer.nodes
    assert names == sorted(names)
    assert answer.nodes_left_out == 0
    for item in answer.judged:
        assert (item.verdict == "fits") == (item.total is not None)
        assert item.verdict == "fits" or item.reasons
        assert item.total is None or item.total == sum(item.scores.values())
    if answer.funnel:
        told = Counter({(row.plugin, row.reasons): row.nodes for row in answer.funnel})
        again = {(row.plugin, row.reasons): row.nodes for row in counted(answer.judged)}
        assert told == again


def verdicts(answer):
    return {item.node: (item.verdict, item.plugin) for item in answer.judged}


def test_a_pod_that_fits_somewhere_is_told_of_every_node():
    answer = cluster(*some()).why("small", every_node=True)

    whole(answer)
    assert verdicts(answer) == {
        "free": ("fits", ""),
        "full": ("rejected", "NodeResourcesFit"),
        "shut": ("rejected", "NodeUnschedulable"),
        "taken": ("rejected", "TaintToleration"),
    }


@pytest.mark.parametrize("name", ["large", "gated", "tied", "pinned", "old", "small"])
def test_verdicts_and_counts_are_one(name):
    asked = cluster(*some())

    whole(asked.why(name, every_node=True))
    whole(why_on_node(asked, asked.pod(name), "shut", every_node=True))


def test_a_node_out_of_the_search_names_the_plugin_that_left_it_out():
    answer = cluster(*some()).why("pinned", every_node=True)

    assert verdicts(answer) == {"free": ("fits", "")} | dict.fromkeys(
        ("full", "shut", "taken"), ("rejected", "NodeAffinity")
    )


@pytest.mark.parametrize("name", ["theirs", "done"])
def test_where_no_node_is_looked_at_none_is_told_and_none_left_out(name):
    answer = cluster(*some()).why(name, every_node=True)

    assert ((), 0) == (answer.judged, answer.nodes_left_out)


def test_without_asking_the_number_that_is_left_out_is_told():
    answer = cluster(*some()).why("small")

    assert ((), 4) == (answer.judged, answer.nodes_left_out)


def test_nodes_that_nobody_looked_at_are_told_apart():
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 50,
    }
    settings = load_settings()
    settings = type(settings)(config=from_data(config, settings.gates), gates=settings.gates,
                              registry=settings.registry)  # fmt: skip
    bodies = [node(f"n{number:03}").body() for number in range(300)]
    asked = Cluster.from_objects([*bodies, make_pod("p").body()], settings=settings)

    answer = asked.why("p", every_node=True)

    whole(answer)
    assert Counter(fits=150, notLookedAt=150) == Counter(i.verdict for i in answer.judged)
    assert 150 == len(packed_verdicts(answer.judged)["scored"])
    brief = asked.why("p")
    assert [(row.reasons, row.nodes) for row in brief.funnel] == [
        (row.reasons, row.nodes) for row in answer.funnel
    ]


def test_a_pod_behind_others_is_judged_with_their_room_taken():
    first, second = (
        make_pod(name).req(cpu="2").created(f"2026-01-0{day}T00:00:00Z")
        for name, day in (("first", 1), ("second", 2))
    )
    answer = cluster(node("a"), first, second).why("second", every_node=True)

    whole(answer)
    assert verdicts(answer) == {"a": ("rejected", "NodeResourcesFit")}


@pytest.mark.parametrize("size", [2, 3])
def test_pods_of_a_gang_are_judged_beside_each_other(size):
    members = [make_pod(f"p{n}").group("g").req(cpu="2") for n in range(size)]
    nodes = [node("a"), node("b"), make_pod_group("g", size)]
    asked = cluster(*nodes, *members, feature_gates=GANGS)

    found = [asked.why(f"p{n}", every_node=True) for n in range(size)]

    for answer in found:
        whole(answer)
    if size == 2:  # the second finds the first on its node
        fits = [{i.node for i in answer.judged if i.verdict == "fits"} for answer in found]
        assert [2, 1] == [len(names) for names in fits]
        assert {found[1].node} == fits[1]


def test_a_gang_that_stays_together_is_judged_within_its_placement():
    nodes = [node(f"{zone}{n}").label({ZONE: zone}) for zone in "ab" for n in range(2)]
    group = make_pod_group("g", 2).with_spec(schedulingConstraints={"topology": [{"key": ZONE}]})
    members = [make_pod(f"p{number}").group("g") for number in range(2)]
    asked = cluster(*nodes, group, *members, feature_gates=ZONED)

    answer = asked.why("p0", every_node=True)

    whole(answer)
    inside = {item.node[0] for item in answer.judged if item.verdict == "fits"}
    assert {answer.node[0]} == inside


def test_no_nodes():
    asked = cluster(make_pod("p"))
    answer = asked.why("p", every_node=True)

    whole(answer)
    assert (0, (), 0) == (answer.nodes, answer.judged, answer.nodes_left_out)
    assert packed_verdicts(()) == {"plugins": [], "scored": [], "reasons": [], "rejected": []}


def test_many_nodes_of_every_sort():
    asked = Cluster.from_objects(cluster_objects(200, 300, pending=8, seed=3))
    every = asked.why_pending(every_node=True)

    for answer in every.pods:
        whole(answer)
    assert all(answer.nodes_left_out == 200 for answer in asked.why_pending().pods)


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump_all([item.body() for item in some()]))
    return str(path)


def ask(*words):
    return CliRunner().invoke(command, list(words))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_are_told_of_every_node_and_the_text_stays_short(dump, form):
    read = {"json": json.loads, "yaml": yaml.safe_load}[form]
    answer = read(ask("small", "--from", dump, "-o", form).output)

    assert ["free", "full", "shut", "taken"] == [item["node"] for item in answer["judged"]]
    assert answer["judged"][1] == {
        "node": "full",
        "verdict": "rejected",
        "plugin": "NodeResourcesFit",
        "reasons": ["Insufficient cpu"],
    }
    assert "shut" not in ask("small", "--from", dump).output


def test_all_pending_pods_leave_nodes_out_unless_they_are_asked_for(dump):
    brief = json.loads(ask("--pending", "--from", dump, "-o", "json").output)
    every = json.loads(ask("--pending", "--from", dump, "-o", "json", "--every-node").output)

    assert {4} == {answer["nodesLeftOut"] for answer in brief["pods"]}
    by_name = {answer["pod"]: answer for answer in every["pods"]}
    assert 4 == len(by_name["default/large"]["judged"])
    refused = ask("--pending", "--from", dump, "--every-node")
    assert (2, True) == (refused.exit_code, "--every-node" in refused.output)


async def test_over_http_it_is_the_same():
    asked = cluster(*some())

    async def load():
        return asked

    questions = Questions(load)
    _, every = await questions.answer("why", {"pod": "default/small"})
    _, few = await questions.answer("why", {"pod": "default/small", "everyNode": "false"})
    _, all_pods = await questions.answer("pending", {"everyNode": "true"})

    assert [4, 0] == [len(json.loads(body)["judged"]) for body in (every, few)]
    assert 4 == json.loads(few)["nodesLeftOut"]
    assert 4 in {len(answer["judged"]) for answer in json.loads(all_pods)["pods"]}


def test_pods_of_an_owner_too():
    spec = {"replicas": 1, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": make_pod().req(cpu="9").body()["spec"]}}  # fmt: skip
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
             "metadata": {"name": "web", "namespace": "default", "uid": "1"}}  # fmt: skip
    asked = Cluster.from_objects([node("a").body(), node("b").body(), owner])

    found = why_owner(asked, asked.owner("deployment", "web"), every_node=True)

    whole(found.pods[0])
