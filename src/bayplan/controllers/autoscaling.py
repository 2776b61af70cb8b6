"""How many replicas an autoscaler wants: upstream's arithmetic, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bayplan.controllers.objects import Json

TOLERANCE = 0.1
UP_DEFAULT: Json = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DOWN_DEFAULT: Json = {
    "stabilizationWindowSeconds": 300,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def replicas_for(
    current: int,
    usage: dict[str, int],
    wanted: dict[str, int],
    unready: Iterable[str],
    share: float,
) -> tuple[int, float]:
    """Return the replicas that bring usage to `share` of what is wanted, and the ratio to it.

    `usage` and `wanted` are by pod, `wanted` of all pods: those without usage count as using
    all they want when pods are to go, and nothing when pods are to come.
    """
    ready = {name: value for name, value in usage.items() if name not in set(unready)}
    if not ready:
        return current, 0.0
    ratio = _ratio(ready, wanted, share)
    missing = [name for name in wanted if name not in usage]
    waiting = [name for name in unready if name in wanted]
    if not missing and not (waiting and ratio > 1.0):
        if abs(1.0 - ratio) <= TOLERANCE:
            return current, ratio
        return math.ceil(round(ratio * len(ready), 9)), ratio
    filled = dict(ready)
    for name in missing:
        filled[name] = round(wanted[name] * max(share, 1.0)) if ratio < 1.0 else 0
    if ratio > 1.0:
        filled |= dict.fromkeys(waiting, 0)
    fresh = _ratio(filled, wanted, share)
    if abs(1.0 - fresh) <= TOLERANCE or (ratio < 1.0) != (fresh < 1.0):
        return current, ratio
    count = math.ceil(round(fresh * len(filled), 9))
    if (fresh < 1.0 and count > current) or (fresh > 1.0 and count < current):
        return current, ratio
    return count, ratio


def _ratio(usage: dict[str, int], wanted: dict[str, int], share: float) -> float:
    total = sum(wanted.get(name, 0) for name in usage) * share
    return sum(usage.values()) / total if total else 0.0


def within_policy(
    current: int, desired: int, rules: Json, changes: list[tuple[float, int]], now: float
) -> int:
    """Return how far a change may go; `changes` are earlier ones: moment and pods."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits: list[int] = []
    up = desired > current
    for policy in rules.get("policies") or []:
        since = now - float(policy.get("periodSeconds") or 15)
        done = sum(n for at, n in changes if at > since and (n > 0) == up)
        start = current - done
        value = int(policy.get("value") or 0)
        if policy.get("type") == "Percent":
            part = start * (1 + value / 100) if up else start * (1 - value / 100)
            limits.append(math.ceil(part))
        else:
            limits.append(start + value if up else start - value)
    if not limits:
        return desired
    far = rules.get("selectPolicy", "Max") == "Max"
    if up:
        return min(desired, max(max(limits) if far else min(limits), current))
    return max(desired, min(min(limits) if far else max(limits), current))
