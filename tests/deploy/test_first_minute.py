"""What `make demo` does on a fresh clone: it waits for nothing that only development needs."""

import shutil
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_needs_only_what_running_needs(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "hack/install-runtime"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    steps = [line.split("#")[0].strip() for line in done.stdout.splitlines()]
    assert steps == [
        "python3 hack/install-runtime .venv",
        "touch .venv/.runtime",
        ".venv/bin/bayplan demo",
    ]


def test_every_dependency_has_a_version_that_was_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if "==" in line
    }

    names = [item.partition(">")[0].lower() for item in project["dependencies"]]
    assert len(names) > 10
    assert [name for name in names if name not in pinned] == []
