"""Random decision cases: clusters and a pod to place, drawn from a seed.

Bodies are plain data as an API server would store them, so that the real scheduler and the engine
can be asked the same question. See `families` for what there is.
"""

from bayplan.testing.cases.families import FAMILIES, case
from bayplan.testing.cases.runs import run_case

__all__ = ["FAMILIES", "case", "run_case"]
