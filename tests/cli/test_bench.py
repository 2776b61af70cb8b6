"""`bayplan bench decide` measures every workload and says what it measured."""

import json

import pytest
from click.testing import CliRunner

from bayplan.cli.bench import command
from bayplan.cli.bench_decide import WORKLOADS, run


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_every_workload_runs(workload):
    result = run(50, 20, 10, workload)

    waiting = ("unschedulable", "preemption", "preemption-pdb")
    placed = 0 if workload in waiting else 20
    assert placed == result["scheduled"]
    assert result["pods_per_s"] > 0


def test_a_gang_of_more_pods_than_fit_gets_no_node():
    """Two nodes have room for 80 pods, and one was placed before; no pod of a gang goes alone."""
    assert 79 == run(2, 79, 0, "gang")["scheduled"]
    assert 0 == run(2, 80, 0, "gang")["scheduled"]
    assert 79 == run(2, 80, 0, "basic")["scheduled"]


def test_a_gang_without_records_is_refused():
    result = CliRunner().invoke(command, ["decide", "--workload", "gang", "--no-records"])

    assert 2 == result.exit_code
    assert "always keeps records" in result.output


def test_json_is_one_object_with_the_agreed_keys():
    args = ["decide", "--nodes", "20", "--pods", "5", "--placed", "3", "--json"]
    result = CliRunner().invoke(command, args)

    assert 0 == result.exit_code
    body = json.loads(result.output)
    assert {"pods_per_s", "us_per_pod", "rss_mb"} <= set(body)
    assert (20, 5, 3) == (body["nodes"], body["pods"], body["placed_before"])
