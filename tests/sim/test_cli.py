"""`bayplan scenario`, its reports, and the pytest plugin."""

import base64
import json
import re
import zlib
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from bayplan.cli.scenario import command
from bayplan.errors import BayplanError
from bayplan.sim.script import parse_script

pytest_plugins = ["pytester"]

GOOD = """
apiVersion: bayplan.dev/v1alpha1
kind: Scenario
metadata: {name: good <one>}
steps:
  - nodes: {count: 2, name: "node-{i}", cpu: 2}
  - pods: {count: 3, name: "web-{i}", cpu: 1}
    expect: [{pods: "*", bound: 3}]
  - after: 10m
    pods: {name: "big", cpu: 8}
    expect: [{pod: big, pendingBecause: Insufficient cpu}]
"""
BAD = GOOD.replace("bound: 3", "bound: 4").replace("good", "bad")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "good.scenario.yaml").write_text(GOOD)
    (tmp_path / "bad.scenario.yaml").write_text(BAD)
    return {name: str(tmp_path / f"{name}.scenario.yaml") for name in ("good", "bad")}


def invoke(*args: str):
    return CliRunner().invoke(command, list(args))


def test_run_tells_the_story_and_exits_with_0_or_1(files):
    good, bad = invoke("run", files["good"]), invoke("run", files["good"], files["bad"])

    assert 0 == good.exit_code, good.output
    assert "pod default/web-0 bound to node-" in good.output
    assert "ok   pods *: 3 bound" in good.output
    assert re.search(r"hash [0-9a-f]{64} \(seed 0\)", good.output)
    assert 1 == bad.exit_code
    assert "FAIL pods *: 4 bound; seen instead: 3 existing, 3 bound" in bad.output
    assert "1 of 2 scenarios passed" in bad.output


def test_seed_changes_the_hash_and_nothing_else_does(files):
    hashes = [
        re.search("hash (.*) ", invoke("run", files["good"], *more).output).group(1)
        for more in ((), (), ("--seed", "7"))
    ]

    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


def test_json(files):
    data = json.loads(invoke("run", files["bad"], "-o", "json").stdout)

    assert not data[0]["ok"]
    assert 4 == len(data[0]["pods"])
    assert {"node-0", "node-1"} == {node["name"] for node in data[0]["nodes"]}
    assert data[0]["failures"]


def test_junit(files):
    root = ElementTree.fromstring(invoke("run", files["good"], files["bad"], "-o", "junit").stdout)

    suites = root.findall("testsuite")

    assert [("3", "0"), ("3", "1")] == [(s.get("tests"), s.get("failures")) for s in suites]
    assert "seen instead" in suites[1].find("testcase/failure").get("message")


def test_html_is_one_file_that_needs_nothing_else(files, tmp_path):
    out = tmp_path / "report.html"

    result = invoke("run", files["bad"], "-o", "html", "--out", str(out))

    page = out.read_text()
    parts = dict(re.findall(r'data-part="([^"]*)"[^>]*>([^<]*)<', page))
    told = {name: zlib.decompress(base64.b64decode(body), 31) for name, body in parts.items()}
    head = json.loads(told["cluster"].partition(b"\n")[0])
    assert 1 == result.exit_code
    assert not re.search(r"(src|href)=|@import|url\(", page)
    assert "bad &lt;one&gt;" in page
    assert b"0/2 nodes are available: 2 Insufficient cpu" in told["cluster"]
    assert not head["runs"][0]["outcome"]["ok"]
    assert {"node-0", "node-1"} == set(head["nodes"]["columns"]["name"].split("\n"))
    assert json.loads(told["history "].partition(b"\n")[0])["frames"]


def test_a_config_file_changes_the_scheduler(files, tmp_path):
    config = tmp_path / "ksc.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: somebody-else}]\n"
    )

    result = invoke("run", files["good"], "--config", str(config))

    assert 1 == result.exit_code
    assert "3 existing, 0 bound" in result.output


def test_a_plugin_file_changes_the_scheduler(files, tmp_path):
    plugin, config = tmp_path / "closed.py", tmp_path / "ksc.yaml"
    plugin.write_text(
        "from bayplan.framework import unschedulable\n"
        "class Closed:\n    name = 'Closed'\n    def filter_node(self, state, pod, node):\n"
        "        return unschedulable('node(s) closed today')\n\n"
        "PLUGINS = {'Closed': lambda args, handle: Closed()}\n"
    )
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Closed}]}}}]\n"
    )

    result = invoke("run", files["good"], "--config", str(config), "--plugins", str(plugin))

    assert 1 == result.exit_code
    assert "closed today" in result.output


def test_built_in_scenarios_are_listed_and_found_by_name():
    listed, run = invoke("list"), invoke("run", "first-pod", "--timeline", "none")

    assert "preemption-budget" in listed.output
    assert 0 == run.exit_code, run.output


def test_the_example_runs():
    example = Path(__file__).parents[2] / "examples" / "minisched_scenario.py"

    result = invoke("run", str(example))

    assert 0 == result.exit_code
    assert "scenario: all nodes created" in result.output
    assert "scenario: pod1 is bound to no node: all nodes are unschedulable\n" in result.output


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.py", "x = 1", "has no `scenario`"),
        ("b.py", "1 / 0", "division by zero"),
        ("c.yaml", "kind: x", "c.yaml:1: "),
    ],
)
def test_files_that_cannot_be_run(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)

    result = invoke("run", str(path))

    assert isinstance(result.exception, BayplanError)
    assert message in str(result.exception)


def test_faults_are_refused_on_a_real_cluster():
    from bayplan.sim.start import start

    script = parse_script(
        "apiVersion: bayplan.dev/v1alpha1\nkind: Scenario\nsteps:\n"
        "  - nodes: {name: node}\n"
        "  - pods: {name: pod}\n    expect: [{pod: pod, phase: Running}]\n"
        "  - fault: {apiErrors: 0.5}\n"
    )

    import asyncio

    result = asyncio.run(start(script.player))

    assert {"default/pod": "node"} == result.placements
    assert ['fault "api_errors" needs a simulated cluster; run the scenario without --against'] == (
        result.failures
    )


def test_faults_are_refused_before_anything_is_created_on_a_real_cluster(tmp_path):
    file = tmp_path / "late.scenario.yaml"
    file.write_text(GOOD + "  - at: 1h\n    fault: {nodeLost: node-0}\n")

    result = invoke("run", str(file), "--against", "/dev/null")

    assert isinstance(result.exception, BayplanError)
    assert f"{file}:12: a fault needs a simulated cluster" in str(result.exception)


def test_pytest_collects_scenarios(pytester: pytest.Pytester):
    pytester.makefile(".scenario.yaml", good=GOOD, bad=BAD, broken="steps: 1")
    pytester.makefile(".yaml", other="steps: 1")

    installed = any(ep.name == "bayplan-scenarios" for ep in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", "bayplan.sim.pytest_plugin")
    result = pytester.runpytest_subprocess(*plugin)

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*expected pods [*]: 4 bound; seen instead: 3 existing*"])
    result.stdout.fnmatch_lines(["*broken.scenario.yaml:1: field *apiVersion* is missing*"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('raise ValueError("boom")', "ValueError: boom (broken.py:2)"),
        ("await client.expect.nothing()", "AttributeError: "),
    ],
)
def test_what_a_python_scenario_raises_is_its_failure_with_its_line(tmp_path, line, told):
    file = tmp_path / "broken.py"
    file.write_text(f"async def scenario(client):\n    {line}\n")

    done = invoke("run", str(file))

    assert (1, SystemExit) == (done.exit_code, type(done.exception))
    assert f"FAIL {told}" in done.output
    assert "(broken.py:2)" in done.output
