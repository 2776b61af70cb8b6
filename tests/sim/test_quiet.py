"""A scenario run from a program prints nothing unless it is told to."""

import subprocess
import sys

PROGRAM = """
from bayplan.sim import run_scenario

async def scenario(client):
    await client.nodes(1)
    await client.pods(2, "web")
    await client.sleep(5)

assert run_scenario(scenario, seed=1).ok
"""


def test_a_program_that_says_nothing_of_logs_gets_no_details():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
