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
