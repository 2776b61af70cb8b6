"""kubectl prints on our server what it printed on kube-apiserver v1.36.4.

`recorded.json.gz` is the shared session; `more.json.gz` shows every kind, custom resources,
server-side apply with its managedFields, and many mistakes: 202 starts of kubectl, so that it is
for `make test-kube`. Both were recorded with kubectl v1.36.4. What is different is listed with its
reason in docs/reference/kubectl-differences.md.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from bayplan.testing.servers import kube_assets, start_embedded
from tests.conformance.kubectl.replay import differences, replay

HERE = Path(__file__).parent / "kubectl"
DIFFERENCES = Path(__file__).parents[2] / "docs" / "reference" / "kubectl-differences.md"
LISTED = re.compile(r"^\| `([\w-]+)` \| `([\w./-]+)` \|", re.MULTILINE)


def kubectls() -> dict[str, str]:
    """Every kubectl there is, by version: the one built beside the real server and PATH's."""
    assets, path = kube_assets(), shutil.which("kubectl")
    found: dict[str, str] = {}
    for program in [*([assets / "kubectl"] if assets else []), *([Path(path)] if path else [])]:
        if not program.is_file():
            continue
        command = [str(program), "version", "--client", "-o", "json"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            version = json.loads(shown.stdout)["clientVersion"]["gitVersion"]
            found.setdefault(version, str(program))
    return found


@pytest.mark.kubectl
@pytest.mark.parametrize("session", ["recorded", pytest.param("more", marks=pytest.mark.kube)])
def test_kubectl_prints_what_it_prints_on_the_real_server(session):
    """The listed differences are there, and no others, with every kubectl."""
    programs = kubectls()
    if not programs:
        pytest.skip("needs kubectl 1.32 or newer")
    listed = LISTED.findall(DIFFERENCES.read_text("utf-8"))
    expected = {step for place, step in listed if place == session}

    differing = {version: differing_steps(session, path) for version, path in programs.items()}

    assert dict.fromkeys(programs, expected) == {k: set(v) for k, v in differing.items()}, differing


def differing_steps(session: str, program: str) -> dict[str, list[str]]:
    recorded = load(HERE / f"{session}.json.gz")
    arguments = ("--store=memory", "--tls-generate", "--emulated-version=1.36")
    with start_embedded(None, *arguments) as cluster:
        options = SimpleNamespace(kubectl=program, kubeconfig=cluster.kubeconfig)
        found = {
            step["id"]: list(differences(step["want"], answer))
            for step, answer in replay(recorded["files"], recorded["steps"], options)
        }
    return {step: lines for step, lines in found.items() if lines}


def load(path: Path) -> dict[str, object]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)
