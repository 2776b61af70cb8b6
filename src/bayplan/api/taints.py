"""Taints of nodes and the tolerations of pods.

Only NoSchedule and NoExecute keep a pod away; PreferNoSchedule costs score. The comparison
operators Gt and Lt belong to a feature that is off in v1.36: they match only when asked for.
"""

import re
from collections.abc import Iterable

from bayplan.api.labels import parse_int64
from bayplan.api.node import Taint
from bayplan.api.pod import Toleration

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)

_CANONICAL_INT = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def tolerates(toleration: Toleration, taint: Taint, *, comparisons: bool = False) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    if operator == "Exists":
        return True
    return comparisons and operator in ("Gt", "Lt") and _compares(operator, toleration, taint)


def _compares(operator: str, toleration: Toleration, taint: Taint) -> bool:
    texts = (taint.value, toleration.value)
    if not all(_CANONICAL_INT.fullmatch(text) for text in texts):
        return False
    left, right = (parse_int64(text) for text in texts)
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def tolerated(
    tolerations: Iterable[Toleration], taint: Taint, *, comparisons: bool = False
) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(tolerates(item, taint, comparisons=comparisons) for item in tolerations)


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: tuple[Toleration, ...],
    effects: frozenset[str] = HARD_EFFECTS,
    *,
    comparisons: bool = False,
) -> Taint | None:
    """Return the first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerated(tolerations, taint, comparisons=comparisons):
            return taint
    return None
