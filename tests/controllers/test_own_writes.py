"""A simulated kubelet does not look again at what it wrote itself, and at everything else."""

import pytest
from msgspec.structs import replace

from bayplan.controllers.kubelet.behaviour import NOTHING
from bayplan.controllers.kubelet.pod import PodRun
from bayplan.controllers.objects import Meta, Object

SAID = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
SHOWN = {**SAID, "conditions": [*SAID["conditions"], {"type": "PodScheduled", "status": "True"}]}
SPEC = {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}
META = Meta("p", "default", "u", "1", 1)


def run_of(spec=SPEC):
    return PodRun(Object(META, spec), NOTHING, 0.1, lambda *words: None, 0.0)


def test_what_it_said_itself_is_no_news():
    run = run_of()
    run.saying = SAID
    shown = Object(replace(META, resource_version="2"), dict(SPEC), SHOWN)

    assert run.hears_itself(shown)
    assert run.pod is shown


@pytest.mark.parametrize(
    ("meta", "spec", "status"),
    [
        pytest.param({"deletion_timestamp": "2026-01-01T00:00:00Z"}, SPEC, SHOWN, id="deleted"),
        pytest.param({"generation": 2}, SPEC, SHOWN, id="generation"),
        pytest.param({"annotations": {"bayplan.dev/ready": "false"}}, SPEC, SHOWN, id="told"),
        pytest.param({"labels": {"a": "b"}}, SPEC, SHOWN, id="labels"),
        pytest.param({"finalizers": ["x"]}, SPEC, SHOWN, id="finalizers"),
        pytest.param({}, {**SPEC, "priority": 1}, SHOWN, id="spec"),
        pytest.param({}, SPEC, {**SHOWN, "phase": "Failed"}, id="phase of another"),
        pytest.param({}, SPEC, {"phase": "Running", "conditions": []}, id="conditions of another"),
    ],
)
def test_everything_else_is(meta, spec, status):
    run = run_of()
    run.saying = SAID

    assert not run.hears_itself(Object(replace(META, resource_version="2", **meta), spec, status))


def test_readiness_gates_are_looked_at():
    spec = {**SPEC, "readinessGates": [{"conditionType": "x"}]}
    run = run_of(spec)
    run.saying = SAID

    assert not run.hears_itself(Object(META, spec, SHOWN))


def test_nothing_was_said():
    assert not run_of().hears_itself(Object(META, SPEC, {}))
