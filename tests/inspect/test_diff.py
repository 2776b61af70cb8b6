"""Two schedulers on one cluster: who goes elsewhere, and which plugin is responsible."""

import msgspec
import pytest
from click.testing import CliRunner

from bayplan.api import yaml
from bayplan.cli.diff import command
from bayplan.inspect import Cluster, load_settings
from bayplan.inspect.diff.answer import Diff, Totals
from bayplan.inspect.diff.text import render
from bayplan.testing.builders import make_node, make_pod
from tests.inspect.shapes import missing_driver

PACKING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 20}]}},
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ],
        }
    ],
}
TOLERANT = {
    **PACKING,
    "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}}],
}


def objects(*, taint=False):
    nodes = [make_node(f"node-{i}").capacity(cpu=4, memory="8Gi", pods=20) for i in range(3)]
    if taint:
        nodes[0].taint("dedicated", "NoSchedule")
        nodes = nodes[:1]
    pods = [
        make_pod(f"p{i}").req(cpu="1").owner("ReplicaSet", "p").with_spec(nodeName="node-0")
        for i in range(6)
    ]
    return [item.body() for item in (*nodes, *pods)]


@pytest.fixture
def configs(tmp_path):
    for name, data in (("packing", PACKING), ("tolerant", TOLERANT)):
        (tmp_path / f"{name}.yaml").write_text(yaml.dump(data))
    return tmp_path


def test_the_same_settings_differ_in_nothing():
    cluster = Cluster.from_objects(objects())
    found = cluster.diff(load_settings())

    assert found.same
    assert found.totals_a == found.totals_b
    assert found.pods == 6


def test_a_score_is_named_with_the_plugin_that_moved_it(configs):
    found = Cluster.from_objects(objects()).diff(load_settings(configs / "packing.yaml"))

    assert not found.same
    assert set(found.plugins) == {"NodeResourcesFit"}
    assert found.totals_a.nodes_used == 3
    assert found.totals_b.nodes_used == 2
    assert found.totals_b.packing > found.totals_a.packing
    assert any(not item.direct for item in found.changed) or all(
        item.plugin for item in found.changed
    )


def test_a_filter_is_named_with_what_it_says(configs):
    cluster = Cluster.from_objects(objects(taint=True))
    found = cluster.diff(load_settings(configs / "tolerant.yaml"))

    assert (found.totals_a.pending, found.totals_b.pending) == (6, 2)
    assert found.plugins == {"TaintToleration": 4}
    assert "untolerated taint" in found.changed[0].detail


def test_the_command_tells_by_its_exit_code_and_in_markdown(tmp_path, configs):
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.dump_all(objects()))
    arguments = ["--from", str(file), "--to-config", str(configs / "packing.yaml")]

    found = CliRunner().invoke(command, [*arguments, "-o", "markdown"])
    assert found.exit_code == 1
    assert "| nodes used | 3 | 2 |" in found.output
    body = msgspec.json.decode(CliRunner().invoke(command, [*arguments, "-o", "json"]).output)
    assert body["plugins"]
    same = CliRunner().invoke(command, [*arguments, "--config", str(configs / "packing.yaml")])
    assert same.exit_code == 0
    assert "Same: all 6 pods go where they went." in same.output


def test_two_versions_are_compared(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.dump_all(missing_driver()))
    arguments = ["--from", str(file), "--emulated-version", "1.36"]

    found = CliRunner().invoke(command, [*arguments, "--to-emulated-version", "1.37"])
    same = CliRunner().invoke(command, [*arguments, "--to-emulated-version", "1.36"])

    assert (found.exit_code, same.exit_code) == (1, 0)
    assert "A: the defaults (1.36)" in found.output
    assert "B: the defaults (1.37)" in found.output
    assert "NodeVolumeLimits" in found.output


def test_two_runs_of_a_scenario_are_compared(configs):
    arguments = ["--scenario", "taints", "--to-config", str(configs / "tolerant.yaml")]

    found = CliRunner().invoke(command, [*arguments, "-o", "json"])
    body = msgspec.json.decode(found.output)

    assert found.exit_code == 1
    assert body["a"] == "the scenario taints (1.37)"
    assert body["plugins"] == {"TaintToleration": 2}
    assert [(c["pod"], c["a"], c["b"]) for c in body["changed"]] == [
        ("default/more", "", "gpu"),
        ("default/web", "plain", "gpu"),
    ]
    assert (body["totalsA"]["placed"], body["totalsB"]["placed"]) == (3, 4)


def test_runs_whose_pods_have_all_ended_have_no_figures_of_nodes():
    ended = Totals(placed=12, pending=0, evictions=0, nodes_used=0, packing=0.0, spread=0.0)
    found = Diff(a="a", b="b", pods=12, changed=(), plugins={}, totals_a=ended, totals_b=ended)

    text = "\n".join(render(found))

    assert "placed" in text
    assert "nodes used" not in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--scenario", "taints", "--from", "/dev/null", "--to-emulated-version", "1.36"],
            "give one",
        ),
        (["--scenario", "nothing", "--to-emulated-version", "1.36"], "is no file and no scenario"),
        (["--scenario", "taints", "--to-emulated-version", "1.12"], "1.12"),
        (["--scenario", "taints", "--to-config", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_a_bad_scenario_is_one_clear_line(arguments, problem):
    found = CliRunner().invoke(command, arguments)
    assert 2 == found.exit_code
    assert problem in found.output


def test_nothing_to_compare_with_is_told():
    found = CliRunner().invoke(command, ["--from", "/dev/null"])
    assert "give --to-config, --to-plugins or --to-emulated-version" in found.output
