"""What a seed makes happen, and when."""

import pytest

from bayplan.dst.plan import FAULTS, healed_at, plan


@pytest.mark.parametrize("seed", [14648, 46213, 53779])
def test_no_fault_comes_after_the_healing(seed):
    """Not one whose moment, rounded, is that of the healing."""
    assert not [step for step in plan(seed) if step.what in FAULTS and step.at >= healed_at(seed)]
