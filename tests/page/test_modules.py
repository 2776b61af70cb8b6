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


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_is_legible_on_every_ground(theme):
    blocks = re.findall(r":root[^{]*{([^}]*)}", (STATIC / "style.css").read_text())
    found = dict(re.findall(r"--(\w+): (#\w{6})", blocks[theme]))
    faint = {
        f"{ink} on {ground}"
        for ink in ("ink", "dim", "accent", "good", "warn", "bad")
        for ground in ("back", "soft")
        if contrast(found[ink], found[ground]) < 4.5
    }

    assert faint == set()


def contrast(ink, ground):
    low, high = sorted((luminance(ink), luminance(ground)))
    return (high + 0.05) / (low + 0.05)
