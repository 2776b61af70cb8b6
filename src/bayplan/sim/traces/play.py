"""Plays a trace on equal nodes and sums up how it went."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bayplan.errors import BayplanError
from bayplan.sim.client import ScenarioClient
from bayplan.sim.run import run_scenario
from bayplan.sim.traces.format import read_trace
from bayplan.sim.tracker import Tracker
from bayplan.sim.workload import Workload, run_workload
from bayplan.sim.world import Settings
from bayplan.words import plural

LIMIT = 366 * 86400.0


def play_trace(
    path: Path, nodes: int, shape: Mapping[str, object], settings: Settings
) -> list[str]:
    """Return lines that tell how a trace went; raises BayplanError if it cannot be played."""
    arrivals = tuple(pod.arrival() for pod in read_trace(path))
    work = Workload(name="pod", trace=arrivals)

    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(nodes, "node-", zones=(), first=0, **shape)
        await run_workload(client, work)

    result = run_scenario(scenario, settings=settings, limit=LIMIT, name=path.stem)
    if not result.ok:
        raise BayplanError(result.problems())
    return [*_lines(result.tracker), f"hash {result.hash}"]


def _lines(tracker: Tracker) -> list[str]:
    lives = tracker.every_pod()
    waits = np.array([life.bound - life.created for life in lives if life.bound is not None])
    lines = [f"{plural(len(lives), 'pod')}, {len(waits)} bound"]
    if len(waits):
        middle, late = np.percentile(waits, [50, 99])
        lines.append(
            f"waited {waits.mean():.3f} s on average, {middle:.3f} s median, "
            f"{late:.3f} s 99th percentile"
        )
    evicted = sum(bool(life.disruption) for life in lives)
    lines.append(f"{evicted} evicted")
    return lines
