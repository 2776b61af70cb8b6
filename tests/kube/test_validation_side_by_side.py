"""The real kube-apiserver and ours get the same objects, right and wrong, and must agree."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bayplan.conformance.fuzz import minor
from bayplan.testing.servers import kube_version, start_embedded, start_kube
from tests.conformance.api.replay import Runner, differences
from tests.conformance.api.validation_suite import steps
from tests.kube.mutations import mutated

pytestmark = pytest.mark.kube
ROUNDS = 1500
SETUP = 3  # the first steps create the namespaces
# What `is_listed` leaves out, an empty map, as docs/reference/api-differences.md lists it.
CONTAINERS = [{"name": "c", "image": "i"}]
LEFT_OUT = {
    "overhead": ("namespaces/default/pods", {"spec": {"overhead": {}, "containers": CONTAINERS}}),
    "allocatable": ("nodes", {"status": {"capacity": {"cpu": "-1"}, "allocatable": {}}}),
}


@pytest.fixture(scope="module")
def runners(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    version = f"--emulated-version={minor(kube_version())}"
    with start_kube() as kube, start_embedded(folder, "--store=memory", version) as ours:
        yield (
            Runner(kube.server, kube.token, True),
            Runner(ours.server, ours.token, True),
        )


def compared(runners: tuple[Runner, Runner], step: dict[str, Any]) -> list[str]:
    real, ours = (runner.run(step) for runner in runners)
    return list(differences(real, ours))


def is_listed(body: Any) -> bool:
    """Whether it holds what docs/reference/api-differences.md says is answered differently."""
    if isinstance(body, list):
        return any(map(is_listed, body))
    if not isinstance(body, dict):
        return False
    empty = any(body.get(name) == {} for name in LEFT_OUT)
    return empty or any(map(is_listed, body.values()))


def test_both_servers_answer_the_whole_suite_alike(runners):
    assert {} == {step["id"]: lines for step in steps() if (lines := compared(runners, step))}


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_what_is_left_out_is_still_answered_differently(runners, name):
    place, fields = LEFT_OUT[name]
    body = {"metadata": {"name": "left-out"}, **fields}
    step = {"id": name, "method": "POST", "path": f"/api/v1/{place}?dryRun=All", "body": body}

    assert is_listed(body)
    assert compared(runners, {**step, "compare": {"message": "all"}})


def test_both_servers_agree_on_objects_made_wrong_at_random(runners):
    rng = random.Random(20261115)
    bodies = [step for step in steps()[SETUP:] if step["method"] == "POST"]
    found: dict[str, Any] = {}
    for i in range(ROUNDS):
        step = rng.choice(bodies)
        body = mutated(step["body"], rng)
        if is_listed(body):
            continue
        changed = {"id": f"{step['id']}#{i}", "path": f"{step['path']}?dryRun=All", "body": body}
        # Names repeat, and only the real server warns when it answers 409.
        compare = {**step.get("compare", {}), "warnings": False}
        lines = compared(runners, {**step, **changed, "compare": compare})
        if lines:
            found[f"{step['id']}#{i}"] = (body, lines)

    assert {} == found
