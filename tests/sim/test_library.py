"""Every scenario that comes with Bayplan passes, and the whole set is quick."""

import pytest

from bayplan.sim.library import names, path_of, paths
from bayplan.sim.script import load_script


def test_there_are_enough_and_each_explains_itself():
    found = [load_script(path) for path in paths()]

    assert len(found) >= 15
    assert names() == [script.name for script in found]
    assert all(len(script.description) > 60 for script in found)


@pytest.mark.parametrize("name", names())
def test_scenario(name):
    path = path_of(name)
    assert path is not None

    result = load_script(path).run()

    assert result.outcomes
    assert result.ok, result.problems()
