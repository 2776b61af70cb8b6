"""A recorded cluster replays."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from bayplan.client import ApiError, ClientError, Resource, TransportError
from bayplan.clock import run_virtual
from bayplan.sim import ScenarioSyntaxError, Settings
from bayplan.sim.client import ScenarioClient
from bayplan.sim.load import load_scenario
from bayplan.sim.recording import record
from bayplan.sim.world import running


async def _record(out: io.BytesIO) -> dict[str, str]:
    """Record a simulated cluster, in virtual time; return where its pods were."""
    async with running(Settings()) as world:
        client = ScenarioClient(world.client, world.tracker, world.elapsed, world)
        await client.node("old", cpu="2")
        await client.pod("there", cpu="1")
        await client.expect.phase("there", "Running")
        stopped = asyncio.Event()
        recording = asyncio.create_task(record(world.new_client(), out, None, stopped))
        await client.sleep(10)
        await client.pod("second", cpu="1")
        await client.pod("third", cpu="1", labels={"v": "1"})
        await client.sleep(20)
        await client.node("new", cpu="2")
        await client.patch("Pod", "third", {"metadata": {"labels": {"v": "2"}}})
        await client.expect.bound("third", to="new")
        await client.pod("short", cpu="100m", lifetime=5)
        await client.sleep(30)
        await client.delete("Pod", "second")
        await client.cordon("new")
        await client.sleep(10)
        stopped.set()
        await recording
        return {life.key: life.node for life in world.tracker.every_pod()}


def test_a_recording_replays_to_the_same_placements(tmp_path: Path):
    out = io.BytesIO()
    placements = run_virtual(_record(out))
    lines = out.getvalue().splitlines()
    first = lines[0]
    begin = json.loads(first)["time"][:17]
    path = tmp_path / "day.jsonl"
    # A recording has wall times; here all happened at once, so the pauses are put in by hand.
    spread = []
    for i, line in enumerate(lines):
        item = json.loads(line)
        item["time"] = f"{begin}{i % 60:02d}Z" if i < 60 else item["time"]
        spread.append(json.dumps(item))
    path.write_text("\n".join(spread) + "\n")

    result = load_scenario(path).run()

    assert result.ok, result.problems()
    assert placements == result.placements
    assert result.tracker.nodes["new"].unschedulable
    assert "default/second" not in result.tracker.pods
    assert {"v": "2"} == result.tracker.pods["default/third"].labels
    assert any("pods are on the node of the recording" in m.text for m in result.timeline)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", ":1: "),
        (
            '{"time": "2026-01-01T00:00:00Z", "event": "Burn", "resource": {}}',
            'event: "Burn" is not',
        ),
        ('{"time": "today", "event": "Add", "resource": {}}', ":1: Invalid isoformat"),
        ('{"time": "2026-01-01T00:00:00Z", "event": "Add", "resource": {}}', "not an API object"),
        ("", "the recording is empty"),
    ],
)
def test_a_wrong_recording_names_its_line(tmp_path, line, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n")

    with pytest.raises(ScenarioSyntaxError) as caught:
        load_scenario(path)

    assert message in str(caught.value)


class Closed:
    """A client whose cluster lists nothing."""

    def __init__(self, refusal: ClientError) -> None:
        self._refusal = refusal

    async def list(self, resource: Resource) -> bytes:
        raise self._refusal


@pytest.mark.parametrize(
    "refusal",
    [
        ApiError(403, "Forbidden", "nodes is forbidden"),
        TransportError("connection refused"),
        ClientError("the authority is no certificate"),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
def test_a_cluster_that_cannot_be_read_is_no_recording_of_nothing(refusal: ClientError):
    async def recording() -> None:
        stopped = asyncio.Event()
        stopped.set()
        await record(Closed(refusal), io.BytesIO(), None, stopped)  # type: ignore[arg-type]

    with pytest.raises(type(refusal), match=str(refusal)):
        run_virtual(recording())
