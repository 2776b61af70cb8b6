"""controller-runtime's envtest starts our launchers as if they were the real programs.

A Go test (`envtest/`) starts an environment, runs a manager with a controller, adds a user with a
certificate who may do nothing, and stops. It is built once with the Go toolchain into a cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan

SOURCE = Path(__file__).parent / "envtest"
pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs a Go toolchain"),
]


def built():
    """The test as a program; made from Go modules where it is not there yet."""
    files = [SOURCE / "go.mod", SOURCE / "env_test.go"]
    mark = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "bayplan" / "envtest" / mark
    program = folder / "env.test"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for path in files:
            shutil.copy(path, folder)
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        for words in (("mod", "tidy"), ("test", "-c", "-trimpath", "-o", "env.tmp", ".")):
            subprocess.run(["go", *words], cwd=folder, env=environment, check=True, timeout=1200)
        (folder / "env.tmp").rename(program)
    return program


@pytest.mark.timeout(1500)
def test_an_environment_starts_works_and_stops(tmp_path):
    made = CliRunner().invoke(bayplan, ["envtest-assets", str(tmp_path)])
    assert 0 == made.exit_code, made.output
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)}

    done = subprocess.run(
        [built(), "-test.v"], env=environment, capture_output=True, text=True, timeout=240
    )

    assert 0 == done.returncode, done.stdout[-4000:]
    assert 'User "jane" cannot list resource "pods"' in done.stdout
