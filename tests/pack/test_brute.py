"""What the solver proves is what trying everything finds, and the filters agree.

`BAYPLAN_PACK_CASES=2000` (`make test-pack`) asks for more instances than a usual run.
"""

import os

from hypothesis import HealthCheck, given, settings

from bayplan.pack.assigning import moves_of
from bayplan.pack.search import Search
from tests.pack.brute import fewest
from tests.pack.instances import instances, read, refused

CASES = int(os.environ.get("BAYPLAN_PACK_CASES", "40"))
SETTINGS = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@SETTINGS
@given(instances())
def test_the_fewest_nodes_are_those_of_trying_everything(instance):
    engine, problem = read(instance)

    found = Search(problem, 60.0).run()

    expected = fewest(instance)
    if expected is None:
        assert found.bound == -1
        assert not found.placed
        return
    assert (expected, expected) == (found.bound, found.cost)
    moves = moves_of(problem, found.placed[0])
    assert sum(kind.count for kind in instance.kinds) == len(moves)
    assert {} == refused(engine, problem, moves)
