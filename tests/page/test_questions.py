"""What the page asks: why, what-if and the saved report."""

import asyncio
import base64
import gzip
import json
import re
import shlex
import subprocess
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from bayplan.api import encode, yaml
from bayplan.cli.whatif import command as whatif
from bayplan.config import API_VERSION, KIND, from_data, load_file
from bayplan.errors import BayplanError
from bayplan.inspect import Cluster
from bayplan.page.modules import STATIC
from bayplan.page.questions import Asked, Questions, command
from bayplan.page.report import report
from bayplan.page.rows import (
    BOUND,
    CORDONED,
    GHOST,
    NODE_FIELDS,
    PLACE,
    POD_FIELDS,
    READY,
    UNSCHEDULABLE,
)
from bayplan.page.sources import Event, Picture, Stories, Story
from bayplan.testing import make_node, make_pod
from bayplan.testing.clusters import cluster_objects
from tests.inspect.shapes import missing_driver
from tests.page.test_serving import get, serving


def source(*more):
    big = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return Picture(Cluster.from_objects([
        make_node("n1").capacity(big).build(), make_node("n2").capacity(big).cordon().build(),
        make_pod("here").node("n1").req(cpu="1").build(),
        make_pod("small").req(cpu="1").build(), make_pod("large").req(cpu="16").build(), *more,
    ]))  # fmt: skip


async def test_why_tells_the_answer_and_judges_every_node():
    found = await Questions(source()).why("default/large")

    assert found["answer"]["state"] == "pending"
    judged = dict(found["nodes"]["rejected"])
    assert set(judged) == {"n1", "n2"}
    assert "Insufficient cpu" in found["nodes"]["reasons"][judged["n1"]]


async def test_a_pod_that_fits_gets_scores_for_the_nodes_that_fit():
    found = await Questions(source()).why("default/small")
    nodes = found["nodes"]

    assert [row[0] for row in nodes["scored"]] == ["n1"]
    assert nodes["scored"][0][1] == sum(nodes["scored"][0][2:])
    [[name, reason]] = nodes["rejected"]
    assert name == "n2"
    assert nodes["reasons"][reason] == "NodeUnschedulable: node(s) were unschedulable"


async def test_the_command_asks_the_same_source():
    asked = Asked(["drain=n1"])
    dump = await Questions(source(), where="--from 'a b.yaml'").what_if(asked)
    scenario = await Questions(source(), where=None).what_if(asked)

    assert dump["command"] == "bayplan whatif --from 'a b.yaml' --drain n1"
    assert scenario["command"] == ""


async def test_asking_changes_nothing():
    questions = Questions(source())
    first = await questions.why("default/here")
    await questions.what_if(Asked(["drain=n1"]))

    assert await questions.why("default/here") == first


async def test_the_scheduler_is_changed_by_version_and_configuration():
    questions = Questions(Picture(Cluster.from_objects(missing_driver())))
    config = "profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: {disabled: "
    config += "[{name: NodeResourcesFit}]}}}]"
    now = await questions.what_if(Asked(["version=1.37"]))
    older = await questions.what_if(Asked(["version=1.36"]))
    roomy = await Questions(source()).what_if(Asked([f"config={config}"]))

    assert not now["answer"]["starts"]
    assert [start["pod"] for start in older["answer"]["starts"]] == ["default/data"]
    assert older["command"] == "bayplan whatif --emulated-version 1.36"
    assert [start["pod"] for start in roomy["answer"]["starts"]] == ["default/large"]
    assert roomy["command"].endswith("\nbayplan whatif --config scheduler.yaml")


def held():
    """A pod with ways out of many kinds: cordon, taint, label, request, node, neighbour."""
    big = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return [
        make_node("full").capacity(big).label(disk="ssd").build(),
        make_node("shut").capacity(big).label(disk="ssd").cordon().build(),
        make_node("taken").capacity(big).label(disk="ssd").taint("team").build(),
        make_node("plain").capacity(big).build(),
        make_pod("busy").node("full").req(cpu="3").build(),
        make_pod("waits").req(cpu="2").node_selector({"disk": "ssd"}).build(),
    ]


async def test_everything_that_would_help_can_be_tried_and_helps():
    questions = Questions(Picture(Cluster.from_objects(held())))
    fixes = (await questions.why("default/waits"))["answer"]["fixes"]
    for fix in fixes:
        tried = await questions.what_if(Asked(fix["try"]))
        ends = [item["pod"] for item in tried["answer"]["starts"]]
        assert "default/waits" in ends, fix["change"]
        assert tried["answer"]["after"]["pending"] <= tried["answer"]["before"]["pending"]

    assert len(fixes) >= 4


async def test_the_command_of_what_would_help_asks_the_same_what_if(tmp_path):
    dump = tmp_path / "dump.yaml"
    dump.write_text("---\n".join(yaml.dump(json.loads(encode(item))) for item in held()))
    questions = Questions(Picture(Cluster.from_files(dump)), where=f"--from {dump}")
    fixes = (await questions.why("default/waits"))["answer"]["fixes"]
    for fix in fixes:
        tried = await questions.what_if(Asked(fix["try"]))
        program, verb, *words = shlex.split(tried["command"])
        done = await asyncio.to_thread(CliRunner().invoke, whatif, [*words, "-o", "json"])

        assert (program, verb) == ("bayplan", "whatif")
        assert json.loads(done.stdout)["starts"] == list(tried["answer"]["starts"]), fix["change"]

    assert len(fixes) >= 4


@pytest.mark.parametrize("head", ["", f"apiVersion: {API_VERSION}\nkind: {KIND}\n"])
def test_the_command_writes_the_files_that_it_names(tmp_path, head):
    config = f"{head}profiles:\n- schedulerName: default-scheduler"
    notes = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n#\nEND\nEND_"
    writes, _, asks = command([f"config={config}", f"apply={notes}"]).rpartition("\n")
    subprocess.run(["sh", "-ec", writes], cwd=tmp_path, check=True)
    written = load_file(tmp_path / "scheduler.yaml").config

    assert written == from_data({"apiVersion": API_VERSION, "kind": KIND, **yaml.load(config)})
    assert (tmp_path / "manifests-2.yaml").read_text() == f"{notes}\n"
    assert asks == "bayplan whatif --config scheduler.yaml --apply manifests-2.yaml"


async def test_manifests_are_applied_and_written_before_the_command():
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: fresh}\n"
    pod += "spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 99}}}]}"
    found = await Questions(source()).what_if(Asked([f"apply={pod}"]))

    assert [item["pod"] for item in found["answer"]["stuck"]] == ["default/fresh"]
    assert found["command"].startswith("cat > manifests-1.yaml <<'END'\napiVersion: v1\n")
    assert found["command"].endswith("\nEND\nbayplan whatif --apply manifests-1.yaml")
    fresh = dict(found["after"]["pods"])["default/fresh"]
    assert (fresh[POD_FIELDS.index("node")], fresh[PLACE]) == ("", UNSCHEDULABLE)
    assert "Insufficient cpu" in fresh[POD_FIELDS.index("message")]


async def test_pods_of_equal_names_are_told_apart_by_their_namespace():
    twin = make_pod("here", namespace="prod").node("n1").req(cpu="1").build()
    questions = Questions(source(twin))
    mine = (await questions.what_if(Asked(["delete=pod/here"])))["answer"]
    other = (await questions.what_if(Asked(["delete=prod/pod/here"])))["answer"]

    assert mine["changes"] == ("delete pod/here in default",)
    assert mine["deleted"] == ("default/here",)
    assert other["changes"] == ("delete pod/here in prod",)
    assert other["deleted"] == ("prod/here",)


async def test_a_moment_is_counted_from_the_beginning_of_a_run_and_has_no_command():
    story = Story("", "run", [
        Event(100.0, "ADDED", make_node("n1").capacity(cpu="4", memory="8Gi", pods="9").build()),
        Event(105.0, "ADDED", make_pod("late").req(cpu="1").build()),
    ], 110.0)  # fmt: skip
    questions = Questions(Stories("scenario", [story]))
    later = await questions.why("default/late", time="6")
    tried = await questions.what_if(Asked(["cordon=n1"], time="6"))

    assert later["answer"]["state"] == "fits"
    assert tried["command"] == ""
    with pytest.raises(BayplanError, match="late"):
        await questions.why("default/late", time="4")
    with pytest.raises(BayplanError, match="number of seconds"):
        await questions.why("default/late", time="nan")


@pytest.mark.parametrize("change", ["config=profiles: 3", "config=- 1", "config={", "version=1.2"])
async def test_a_scheduler_that_cannot_be_is_refused(change):
    with pytest.raises(BayplanError):
        await Questions(source()).what_if(Asked([change]))


async def test_after_a_what_if_the_map_is_what_the_engine_holds():
    owned = make_pod("owned").node("n1").req(cpu="1").owner("ReplicaSet", "web").build()
    questions = Questions(source(owned))
    after = (await questions.what_if(Asked(["add=2xn1", "drain=n1", "uncordon=n2"])))["after"]
    nodes = {row[0]: dict(zip(NODE_FIELDS, row, strict=True)) for row in after["nodes"]}
    pods = {key: row and (row[POD_FIELDS.index("node")], row[PLACE]) for key, row in after["pods"]}
    lost = (await questions.what_if(Asked(["remove=n1"])))["after"]
    waits = dict(lost["pods"])["default/owned"]

    assert len(nodes) == 4
    assert nodes["n1"]["flags"] == READY | CORDONED
    assert nodes["n2"]["flags"] == READY
    assert [node["cpu"] for node in nodes.values()] == [4000] * 4
    assert pods["default/owned"][0] in set(nodes) - {"n1"}
    assert pods["default/owned"][1] == BOUND
    assert pods["default/here"] is None  # nobody makes it again
    assert [row[NODE_FIELDS.index("flags")] for row in lost["nodes"]] == [GHOST]
    assert (waits[POD_FIELDS.index("node")], waits[PLACE]) == ("", UNSCHEDULABLE)


async def test_a_what_if_comes_with_its_command():
    found = await Questions(source()).what_if(Asked(["uncordon=n2", "drain=n1"]))

    assert found["command"] == "bayplan whatif --uncordon n2 --drain n1"
    assert "default/here" in {stuck["pod"] for stuck in found["answer"]["stuck"]}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([], id="nothing"),
        pytest.param(["apply=/etc"], id="a file of this machine"),
        pytest.param(["drain=nobody"], id="an unknown node"),
        pytest.param(["drain="], id="empty"),
        pytest.param(["cordon=n1"] * 21, id="too many"),
    ],
)
async def test_changes_that_cannot_be_tried_are_refused(changes):
    with pytest.raises(BayplanError):
        await Questions(source()).what_if(Asked(changes))


async def test_an_unknown_pod_is_refused_in_one_line():
    async with serving(source()) as url:
        status, text, *_ = await get(url, "api/why?pod=default/hear")

    assert status == 422
    assert "hear" in json.loads(text)["error"]


def embedded(page, part):
    text = re.search(f'<script data-part="{part}"[^>]*>([^<]*)</script>', page).group(1)
    return json.loads(gzip.decompress(base64.b64decode(text)).partition(b"\n")[0])


async def test_a_view_is_saved_with_its_answer_and_every_module():
    async with serving(source()) as url:
        status, page, headers, _ = await get(url, "api/report?at=%23/pod/default/large")

    assert status == 200
    assert headers["content-disposition"].startswith("attachment")
    assert embedded(page, "cluster")["nodes"]["count"] == 2
    answer = embedded(page, "answers")["api/why?pod=default%2Flarge&run=&t="]
    assert answer["answer"]["state"] == "pending"
    modules = json.loads(re.search(r'<script type="importmap">(.*?)</script>', page).group(1))
    assert set(modules["imports"]) == {f"bayplan/{path.name}" for path in STATIC.glob("*.js")}
    for address in modules["imports"].values():
        body = base64.b64decode(address.partition(",")[2]).decode()
        assert not re.search(r'(?m)^import .*from "\./', body)
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_nothing_of_an_object_can_end_the_data_or_start_a_script():
    name = "</script><script>alert(1)</script>"
    about = {"name": name, "kind": "snapshot", "runs": []}
    page = report(about, source().board, at=f"#/pod/{name}")

    assert "<script>alert" not in page
    assert embedded(page, "cluster")["name"] == name


@pytest.fixture(scope="module")
def thousand():
    return list(cluster_objects(1000, 20_000, pending=100))


LOST_ZONE = "#/what-if?change=remove%3Dtopology.kubernetes.io/zone%3Deurope-north1-a"


@pytest.mark.parametrize(
    "view",
    [
        pytest.param("#/map", id="map"),
        pytest.param("#/pod/", id="pod"),
        pytest.param(LOST_ZONE, id="what-if", marks=pytest.mark.long),
    ],
)
async def test_a_report_of_1000_nodes_is_below_3_megabytes(thousand, view):
    source = Picture(Cluster.from_objects(thousand))
    at = view + (source.board.key_of(min(source.board.waiting)) if view == "#/pod/" else "")
    async with serving(source) as url:
        status, page, *_ = await get(url, f"api/report?at={quote(at)}")

    assert status == 200
    assert bool(embedded(page, "answers")) == (view != "#/map")
    assert len(page) < 3_000_000


async def test_a_report_of_20000_changes_is_below_3_megabytes(thousand):
    events = [Event(float(i // 20), "ADDED", item) for i, item in enumerate(thousand)]
    async with serving(Stories("scenario", [Story("", "busy", events, 2000.0)])) as url:
        _, page, *_ = await get(url, "api/report?at=%23/time")

    assert embedded(page, "history ")["time"] == 0.0
    assert len(page) < 3_000_000
