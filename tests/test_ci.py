"""CI cannot be green for want of a program, nor with one of another version."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPS = {
    "a_test": "import pytest\ndef test_it():\n    pytest.skip('no such program')\n",
    "a_module": "import pytest\npytest.importorskip('no_such_module')\n",
}


def test_make_help_names_every_target_in_columns_of_a_terminal():
    rules = re.findall(r"^([a-z0-9-]+):.*## (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)

    asked = ["make", "--no-print-directory", "help"]  # `make test` runs this, too
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)

    shown = done.stdout.splitlines()
    assert " ".join(f"{name} {text}" for name, text in rules).split() == done.stdout.split()
    assert {name for name, _ in rules} == {line[:17].strip() for line in shown} - {""}
    assert all(line[17] == " " != line[18] and len(line) <= 80 for line in shown)


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_what_is_skipped_fails_where_ci_is_set(tmp_path, monkeypatch, ci, code):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # nothing of theirs is asked
    (tmp_path / "test_passes.py").write_text("def test_passes():\n    pass\n")
    for name, text in SKIPS.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-rA", "--continue-on-collection-errors", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode != 0) is bool(code), done.stdout
    summary = done.stdout.partition("short test summary info")[2].splitlines()
    refused = [line for line in summary if "skipped where CI is set" in line]
    wanted = [f"test_{name}.py" for name in SKIPS] if code else []
    assert wanted == [name for name in wanted for line in refused if name in line]
    assert len(wanted) == len(refused)
    assert "1 passed" in summary[-1]


@pytest.mark.parametrize("old", [None, "kube-apiserver", "kube-scheduler", "etcd"])
def test_programs_of_another_version_are_refused(tmp_path, monkeypatch, old):
    says = {"kube-apiserver": "Kubernetes v1.2.3", "kube-scheduler": "Kubernetes v1.2.3"}
    for program, text in {**says, "etcd": "etcd Version: 4.5.6"}.items():
        shown = text if program != old else text + "9"
        (tmp_path / program).write_text(f"#!/bin/sh\necho '{shown}'\n")
        (tmp_path / program).chmod(0o755)
    for name, value in {"KUBE_VERSION": "1.2.3", "ETCD_VERSION": "4.5.6"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    done = subprocess.run([ROOT / "hack" / "kube-assets"], capture_output=True, text=True)

    assert (0 if old is None else 1) == done.returncode
    assert (old or "") in done.stderr
