"""`bayplan conformance decisions`: the engine decides as kube-scheduler did, and says where not."""

import copy
import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.conformance import command
from bayplan.cli.conformance_decisions import read
from bayplan.conformance.compare import differences

FILE = Path(__file__).parent / "decisions.jsonl.gz"


def run(*args):
    return CliRunner().invoke(command, ["decisions", *map(str, args)])


def test_all_recorded_decisions_agree():
    result = run(FILE)

    assert "agreement: 900/900" == result.output.splitlines()[-1]
    assert result.exit_code == 0


def test_a_difference_is_shown_and_fails(tmp_path):
    row = copy.deepcopy(next(row for row in read(FILE) if row["family"] == "taints"))
    name = next(iter(row["expect"]["nodes"]))
    row["expect"]["nodes"][name] = {"code": "Unschedulable", "plugin": "X", "reasons": ["because"]}
    path = tmp_path / "one.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    result = run(path)

    assert result.exit_code == 1
    assert f"{row['id']} differs in" in result.output
    assert f'nodes.{name}.code: recorded "Unschedulable"' in result.output
    assert "agreement: 0/1" == result.output.splitlines()[-1]


def test_a_refused_object_counts_as_a_difference(tmp_path):
    row = {
        "id": "x",
        "family": "f",
        "objects": {"nodes": [{"metadata": 5}]},
        "pod": {},
        "expect": {},
    }
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(row))
    result = run(path)

    assert result.exit_code == 1
    assert 'the engine refused it: decoding Node ""' in result.output


@pytest.mark.parametrize("text", ["{", '{"id": 1}', "[]"])
def test_a_broken_file_is_an_error_with_the_line(tmp_path, text):
    path = tmp_path / "broken.jsonl"
    path.write_text(text)
    result = run(path)

    assert "line 1" in str(result.exception)


def test_only_some_decisions():
    row = next(iter(read(FILE)))
    result = run(FILE, "--id", row["id"])

    assert "agreement: 1/1" == result.output.splitlines()[-1]


def test_a_family_that_is_not_there_is_told_which_are():
    result = run(FILE, "--family", "port")

    assert "families: " in str(result.exception)
    assert "ports" in str(result.exception)


def test_only_what_was_recorded_is_compared():
    assert [] == differences({"best": ["a"]}, {"best": ["a"], "message": "more"})
    assert ['best: recorded ["a"], decided nothing'] == differences({"best": ["a"]}, {})
