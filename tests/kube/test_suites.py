"""Test suites of others through `bayplan envtest-assets`: the same specs pass as on the real ones.

controller-runtime's packages that start an API server and a selection of Kueue's are run twice, on
our launchers and on kube-apiserver with etcd. What passes there must pass
here. Specs that race are listed, each with why: such a one is tried again, and must pass once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.testing.servers import kube_assets
from tests.kube.operators import folder, needs

FOLDERS = {"controller-runtime": "pkg", "kueue-suites": "test/integration/singlecluster"}
# What runs the specs, which passes only if all of them do.
SUITE = {
    f"Test{name}"
    for name in [
        "Builder",
        "Client",
        "Controllerutil",
        "Eventhandler",
        "Manager",
        "Reconcile",
        "Recorder",
        "Source",
    ]
}
RACE = "the spec cancels a wait and counts on an informer that has not synced yet; ours may have"
# No API server is asked in this one: it looks for the requeued item as soon as its own reconciler
# was called, and the controller requeues only after that call.
EARLY = "the spec looks for a requeue that the controller may not have come to yet"
# By package, how names of specs end that may fail at one time and pass at another.
RACES = {
    "cache": {
        "should return an error when context is cancelled": RACE,
        "should allow for get informer to be cancelled": RACE,
    },
    "internal/controller": {
        "Processing queue items from a Controller should requeue a Request"
        " if there is an error and continue processing items": EARLY,
    },
}
TRIES = 5


def packages(name: str) -> list[str]:
    """The packages of a module whose suites have been built."""
    source = folder() / name / FOLDERS[name]
    return sorted(str(path.parent.relative_to(source)) for path in source.rglob("suite.test"))


def passed(program: Path, assets: Path, report: Path, only: Iterable[str] = ()) -> set[str]:
    """Run a suite; return the names of the specs and of the plain Go tests that passed."""
    focus = "|".join(re.escape(name).replace("\\ ", " ") for name in sorted(only))
    words = ["-ginkgo.no-color", f"-ginkgo.json-report={report}", f"-ginkgo.focus={focus}"]
    done = subprocess.run(
        [program, "-test.v", *words],
        cwd=program.parent,
        env={**os.environ, "KUBEBUILDER_ASSETS": str(assets)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=900,
        check=False,  # the report tells what failed
    )
    plain = set(re.findall(r"^ *--- PASS: (\S+)", done.stdout, re.MULTILINE))
    return (plain - SUITE) | {
        " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
        for suite in json.loads(report.read_text())
        for spec in suite["SpecReports"] or ()
        if spec["LeafNodeType"] == "It" and spec["State"] == "passed"
    }


def compare(name: str, package: str, tmp_path: Path) -> None:
    """Run a suite on our launchers and on the real programs."""
    ours = tmp_path / "ours"
    made = CliRunner().invoke(bayplan, ["envtest-assets", str(ours)])
    assert 0 == made.exit_code, made.output
    real = kube_assets()
    assert real is not None, "run make kube-assets"
    program = folder() / name / FOLDERS[name] / package / "suite.test"

    there = passed(program, real, tmp_path / "real.json")

    assert there, "nothing passed on the real programs"
    races = RACES.get(package, {}) if name == "controller-runtime" else {}
    run = partial(passed, program, ours, tmp_path / "ours.json")
    assert set() == missing(there, run, races)


def missing(there: set[str], run: Callable[..., set[str]], races: Iterable[str]) -> set[str]:
    """Of what passed there, what does not pass here; what may race is tried again, alone."""
    gone = [end for end in races if not any(name.endswith(end) for name in there)]
    assert [] == gone, "they do not pass on the real programs: strike them from RACES"
    left = there - run()
    for _ in range(TRIES):
        if raced := {name for name in left if name.endswith(tuple(races))}:
            left -= run(only=raced)
    return left


def test_what_may_race_is_tried_again_and_must_pass():
    there, asked = {"a", "b races", "c races", "d"}, []

    def run(only=()):
        asked.append(sorted(only))
        return {"a", "c races"} if not only else {"b races"} if len(asked) == 4 else set()

    assert {"d"} == missing(there, run, {"races": "why"})
    assert [[], *[["b races"]] * 3] == asked

    assert {"a", "b races", "c races", "d"} == missing(there, lambda only=(): set(), {"races": ""})
    with pytest.raises(AssertionError, match="strike them"):
        missing(there, run, {"races": "why", "renamed": "why"})


@pytest.mark.operators
@needs("controller-runtime")
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("package", sorted({*packages("controller-runtime"), *RACES}))
def test_controller_runtimes_specs_pass_as_on_the_real_programs(package, tmp_path):
    compare("controller-runtime", package, tmp_path)


@pytest.mark.operators
@needs("kueue-suites")
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("package", packages("kueue-suites"))
def test_kueues_specs_pass_as_on_the_real_programs(package, tmp_path):
    source = folder() / "kueue-suites"
    crds = source / "config" / "components" / "crd"
    assets = kube_assets()
    assert assets is not None, "run make kube-assets"
    text = subprocess.run([assets / "kubectl", "kustomize", crds], capture_output=True, check=True)
    (crds / "_output").mkdir(exist_ok=True)
    (crds / "_output" / "crds-with-webhooks.yaml").write_bytes(text.stdout)

    compare("kueue-suites", package, tmp_path)
