"""Starts a control plane on this machine, runs one scenario on it in real time, and ends both."""

from __future__ import annotations

import asyncio
import sys

from bayplan.apiserver.serving import Settings
from bayplan.config import DEFAULT_GATES, default_config
from bayplan.observe import logs
from bayplan.scheduler.cluster import local_cluster
from bayplan.scheduler.extensions import load_registry
from bayplan.sim.against import play_on
from bayplan.sim.run import Result, Scenario

LIMIT = 3600.0


def main(scenario: Scenario) -> None:
    """Run a scenario as a program; exits 1 when it fails."""
    logs.configure(0)
    result = asyncio.run(start(scenario))
    for failure in result.failures:
        _say(f"scenario failed: {failure}")
    sys.exit(0 if result.ok else 1)


async def start(scenario: Scenario) -> Result:
    """Run a scenario on a control plane of its own, which ends with it."""
    async with local_cluster(
        Settings(store="memory"),
        config=default_config(),
        gates=DEFAULT_GATES,
        registry=load_registry([]),
    ) as cluster:
        _say(f"control plane is ready at {cluster.running.url}")
        return await play_on(cluster.client, scenario, limit=LIMIT, echo=_say)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
