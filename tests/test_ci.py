"""CI cannot be green for want of a program, nor with one of another version."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPS = {
    "a test": "import pytest\ndef test_it():\n    pytest.skip('no such program')\n",
    "a module": "import pytest\npytest.importorskip('no_such_module')\n",
}


@pytest.mark.parametrize("what", SKIPS)
@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_what_is_skipped_fails_where_ci_is_set(tmp_path, monkeypatch, what, ci, code):
    monkeypatch.setenv("CI", ci)
    (tmp_path / "test_passes.py").write_text("def test_passes():\n    pass\n")
    (tmp_path / "test_skips.py").write_text(SKIPS[what])
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode != 0) is bool(code), done.stdout
    assert ("skipped where CI is set" in done.stdout) is bool(code)


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
