"""Scenarios: a cluster's life in virtual time, with the real scheduler in it.

from bayplan.sim import run_scenario

async def scenario(client):
    await client.nodes(3)
    await client.pod("web", cpu="500m")
    await client.expect.bound("web")

result = run_scenario(scenario)
"""

from bayplan.sim.client import ScenarioClient
from bayplan.sim.errors import ExpectationFailed, ScenarioError, ScenarioSyntaxError
from bayplan.sim.extender import SimulatedExtender
from bayplan.sim.run import Result, run_scenario
from bayplan.sim.world import Settings

__all__ = [
    "ExpectationFailed",
    "Result",
    "ScenarioClient",
    "ScenarioError",
    "ScenarioSyntaxError",
    "Settings",
    "SimulatedExtender",
    "run_scenario",
]
