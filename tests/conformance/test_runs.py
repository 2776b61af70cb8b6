"""Runs of the whole scheduler over pod groups, as kube-scheduler v1.36.4 and v1.37.1 did them.

Recorded with the oracle (`docs/design/conformance.md`); only runs in which it draws nothing. 1.36
tries the pods of a group in random order: there they are alike and not told apart by name.
"""

import gzip
import json
from pathlib import Path

import pytest

from bayplan.config import FeatureGates
from bayplan.conformance import run
from bayplan.conformance.compare import differences

COUNTS = {"1.36": 60, "1.37": 100}


@pytest.mark.parametrize("version", COUNTS)
def test_recorded_runs(version):
    gates = FeatureGates(version=version)
    wrong = {}
    with gzip.open(Path(__file__).with_name(f"runs-{version}.jsonl.gz"), "rt") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        if found := differences(case["expect"], run.ours(case, gates)):
            wrong[case["id"]] = found[:3]

    assert not wrong
    assert COUNTS[version] == len(cases)
