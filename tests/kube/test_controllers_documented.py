"""The reference names every controller of the real kube-controller-manager."""

import re
import subprocess
from pathlib import Path

import pytest

from bayplan.testing.servers import kube_assets

ASSETS = kube_assets()
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "controllers.md"
pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(
        ASSETS is None or not (ASSETS / "kube-controller-manager").exists(), reason="not built"
    ),
]


def test_every_controller_is_listed_once():
    command = [str(ASSETS / "kube-controller-manager"), "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = re.search(r"All controllers: ([a-z0-9, -]+?)\n", said)
    assert listed is not None
    names = [name.removesuffix("-controller") for name in listed[1].split(", ")]
    table = PAGE.read_text("utf-8").partition("## Of kube-controller-manager")[2]
    rows = [line for line in table.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    told = [re.sub(r" \(.*?\)", "", row.split("|")[1]).strip() for row in rows[2:]]

    found = [name for row in told for name in row.split(", ")]
    assert len(names) > 40
    assert [] == sorted(set(names) - set(found))
    assert len(found) == len(set(found))
