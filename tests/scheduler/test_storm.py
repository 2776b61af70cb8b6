"""Whatever the API server, the network and the clocks do: nothing is lost, nothing bound twice.

`BAYPLAN_STORM_SEEDS=1000` runs more seeds, `BAYPLAN_STORM_SEEDS=17:18` one; a failing seed prints
the command that replays it.
"""

import os

import pytest

from bayplan.clock import run_virtual
from tests.scheduler.storm import Storm

SPAN = os.environ.get("BAYPLAN_STORM_SEEDS", "12")
FIRST, LAST = (int(part) for part in (SPAN if ":" in SPAN else f"0:{SPAN}").split(":"))


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_storm(seed):
    try:
        run_virtual(Storm(seed).run())
    except BaseException as failure:
        failure.add_note(
            f"replay: BAYPLAN_STORM_SEEDS={seed}:{seed + 1} "
            "python -m pytest tests/scheduler/test_storm.py"
        )
        raise
