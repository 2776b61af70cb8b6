"""NodeResourcesFit: what is asked for, what is left, and by how much a request is too large."""

from __future__ import annotations

import numpy as np

from bayplan.api import Pod, quantity
from bayplan.api.pod import Container
from bayplan.cluster.arrays import FloatArray, IntArray
from bayplan.cluster.resources import resource_id
from bayplan.framework import Status
from bayplan.inspect.amounts import apart, exact, show
from bayplan.inspect.step import Step, set_to
from bayplan.inspect.why.case import Case

INSUFFICIENT = "Insufficient "
TOO_MANY = "Too many pods"


def short_of(status: Status) -> list[str]:
    """The resources that a status names."""
    return [r.removeprefix(INSUFFICIENT) for r in status.all_reasons if r.startswith(INSUFFICIENT)]


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    found = [_resource_fact(case, name, rows) for name in short_of(status)]
    if TOO_MANY in status.all_reasons:
        counts, limits = case.table.pod_count[rows], case.table.allowed_pods[rows]
        left = (limits - counts).argmax()
        found.append(
            f"pods: every one of these nodes is at its limit, "
            f"such as {case.name(int(rows[left]))} with {counts[left]} of {limits[left]}"
        )
    return found


def _resource_fact(case: Case, name: str, rows: IntArray) -> str:
    number = resource_id(name)
    asks = _asked(case, name)
    offered = case.table.allocatable(number)[rows]
    if not offered.any():
        others = int((case.table.allocatable(number) > 0).sum())
        where = f"; {others} other nodes do" if others else ", nor does any other"
        return f"{name}: asks {show(name, asks)}, none of these nodes offers it{where}"
    free = case.free(number, rows)
    best, largest = int(free.argmax()), int(offered.argmax())
    asked, most, size = apart(name, asks, int(free[best]), int(offered[largest]))
    text = f"{name}: asks {asked}, most free {most} on {case.name(int(rows[best]))}"
    if offered[largest] < asks:
        biggest = int(case.table.allocatable(number).max())
        if biggest < asks:
            return f"{text}; no node is that large, the largest has {show(name, biggest)}"
        return f"{text}; none of these nodes is that large (largest {size})"
    return f"{text}, largest node {size}"


def lacks(case: Case, row: int) -> str:
    status = case.status("NodeResourcesFit", row)
    if status is None:
        return ""
    node, parts = case.node(row), []
    for name in short_of(status):
        asks, free, has = _asked(case, name), node.free(name), node.allocatable_of(name)
        if not has:
            parts.append(f"it offers no {name} (asks {show(name, asks)})")
            continue
        missing, asked, left, size = apart(name, asks - free, asks, free, has)
        parts.append(f"{missing} {name} too little (asks {asked}, free {left} of {size})")
    if TOO_MANY in status.all_reasons:
        parts.append(f"no room for one more pod ({len(node.pods)} of {node.allowed_pods})")
    return ", ".join(parts)


def shortage(case: Case, rows: IntArray) -> FloatArray:
    """How far rows are from fitting, as a share of what is asked; for ordering."""
    total = np.zeros(len(rows))
    verdict = case.fails.get("NodeResourcesFit")
    if verdict is None:
        return total
    for name, asks in case.info.traits.resources.fit.items():
        if asks:
            total += np.maximum(asks - case.free(resource_id(name), rows), 0) / asks
    return np.where(verdict.mask[rows], 0.0, total)


def steps(case: Case, row: int) -> list[Step]:
    """Lower each request that is too large to exactly what this node has left."""
    status = case.status("NodeResourcesFit", row)
    if status is None or TOO_MANY in status.all_reasons or not short_of(status):
        return []
    node, ops, texts, drop = case.node(row), [], [], 0.0
    for name in short_of(status):
        asks, free = _asked(case, name), node.free(name)
        place = _largest(case.pod, name, asks - free)
        if free <= 0 or place is None:
            return []
        section, number, container, amount = place
        target = amount - (asks - free)
        whole = name not in ("cpu", "memory", "ephemeral-storage")
        both = whole and name in container.resources.limits
        for part in ("requests", "limits") if both else ("requests",):
            path = ("spec", section, number, "resources", part, name)
            ops.append(set_to(exact(name, target), *path))
        texts.append(
            f'lower the {name} request of container "{container.name}" '
            f"from {exact(name, amount)} to {exact(name, target)}"
        )
        drop = max(drop, (asks - free) / asks)
    kind = f"lower {' '.join(short_of(status))}"
    return [Step(" and ".join(texts), 20 + round(60 * drop), kind, tuple(ops))]


def _asked(case: Case, name: str) -> int:
    return case.info.traits.resources.fit.get(name, 0)


def _largest(pod: Pod, name: str, by: int) -> tuple[str, int, Container, int] | None:
    """The container whose request is largest, if it can give up that much."""
    if pod.spec.resources is not None and name in pod.spec.resources.requests:
        return None
    read = quantity.milli_value if name == "cpu" else quantity.value
    found = [
        ("containers", number, container, read(container.resources.requests[name]))
        for number, container in enumerate(pod.spec.containers)
        if name in container.resources.requests
    ]
    if not found or pod.spec.init_containers:
        found += [
            ("initContainers", number, container, read(container.resources.requests[name]))
            for number, container in enumerate(pod.spec.init_containers)
            if name in container.resources.requests
        ]
    best = max(found, key=lambda item: item[3], default=None)
    return best if best is not None and best[3] > by else None
