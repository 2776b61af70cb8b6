"""Runs of the whole scheduler over pod groups, as kube-scheduler v1.37.1 did them.

Recorded with the oracle (`docs/design/conformance.md`); only runs in which it draws nothing.
"""

import gzip
import json
from pathlib import Path

from bayplan.config import FeatureGates
from bayplan.conformance import run
from bayplan.conformance.compare import differences

RECORDED = Path(__file__).with_name("runs-1.37.jsonl.gz")


def test_recorded_runs():
    gates = FeatureGates(version="1.37")
    wrong = {}
    with gzip.open(RECORDED, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        if found := differences(case["expect"], run.ours(case, gates)):
            wrong[case["id"]] = found[:3]

    assert not wrong
    assert 100 == len(cases)
