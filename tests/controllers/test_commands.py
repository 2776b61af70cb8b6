"""Commands that a simulated container is understood to run."""

from __future__ import annotations

import pytest

from bayplan.client.resources import CORE_EVENTS, PODS
from bayplan.controllers.commands import FOREVER, outcome
from tests.controllers.cluster import cluster, pod_spec, virtual


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sleep", "30"], (30.0, 0)),
        (["sh", "-c", "sleep 2m; exit 3"], (120.0, 3)),
        (["/bin/sh", "-c", "exit 1"], (0.0, 1)),
        (["sh", "-c", "false && sleep 10"], (0.0, 1)),
        (["sh", "-c", "echo hello; sleep infinity"], (FOREVER, 0)),
        (["sh", "-c", "echo $HOME"], None),
        (["nginx"], None),
        (["sh", "-c", "if true; then exit 1; fi"], None),
        ([], None),
    ],
)
def test_what_a_command_does(words: list[str], expected: tuple[float, int] | None) -> None:
    assert expected == outcome({"command": words})


@virtual
async def test_a_pod_ends_as_its_command_says_and_events_tell_of_it() -> None:
    async with cluster(options={"events": True}) as made:
        spec = pod_spec(restartPolicy="Never")
        spec["containers"][0]["command"] = ["sh", "-c", "sleep 5; exit 7"]
        await made.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        await made.settle(3)
        assert "Running" == (await made.get(PODS, "p"))["status"]["phase"]
        await made.settle(10)

        status = (await made.get(PODS, "p"))["status"]
        assert "Failed" == status["phase"]
        assert 7 == status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        reasons = {event["reason"] for event in await made.list(CORE_EVENTS)}
        assert {"Pulled", "Created", "Started"} <= reasons
