"""The browser's modules: their own tests by node, and rules that hold without it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bayplan.page.modules import STATIC
from bayplan.page.rows import BOUND, CORDONED, DISRUPTED, FINISHED, GHOST, READY, TERMINATING

TESTS = Path(__file__).parent / "js"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_modules_pass_their_tests():
    done = subprocess.run(
        [NODE, "--test", *map(str, TESTS.glob("*.mjs"))],
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_a_module_takes_text_as_text_and_loads_nothing_from_elsewhere(path):
    text = path.read_text()

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.search(r"https?://", text)
    assert text.count("\n") <= 400


def test_both_sides_mean_the_same_by_numbers():
    text = (STATIC / "cluster.js").read_text()
    found = dict(re.findall(r"export const ([A-Z]+) = (\d+);", text))

    assert found == {
        "READY": str(READY), "CORDONED": str(CORDONED), "GHOST": str(GHOST),
        "TERMINATING": str(TERMINATING), "DISRUPTED": str(DISRUPTED), "BOUND": str(BOUND),
        "FINISHED": str(FINISHED),
    }  # fmt: skip
