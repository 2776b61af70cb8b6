"""The quick specs of Kubernetes' own conformance suite pass on `bayplan up`.

All of it runs with `make test-conformance`; `tests/conformance/upstream.json` says what is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITES = subprocess.run(
    [ROOT / "hack" / "kube-suites", "--where"], capture_output=True, text=True, check=False
)
pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(SUITES.returncode != 0, reason="needs make kube-suites"),
]


@pytest.mark.timeout(1500)  # two minutes alone; the limits of single specs end what hangs
def test_the_quick_specs_pass(tmp_path):
    known = json.loads((ROOT / "tests/conformance/upstream.json").read_text("utf-8"))["e2e"]
    command = [sys.executable, ROOT / "hack" / "test-conformance", "--short"]

    done = subprocess.run(
        [*command, "--jobs", "2", "--limit", "240", "--out", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout[-4000:] + done.stderr[-2000:]
    passed = {
        spec["name"] for spec in json.loads((tmp_path / "e2e.json").read_text()) if spec["ok"]
    }
    assert set(known["quick"]) == passed
