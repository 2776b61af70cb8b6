"""The reference agrees with every recorded decision of kube-scheduler."""

from pathlib import Path

import pytest

from bayplan import api
from bayplan.cli.conformance_decisions import differences, read
from tests.reference import World, decide

FILE = Path(__file__).parents[1] / "conformance" / "decisions.jsonl.gz"
FAMILIES = (
    "config", "defaultspread", "fit", "images", "interpod", "large", "mixed", "nodeaffinity",
    "ports", "preempt", "softinterpod", "softspread", "spread", "taints", "volumes",
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_reference_agrees(family):
    rows = [row for row in read(FILE) if row["family"] == family]
    different = {}
    for row in rows:
        world = World.from_objects(row["objects"])
        got = decide(world, api.convert(api.Pod, row["pod"]), row.get("config")).body()
        if lines := differences(row["expect"], got):
            different[row["id"]] = lines

    assert {} == different
    assert len(rows) == 60
