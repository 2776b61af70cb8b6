"""kubectl prints on our server what it printed on kube-apiserver v1.36.4.

`recorded.json.gz` is the shared session; `more.json.gz` shows every kind, custom resources,
server-side apply with its managedFields, and many mistakes. Both were recorded with kubectl
v1.36.4. Another kubectl words some of its own messages differently: it need not agree everywhere.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from bayplan.testing.servers import kube_assets, start_embedded
from tests.conformance.kubectl.replay import differences, replay

HERE = Path(__file__).parent / "kubectl"
RECORDED_WITH = "v1.36.4"
# Each with its reason in docs/reference/kubectl-differences.md.
DIFFERENT = {
    "recorded": set(),
    "more": {"patch-spec-refused", "ssa-typo"},
}


def find_kubectl() -> tuple[str, str] | None:
    """The kubectl to run and its version: the one built beside the real server, else PATH's."""
    assets = kube_assets()
    candidates = [assets / "kubectl"] if assets is not None else []
    path = shutil.which("kubectl")
    for program in [*candidates, *([Path(path)] if path else [])]:
        if not program.is_file():
            continue
        command = [str(program), "version", "--client", "-o", "json"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            return str(program), json.loads(shown.stdout)["clientVersion"]["gitVersion"]
    return None


KUBECTL = find_kubectl()


@pytest.mark.kubectl
@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl 1.32 or newer")
@pytest.mark.parametrize("session", ["recorded", "more"])
def test_kubectl_prints_what_it_prints_on_the_real_server(session):
    assert KUBECTL is not None
    program, version = KUBECTL
    recorded = load(HERE / f"{session}.json.gz")
    with start_embedded(None, "--store=memory", "--tls-generate") as cluster:
        options = SimpleNamespace(kubectl=program, kubeconfig=cluster.kubeconfig)
        found = {
            step["id"]: list(differences(step["want"], answer))
            for step, answer in replay(recorded["files"], recorded["steps"], options)
        }

    differing = {key: lines for key, lines in found.items() if lines}
    if version == RECORDED_WITH:
        assert {} == {k: v for k, v in differing.items() if k not in DIFFERENT[session]}
    assert len(differing) <= 0.1 * len(found), differing


def load(path: Path) -> dict[str, object]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)
