"""A toleration covers a taint when effect, key and value agree."""

import pytest

from bayplan.api import Taint, Toleration
from bayplan.api.taints import UNSCHEDULABLE, first_untolerated, tolerates


@pytest.mark.parametrize(
    ("toleration", "taint", "covered"),
    [
        (Toleration(operator="Exists"), Taint("a", "b", "NoSchedule"), True),
        (Toleration(key="a", value="b"), Taint("a", "b", "NoSchedule"), True),
        (Toleration(key="a", operator="Equal", value="c"), Taint("a", "b", "NoExecute"), False),
        (Toleration(key="a", operator="Exists"), Taint("a", "b", "NoExecute"), True),
        (Toleration(key="b", operator="Exists"), Taint("a", "b", "NoExecute"), False),
        (Toleration(value="b"), Taint("any", "b", "NoExecute"), True),
        (Toleration(operator="Exists", effect="NoExecute"), Taint("a", "", "NoSchedule"), False),
        (Toleration(key="a", operator="Gt", value="5"), Taint("a", "6", "NoSchedule"), False),
        (Toleration(key="a", operator="Odd"), Taint("a", "", "NoSchedule"), False),
        (Toleration(key=UNSCHEDULABLE.key, effect="NoSchedule"), UNSCHEDULABLE, True),
    ],
)
def test_tolerates(toleration, taint, covered):
    assert covered == tolerates(toleration, taint)


@pytest.mark.parametrize(
    ("operator", "asked", "value", "covered"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "-6", True),
        ("Lt", "05", "4", False),
        ("Gt", "5", "+6", False),
        ("Gt", "5", "99999999999999999999", False),
    ],
)
def test_comparisons_when_the_feature_is_on(operator, asked, value, covered):
    toleration = Toleration(key="a", operator=operator, value=asked)

    assert covered == tolerates(toleration, Taint("a", value, "NoSchedule"), comparisons=True)


def test_the_first_untolerated_taint_with_a_hard_effect_counts():
    taints = (
        Taint("p", "", "PreferNoSchedule"),
        Taint("a", "", "NoSchedule"),
        Taint("b", "", "NoExecute"),
    )

    assert taints[1] == first_untolerated(taints, ())
    assert taints[2] == first_untolerated(taints, (Toleration(key="a", operator="Exists"),))
    assert first_untolerated(taints, (Toleration(operator="Exists"),)) is None
