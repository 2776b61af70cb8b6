"""Programs of others, built by `hack/operators`: where they are, and waiting for what they do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.testing.servers import ServedCluster, kube_assets

ROOT = Path(__file__).parents[2]


def folder() -> Path:
    found = subprocess.run(
        [ROOT / "hack" / "operators", "--where"], capture_output=True, text=True, check=True
    )
    return Path(found.stdout.strip())


def needs(name: str) -> pytest.MarkDecorator:
    there = (folder() / f"{name}.version").exists()
    return pytest.mark.skipif(not there, reason=f"needs make operators ARGS={name}")


def until(found: Callable[[], Any], what: str, seconds: float = 90) -> Any:
    """Wait for something that a program does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError(f"{what} did not happen in {seconds:g} s")


def kubectl(cluster: ServedCluster, *words: str, given: str = "") -> str:
    assets = kube_assets()
    assert assets is not None, "run make kube-assets"
    done = subprocess.run(
        [assets / "kubectl", f"--kubeconfig={cluster.kubeconfig}", *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert 0 == done.returncode, done.stderr[-3000:]
    return done.stdout
