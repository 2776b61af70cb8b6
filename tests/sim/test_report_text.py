"""The last lines of a run are for people."""

from bayplan.sim import run_scenario
from bayplan.sim.report.text import summary


def test_seconds_have_three_places_at_most():
    async def scenario(client):
        await client.sleep(1.23456789)

    (line,) = [each for each in summary(run_scenario(scenario)) if "simulated" in each]

    assert line.endswith("; 1.235 s simulated")
