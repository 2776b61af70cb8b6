"""`bayplan ui` on everything that can be asked `why`: each prints an address that shows it."""

import gzip
import json
import re
import urllib.request
from http.cookiejar import CookieJar

import pytest
from click.testing import CliRunner

from bayplan.api import to_builtins
from bayplan.cli.snapshot import command as snapshot
from bayplan.cli.ui import command
from bayplan.testing import make_node, make_pod
from bayplan.testing.servers import Process, bayplan_command

OBJECTS = [
    {"apiVersion": "v1", "kind": item.KIND, **to_builtins(item)}
    for item in (
        make_node("n1").capacity(cpu="4", memory="8Gi", pods="9").build(),
        make_pod("here").node("n1").build(),
        make_pod("waits").req(cpu="16").build(),
    )
]


def dump(folder):
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    return ["--from", str(file)]


def saved(folder):
    file = folder / "cluster.snapshot"
    done = CliRunner().invoke(snapshot, ["save", *dump(folder), str(file)])
    assert done.exit_code == 0, done.output
    return ["--from", str(file)]


def recording(folder):
    file = folder / "day.jsonl"
    lines = [
        {"time": f"2026-01-01T00:00:0{second}Z", "event": "Add", "resource": item}
        for second, item in enumerate(OBJECTS)
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    return [str(file)]


def scenario(folder):
    return ["01-first-pod", "--compare-seed", "7"]


def shown(url):
    """Open the address as a browser does; return what the page is told first."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with browser.open(url, timeout=60) as answer:
        assert answer.status == 200
        assert "token" not in answer.url
    with browser.open(url.partition("?")[0] + "api/cluster", timeout=60) as answer:
        return json.loads(gzip.decompress(answer.read()).partition(b"\n")[0])


@pytest.mark.parametrize(
    ("source", "kind", "nodes", "runs"),
    [
        pytest.param(dump, "snapshot", 1, 0, id="dump"),
        pytest.param(saved, "snapshot", 1, 0, id="snapshot"),
        pytest.param(recording, "recording", 1, 1, id="recording"),
        pytest.param(scenario, "scenario", 1, 2, id="scenario"),
    ],
)
def test_any_source_is_shown(source, kind, nodes, runs, tmp_path):
    ui = Process(bayplan_command("ui", *source(tmp_path)), tmp_path / "ui.log")
    try:
        ui.wait_until(lambda: "the page is at" in ui.last_words())
        told = shown(re.search(r"http://\S+", ui.last_words())[0])
    finally:
        ui.stop()

    assert (told["kind"], told["live"], len(told["runs"])) == (kind, False, runs)
    assert told["nodes"]["count"] == nodes


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        pytest.param(["nobody"], "bayplan scenario list", id="no such scenario"),
        pytest.param(
            ["--kubeconfig=/nowhere"],
            '"/nowhere" does not exist',
            id="no kubeconfig",
        ),
        pytest.param(["01-first-pod", "--bind=0.0.0.0:0"], "use 127.0.0.1", id="not loopback"),
    ],
)
def test_what_cannot_be_shown_is_told_in_a_line(words, remedy):
    found = CliRunner().invoke(command, words)

    assert 2 == found.exit_code
    assert remedy in found.output.splitlines()[-1]


def test_runs_are_compared_of_a_scenario_only():
    result = CliRunner().invoke(command, ["--compare-seed", "7"])

    assert 2 == result.exit_code
    assert "are of a scenario" in result.output
