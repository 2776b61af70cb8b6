"""Makes a differing case small: takes parts away as long as it still differs.

Only parts that a valid case can lack are taken: whole objects, items of lists, optional fields.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Body = dict[str, Any]
Path = tuple[str | int, ...]

BUDGET = 600
"""How many smaller cases are tried."""

_OPTIONAL_FIELDS = """
    adminAccess affinity allowedTopologies alternatives annotations capacity conditions config
    constraints consumesCounters containerStatuses cpu declaredFeatures deletionTimestamp
    ephemeral-storage filter gates hostIP ignoredResourceGroups ignoredResources images
    initContainers labelSelector labels limits matchExpressions matchFields matchLabelKeys
    matchLabels maximumVolumeSize memory minDomains namespaceSelector namespaces nodeAffinity
    nodeAffinityPolicy nodeSelector nodeTaintsPolicy nominatedNodeName overhead
    ownerReferences pluginConfig plugins podAffinity podAntiAffinity ports postFilter
    preemptionPolicy preferredDuringSchedulingIgnoredDuringExecution priority requests
    requiredDuringSchedulingIgnoredDuringExecution reservedFor resourceClaims resources score
    selectors startTime taints tolerations topologySpreadConstraints unschedulable volumes
"""
_OPTIONAL = frozenset(_OPTIONAL_FIELDS.split())
_KEPT_LISTS = frozenset(
    (
        "containers",
        "nodeSelectorTerms",
        "values",
        "shape",
        "accessModes",
        "drivers",
        "results",
        "names",
    )
)
"""Lists that must keep an item."""


def shrink(case: Body, differs: Callable[[Body], bool], budget: int = BUDGET) -> Body:
    """Return a case that still differs and from which nothing more can be taken."""
    tried = 0
    changed = True
    while changed and tried < budget:
        changed = False
        for path in sorted(_removable(case), key=_weight):
            if tried >= budget:
                break
            smaller = _without(case, path)
            if smaller is None:
                continue
            tried += 1
            if differs(smaller):
                case, changed = smaller, True
    return case


def _weight(path: Path) -> tuple[int, bool, Path]:
    """Large parts first; later items before earlier ones so that indices stay true."""
    return (len(path), path[:1] != ("objects",), tuple(_reverse(part) for part in path))


def _reverse(part: str | int) -> str:
    return f"{10**6 - part:07}" if isinstance(part, int) else part


def _removable(case: Body) -> Iterator[Path]:
    for top in ("objects", "pod", "config", "gates"):
        if top in case:
            yield from _walk(case[top], (top,))
    if "config" in case:
        yield ("config",)


def _walk(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _OPTIONAL or path == ("objects",):
                yield (*path, key)
            yield from _walk(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if len(value) > 1 or path[-1] not in _KEPT_LISTS:
                yield (*path, index)
            yield from _walk(item, (*path, index))


def _without(case: Body, path: Path) -> Body | None:
    """A copy without the part; None if an earlier removal took it away already."""
    smaller = copy.deepcopy(case)
    holder: Any = smaller
    try:
        for part in path[:-1]:
            holder = holder[part]
        if isinstance(holder, list) and len(holder) == 1 and path[-2] in _KEPT_LISTS:
            return None
        del holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return smaller
