"""The real scheduler as an oracle: it gives the recorded answers, and ours agree with it."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.conformance import command
from bayplan.cli.conformance_decisions import read
from bayplan.conformance.compare import differences
from bayplan.conformance.oracle import Oracle

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "conformance" / "decisions.jsonl.gz"

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def program():
    env = {**os.environ, "KUBE_VERSION": "1.36.4"}
    script = ROOT / "hack" / "build-oracle"
    found = subprocess.run([script, "--where"], env=env, capture_output=True, text=True)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    return found.stdout.strip()


def test_the_oracle_gives_the_recorded_answers(program):
    wrong = Counter()
    with Oracle(program) as oracle:
        for row in read(RECORDED):
            answer = oracle.decide(row, ownImageSizes=True)
            others = answer.pop("alternatives", [])
            if all(differences(row["expect"], {**answer, **other}) for other in ({}, *others)):
                wrong[row["family"]] += 1

    assert not wrong


def test_random_cases_agree(program, tmp_path):
    result = CliRunner().invoke(
        command, ["fuzz", "--oracle", program, "--cases", "480", "--out", str(tmp_path)]
    )

    assert "480/480 agree" in result.output


def _waiting(name, cpu, **spec):
    resources = {"requests": {"cpu": cpu}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"containers": containers, **spec}}


def test_a_run_of_the_whole_scheduler_binds_and_writes_conditions(program):
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    group = {
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    members = [_waiting(f"g{i}", "2", schedulingGroup={"podGroupName": "g"}) for i in range(3)]
    objects = {"nodes": [node], "podGroups": [group], "pods": [_waiting("a", "1"), *members]}
    gates = {"GenericWorkload": True, "GangScheduling": True}
    with Oracle(program) as oracle:
        first, second = oracle.run({"id": "run", "objects": objects, "gates": gates})["steps"]

    assert first["bound"] == {"default/a": {"node": "n"}}
    assert first["events"]["default/a"] == {"Scheduled": "Successfully assigned default/a to n"}
    assert "bound" not in second
    (condition,) = second["podgroups"]["default/g"]["conditions"]
    assert condition["message"] == "pod group is unschedulable"
    assert set(second["events"]) == {"default/g0", "default/g1", "default/g2"}
