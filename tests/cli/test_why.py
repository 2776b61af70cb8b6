"""`bayplan why`, asked of a running cluster and of files, through the command line."""

import asyncio
import json

import msgspec
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from bayplan.apiserver.serving import Settings
from bayplan.cli.main import main
from bayplan.cli.snapshot import command as snapshot
from bayplan.cli.why import command
from bayplan.client.resources import NODES, PODS
from bayplan.config.gates import DEFAULT_GATES
from bayplan.config.load import default_config, from_data
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.cluster import local_cluster
from bayplan.testing.builders import make_node, make_pod
from tests.waiting import until


def node(name, cpu, **spec):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"capacity": room}}


def pod(name, cpu):
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


POSTED = {
    "why": {"pod": {**pod("new", "100m"), "apiVersion": "v1", "kind": "Pod"}},
    "whatif": {"changes": ["uncordon=closed"]},
    "pending": {},
    "capacity": {"templates": ["cpu=500m"]},
    "diff": {"emulatedVersion": "1.36"},
}
"""What is asked with a body: the parameters, and manifests where there are any."""


def told(text):
    """That the scheduler said so: it may have tried before it saw all nodes."""
    return lambda pod: any(text in c["message"] for c in pod["status"].get("conditions", ()))


async def test_a_running_cluster_is_asked_and_the_answer_proven(tmp_path, quiet):
    kubeconfig = tmp_path / "kubeconfig"
    settings = Settings(store="memory", kubeconfig_out=kubeconfig)

    async def why(*words):
        arguments = [*words, "--kubeconfig", str(kubeconfig)]
        return await asyncio.to_thread(CliRunner().invoke, command, arguments)

    async with local_cluster(
        settings,
        config=default_config(),
        gates=DEFAULT_GATES,
        registry=in_tree_registry(),
        controllers="",
    ) as cluster:
        client = cluster.client
        for name, cpu in (("small", "1"), ("smaller", "1"), ("closed", "64")):
            await client.create(NODES, node(name, cpu, unschedulable=name == "closed"))
        await client.create(PODS, pod("fits", "500m"), "default")
        await client.create(PODS, pod("big", "4"), "default")
        await until(client, PODS, "fits", lambda p: p["spec"].get("nodeName"))
        await until(client, PODS, "big", told("0/3 nodes are available"))
        pending = await why("big")
        placed = await why("pod/fits", "-o", "json")
        as_yaml = await why("big", "-o", "yaml")
        near = await why("bigg")
        all_pending = await why("--pending", "-o", "json")
        over_http = await client.request("GET", "/inspect/v1/why", query={"pod": "default/big"})
        posted = {
            name: json.loads(await client.request("POST", f"/inspect/v1/{name}", body=body))
            for name, body in POSTED.items()
        }

    assert 0 == pending.exit_code, pending.output
    assert "= identical to what your scheduler says" in pending.output
    assert "2  Insufficient cpu  [NodeResourcesFit]" in pending.output
    assert "1. uncordon closed  ->  closed" in pending.output
    assert "What the scheduler there remembers:" in pending.output
    found = json.loads(placed.output)
    assert found["node"] in ("small", "smaller")
    assert found["node"] in {score["node"] for score in found["scores"]}
    assert yaml.safe_load(as_yaml.output)["identical"] is True
    assert "did you mean big?" in str(near.exception)
    assert json.loads(over_http)["identical"] is True
    assert "would be placed on" in posted["why"]["summary"]
    assert ["default/big"] == [item["pod"] for item in posted["whatif"]["starts"]]
    assert 1 == posted["pending"]["count"]
    assert 3 == posted["capacity"]["sets"]
    assert [] == posted["diff"]["changed"]
    grouped = json.loads(all_pending.output)
    assert [1, 1] == [len(grouped["pods"]), len(grouped["groups"])]


@pytest.fixture
def saved(tmp_path):
    """A dump of a cluster of two nodes, one pod pending."""
    path = tmp_path / "dump.yaml"
    items = [
        make_node("a").capacity(cpu=2, memory="4Gi", pods=10).body(),
        make_node("b").capacity(cpu=1, memory="4Gi", pods=10).body(),
        make_pod("web-1").req(cpu="3").body(),
    ]
    path.write_text(yaml.safe_dump_all(items))
    return path


def ask(*words):
    return CliRunner().invoke(command, [str(word) for word in words])


def test_a_saved_cluster_is_asked(saved):
    answer = json.loads(ask("web-1", "--from", saved, "-o", "json").output)

    assert ("default/web-1", 2, None, None) == (
        answer["pod"],
        answer["nodes"],
        answer["observed"],
        answer["identical"],
    )
    assert 2 == sum(row["nodes"] for row in answer["funnel"])
    assert 'lower the cpu request of container "c0" from 3 to 2' == answer["fixes"][0]["change"]
    assert "a" == answer["fixes"][0]["node"]


def test_a_pod_that_does_not_exist_yet_is_asked_about(saved, tmp_path):
    manifest = tmp_path / "deployment.yaml"
    body = make_pod().req(cpu="100m").body()
    template = {"metadata": {"labels": {"app": "x"}}, "spec": body["spec"]}
    manifest.write_text(
        yaml.safe_dump(
            {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": template}}
        )
    )

    found = ask("-f", manifest, "--from", saved)

    assert "default/x-new: it would be placed on a now" in found.output


def test_why_not_there(saved):
    found = ask("web-1", "--node", "b", "--from", saved)

    assert "b does not take it: 2 cpu too little (asks 3, free 1 of 1)" in found.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param([], "name a pod", id="nothing asked"),
        pytest.param(["a", "b", "c"], "one pod or owner at a time", id="three words"),
        pytest.param(["web-1", "--pending"], "name a pod", id="two questions"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(words, text, saved):
    found = ask(*words, "--from", saved)

    assert 2 == found.exit_code
    assert text in found.output


def test_a_snapshot_says_the_same_as_its_source(saved, tmp_path):
    file, other = tmp_path / "s.bayplan", tmp_path / "t.bayplan"

    made = CliRunner().invoke(snapshot, ["save", str(file), "--from", str(saved)])
    shown = CliRunner().invoke(snapshot, ["show", str(file)])
    CliRunner().invoke(snapshot, ["scrub", str(file), str(other)])

    assert "2 nodes, 1 pod," in made.output
    assert "pending  1 pod\n" in shown.output
    assert "Owner" not in shown.output
    before = json.loads(ask("--pending", "--from", saved, "-o", "json").output)
    after = json.loads(ask("--pending", "--from", other, "-o", "json").output)
    assert before["pods"][0]["message"] == after["pods"][0]["message"]
    assert "web-1" not in after["pods"][0]["pod"]


def test_the_funnel_is_whole_under_a_node_too(saved):
    found = json.loads(ask("web-1", "--node", "a", "--from", saved, "-o", "json").output)

    assert "a" == found["askedNode"]
    assert found["nodes"] == sum(row["nodes"] for row in found["funnel"])
    assert "Why, over" not in ask("web-1", "--node", "a", "--from", saved).output


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["why"], 2),
        (["why", "--nonsense"], 2),
        (["whatif", "--drain"], 2),
        (["whatif", "--from", "{}", "--drain", "c"], 2),
        (["whatif", "--from", "{}", "--drain", "a"], 0),
        (["whatif", "--from", "none.yaml", "--drain", "a"], 2),
        (["capacity", "cpu=1", "--from", "{}", "--need", "99"], 1),
        (["capacity", "cpu=-1", "--from", "{}"], 2),
        (["diff", "--from", "none.yaml", "--to-emulated-version", "1.36"], 2),
        (["why", "web-2", "--from", "{}"], 1),
    ],
)
def test_an_error_is_not_mistaken_for_an_answer(words, code, saved, monkeypatch, capsys):
    """In CI the exit code 1 of a what-if means that something would not run."""
    monkeypatch.setattr("sys.argv", ["bayplan", *(word.format(saved) for word in words)])

    with pytest.raises(SystemExit) as left:
        main()

    assert code == (left.value.code or 0), capsys.readouterr()


class NoBadNodes:
    """A plugin from outside."""

    name = "NoBadNodes"

    def filter(self, state, pod, nodes):
        from bayplan.framework import Code, Verdict

        good = [not name.startswith("bad") for name in nodes.names()]
        return Verdict(np.array(good), Code.UNSCHEDULABLE, ("node(s) were bad",))


OUTSIDE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "NoBadNodes"}]}}}],
}


async def test_a_scheduler_with_plugins_of_its_own_answers_itself(tmp_path, quiet):
    """Nobody else could: the headline would promise the node that its plugin refuses."""
    kubeconfig, file = tmp_path / "kubeconfig", tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **pod("new", "1")}))

    async def why(*words):
        arguments = [*words, "--kubeconfig", str(kubeconfig)]
        return await asyncio.to_thread(CliRunner().invoke, command, arguments)

    registry = {**in_tree_registry(), "NoBadNodes": lambda args, handle: NoBadNodes()}
    async with local_cluster(
        Settings(store="memory", kubeconfig_out=kubeconfig),
        config=from_data(OUTSIDE, DEFAULT_GATES),
        gates=DEFAULT_GATES,
        registry=registry,
        controllers="",
    ) as cluster:
        await cluster.client.create(NODES, node("bad-1", "4"))
        await cluster.client.create(PODS, pod("waits", "1"), "default")
        await until(cluster.client, PODS, "waits", told("0/1 nodes are available"))
        one = await why("waits")
        every = await why("--pending")
        planned = await why("-f", str(file))
        absent = await why("wait")

    for found in (one, planned):
        assert "no node of 1 fits" in found.output, found
        assert "node(s) were bad  [NoBadNodes]" in found.output
    assert "= identical to what your scheduler says" in one.output
    assert "What the scheduler there remembers:" in one.output
    assert "node(s) were bad" in every.output
    wrong = 'pod "wait" is not in namespace "default"; did you mean waits?'
    assert wrong == str(absent.exception)


class Refusing:
    """An extender that takes every node out; a real one is asked over HTTP."""

    name, ignorable, weight = "refusing", False, 1
    is_filter, is_prioritizer, is_binder = True, False, False
    supports_preemption = blocking = False

    def interested(self, pod):
        return True

    def filter(self, pod, nodes):
        from bayplan.framework.contract.extender import ExtenderFilterResult

        return ExtenderFilterResult((), failed={n.name: "extender says no" for n in nodes})


def test_the_extenders_of_a_scheduler_that_answers_itself_have_their_say():
    from bayplan.inspect import Cluster
    from bayplan.inspect.settings import load_settings

    settings = msgspec.structs.replace(load_settings(), extenders=(Refusing(),))
    bodies = [make_node("a").capacity(cpu=4, pods=9).body(), make_pod("waits").body()]

    answer = Cluster.from_objects(bodies, settings=settings).why("waits")

    assert settings.own
    assert "pending" == answer.state
    assert "extender says no" in answer.message
    assert [1] == [row.nodes for row in answer.funnel]


def test_a_scheduler_with_gates_of_its_own_answers_itself():
    from bayplan.inspect.settings import load_settings

    assert not load_settings().own
    assert load_settings(feature_gates="GenericWorkload=true").own


def test_an_extender_that_fails_is_not_told_as_nodes_that_lack_something():
    from bayplan.framework.contract.extender import ExtenderError
    from bayplan.inspect import Cluster
    from bayplan.inspect.settings import load_settings

    class Broken(Refusing):
        def filter(self, pod, nodes):
            raise ExtenderError("extender is down")

    settings = msgspec.structs.replace(load_settings(), extenders=(Broken(),))
    bodies = [make_node("a").capacity(cpu=4, pods=9).body(), make_pod("waits").body()]

    answer = Cluster.from_objects(bodies, settings=settings).why("waits")

    assert "the attempt ended with an error, before a node was chosen" == answer.summary
    assert "extender is down" in answer.message


def test_a_pod_may_be_named_as_answers_name_it(saved):
    assert "default/web-1: no node of 2 fits" in ask("default/web-1", "--from", saved).output
