"""Which version decides: the server's, else what a dump tells of it; and answers say which."""

import json

import pytest
import yaml
from click.testing import CliRunner

from bayplan.cli.why import command
from bayplan.inspect import Cluster, Origin
from bayplan.inspect.sources.snapshot import write_snapshot
from bayplan.testing.builders import make_node, make_pod


def node(name, version=""):
    body = make_node(name).capacity(cpu=2, memory="4Gi", pods=10).body()
    if version:
        body["status"]["nodeInfo"] = {"kubeletVersion": version}
    return body


def dumped(tmp_path, *bodies):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(bodies)}))
    return path


SERVER = {"clientVersion": {"gitVersion": "v1.37.0"}, "serverVersion": {"gitVersion": "v1.36.4"}}
NEWER = "the nearest that is known to its own v1.99.0"
OLDER = "the nearest that is known to its own v1.29.3"


@pytest.mark.parametrize(
    ("versions", "decided", "note"),
    [
        (["v1.36.4"], "1.36", "its kubelets are v1.36.4"),
        (["v1.35.9", "v1.36.4", "v1.36.10"], "1.36", "its kubelets are v1.36.10"),
        (["v1.37.0-rc.1"], "1.37", "its kubelets are v1.37.0-rc.1"),
        (["v1.29.3"], "1.36", OLDER),
        ([""], "1.37", "the source tells no version; --emulated-version gives it"),
        (["nonsense"], "1.37", "the source tells no version; --emulated-version gives it"),
    ],
)
def test_a_dump_is_decided_as_its_kubelets_tell(versions, decided, note, tmp_path):
    nodes = [node(f"n{number}", version) for number, version in enumerate(versions)]
    cluster = Cluster.from_files(dumped(tmp_path, *nodes, make_pod("p").body()))

    answer = cluster.why("p")

    assert decided == cluster.settings.gates.version
    assert (decided, note) == (answer.version, answer.version_note)


def test_the_servers_own_version_in_a_dump_comes_first(tmp_path):
    (tmp_path / "version.yaml").write_text(yaml.safe_dump(SERVER))
    dumped(tmp_path, node("n", "v1.35.0"))

    cluster = Cluster.from_files(tmp_path)

    assert "v1.36.4" == cluster.origin.version
    assert "1.36" == cluster.settings.gates.version
    assert "" == cluster.version_note


@pytest.mark.parametrize(
    ("server", "note"), [("v1.36.4", ""), ("v1.37.2", ""), ("v1.99.0", NEWER), ("v1.29.3", OLDER)]
)
def test_a_server_that_is_not_known_is_told(server, note):
    cluster = Cluster.from_objects([node("n")], origin=Origin(version=server))

    assert note == cluster.version_note


def test_a_snapshot_keeps_what_it_knows_of_the_version(tmp_path):
    path = tmp_path / "x.bayplan"
    write_snapshot(Cluster.from_files(dumped(tmp_path, node("n", "v1.36.4"))), path)

    again = Cluster.from_files(path)

    assert "1.36" == again.settings.gates.version
    assert "its kubelets are v1.36.4" == again.version_note


def test_the_command_says_it_unless_it_was_told(tmp_path):
    path = str(dumped(tmp_path, node("n", "v1.36.4"), make_pod("p").body()))
    run = CliRunner().invoke

    assert "Decided as 1.36: its kubelets are v1.36.4" in run(command, ["p", "--from", path]).output
    told = run(command, ["p", "--from", path, "--emulated-version", "1.37"]).output
    assert "Decided as" not in told
    pending = run(command, ["--pending", "--from", path, "-o", "json"]).output
    assert "1.36" == json.loads(pending)["version"]


@pytest.mark.parametrize("ask", ["what_if", "each", "capacity"])
def test_every_answer_says_it(ask, tmp_path):
    cluster = Cluster.from_files(dumped(tmp_path, node("n", "v1.36.4")))
    found = {
        "what_if": lambda: cluster.what_if("cordon=n"),
        "each": lambda: cluster.each("node"),
        "capacity": lambda: cluster.capacity("cpu=1"),
    }[ask]()

    assert ("1.36", "its kubelets are v1.36.4") == (found.version, found.version_note)
    assert "Decided as 1.36: its kubelets are v1.36.4" in str(found)
