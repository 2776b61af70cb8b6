"""kubectl prints on our server what it printed on kube-apiserver v1.36.4.

`recorded.json.gz` is the shared session; `more.json.gz` shows every kind, custom resources,
server-side apply with its managedFields, and many mistakes: 202 starts of kubectl, so that it is
for `make test-kube`. Both were recorded with kubectl v1.36.4. What is different is listed with its
reason in docs/reference/kubectl-differences.md, and so is what an older kubectl words otherwise.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bayplan.testing.servers import kube_assets, start_embedded
from tests.conformance.kubectl.replay import differences, replay

HERE = Path(__file__).parent / "kubectl"
DIFFERENCES = Path(__file__).parents[2] / "docs" / "reference" / "kubectl-differences.md"
LISTED = re.compile(r"^\| `([\w-]+)` \| `([\w ./-]+)` \|", re.MULTILINE)
OLDER = "## Older kubectls"
DRAWN = {"describe-cm settings"}  # kubectl tells its keys as a Go map has them: by luck
WORDS_OF = {32: OLDER, 33: OLDER, 36: "", 37: ""}  # minor version: where its own words are listed


def programs() -> dict[str, Path]:
    """Every kubectl there is, by version: the one built beside the real server and PATH's."""
    assets = kube_assets()
    folders = [*([assets] if assets else []), *map(Path, os.get_exec_path())]
    found: dict[str, Path] = {}
    for program in dict.fromkeys((folder / "kubectl").resolve() for folder in folders):
        if os.access(program, os.X_OK) and program.is_file():
            found.setdefault(version_of(program), program)
    return found


def version_of(program: Path) -> str:
    command = [str(program), "version", "--client", "-o", "json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(shown.stdout)["clientVersion"]["gitVersion"]


def words_of(version: str) -> str | None:
    """The heading under which a kubectl's own words are listed; nothing where nobody knows them."""
    minor = re.match(r"v1\.(\d+)\.", version)
    return WORDS_OF.get(int(minor[1])) if minor else None


def listed(session: str, heading: str) -> set[str]:
    """The steps that differ for every kubectl, and those that one words otherwise."""
    general, _, older = DIFFERENCES.read_text("utf-8").partition(OLDER)
    rows = LISTED.findall(general) + (LISTED.findall(older) if heading else [])
    return {step for place, step in rows if place == session}


@pytest.mark.kubectl
@pytest.mark.parametrize("session", ["recorded", pytest.param("more", marks=pytest.mark.kube)])
def test_kubectl_prints_what_it_prints_on_the_real_server(session):
    """The listed differences are there, and no others, with every kubectl whose words are known."""
    known = {
        version: heading for version in programs() if (heading := words_of(version)) is not None
    }
    if not known:
        pytest.skip("needs a kubectl 1.32, 1.33, 1.36 or 1.37")
    expected = {version: listed(session, heading) for version, heading in known.items()}

    found = {version: differing_steps(session, programs()[version]) for version in known}

    assert expected == {version: set(steps) for version, steps in found.items()}, found


def test_only_the_order_of_what_is_drawn_does_not_count():
    told, other = ({"exit": 0, "stdout": lines} for lines in (["a: 1", "b: 2"], ["b: 2", "a: 1"]))

    assert [] == list(differences(*in_order(*DRAWN, told, other)))
    assert [] != list(differences(*in_order(*DRAWN, told, {"exit": 0, "stdout": ["a: 1"]})))
    assert [] != list(differences(*in_order("another step", told, other)))


@pytest.mark.parametrize(
    ("version", "heading"),
    [("v1.31.9", None), ("v1.32.4-dispatcher", OLDER), ("v1.35.0", None), ("v1.36.4", "")],
)
def test_which_kubectls_have_words_of_their_own(version, heading):
    assert heading == words_of(version)


def test_every_kubectl_on_the_path_is_asked(tmp_path, monkeypatch):
    folders = []
    for version in ("v1.32.1", "v1.36.9"):
        folder = tmp_path / version
        folder.mkdir()
        said = json.dumps({"clientVersion": {"gitVersion": version}})
        (folder / "kubectl").write_text(f"#!/bin/sh\necho '{said}'\n")
        (folder / "kubectl").chmod(0o755)
        folders.append(str(folder))
    monkeypatch.setenv("PATH", os.pathsep.join(["/bin/nowhere", *folders, folders[0]]))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "none"))

    assert {
        version: tmp_path / version / "kubectl" for version in ("v1.32.1", "v1.36.9")
    } == programs()


def differing_steps(session: str, program: Path) -> dict[str, list[str]]:
    recorded = load(HERE / f"{session}.json.gz")
    arguments = ("--store=memory", "--tls-generate", "--emulated-version=1.36")
    with start_embedded(None, *arguments) as cluster:
        options = SimpleNamespace(kubectl=str(program), kubeconfig=cluster.kubeconfig)
        found = {
            step["id"]: list(differences(*in_order(step["id"], step["want"], answer)))
            for step, answer in replay(recorded["files"], recorded["steps"], options)
        }
    return {step: lines for step, lines in found.items() if lines}


def in_order(step: str, *answers: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers as they are compared: a step of DRAWN without the order of its lines."""
    if step not in DRAWN:
        return list(answers)
    return [answer | {"stdout": sorted(answer["stdout"])} for answer in answers]


def load(path: Path) -> dict[str, object]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)
