"""How every node was judged for a pod: rejected by what, or fit for how many points.

The funnel counts nodes by verdict; this tells them one by one, from the same decision and in the
same words. `-o json`, the HTTP face and the page take it from here. A scheduler that found enough
nodes looks at no more; those are told apart from nodes that it rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext

from bayplan.framework import Placement, Status
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.why.answer import FITS, NOT_LOOKED_AT, REJECTED, FunnelRow, Judged
from bayplan.inspect.why.case import Case
from bayplan.plugins.gang_scheduling import NAME as GROUPS

ENOUGH = "not looked at, as enough fit"
OTHER_PLACEMENT = "node(s) are of other placements, where its pod group does not fit either"
ELSEWHERE = "node(s) are of other placements than that of its pod group"
NARROWED = "PreFilterResult"
"""What the engine says of nodes that a PreFilter left out."""


def told(case: Case, status: Status) -> tuple[str, tuple[str, ...]]:
    """Plugin and reasons of what rejected a node, as answers tell them."""
    if not status.all_reasons:
        return GROUPS, (OTHER_PLACEMENT,)
    if status.plugin:
        return status.plugin, status.all_reasons
    error = case.decision.fit_error
    names = sorted(error.unschedulable_plugins) if error is not None else []
    return names[0] if len(names) == 1 else case.narrowing, status.all_reasons


def rejected(case: Case) -> tuple[Judged, ...]:
    """Every node for a pod that none takes."""
    found: dict[str, Judged] = {}
    for status, rows in case.groups:
        plugin, reasons = told(case, status)
        for row in rows.tolist():
            name = case.name(row)
            found[name] = Judged(name, REJECTED, plugin, reasons)
    return _in_order(case.cluster, found)


def alike(cluster: Cluster, plugin: str, reason: str) -> tuple[Judged, ...]:
    """Every node for a pod that is kept from all of them by one thing."""
    return tuple(Judged(name, REJECTED, plugin, (reason,)) for name in cluster.nodes)


def weighed(case: Case, place: Placement | None = None) -> tuple[Judged, ...]:
    """Every node for a pod that finds one: points by plugin where it fits, else what rejects it.

    The engine must stand as it stood for the decision; `place` is where the pod's group stays.
    """
    engine, decision = case.cluster.engine, case.decision
    found: dict[str, Judged] = {}
    inside = None if place is None else set(place.node_names)
    with nullcontext() if place is None else engine.within(place.node_names):
        statuses = engine.node_statuses(decision)
        names, columns, totals, _ = engine.all_scores(decision)
    for name, status in statuses.items():
        if status is None:
            continue
        if status.all_reasons:
            plugin = case.narrowing if status.plugin == NARROWED else status.plugin
            found[name] = Judged(name, REJECTED, plugin, status.all_reasons)
        elif inside is not None and name not in inside:
            found[name] = Judged(name, REJECTED, GROUPS, (ELSEWHERE,))
        else:
            found[name] = Judged(name, NOT_LOOKED_AT, "", (ENOUGH,))
    rows = zip(names, totals.tolist(), *(c.tolist() for c in columns.values()), strict=True)
    for name, total, *points in rows:
        scores = dict(zip(columns, points, strict=True))
        found[name] = Judged(name, FITS, total=total, scores=scores)
    return _in_order(case.cluster, found)


def counted(judged: Iterable[Judged]) -> tuple[FunnelRow, ...]:
    """The funnel of judged nodes: those that fit, then the others, the most first."""
    by = Counter((item.verdict, item.plugin, item.reasons) for item in judged)
    order = {FITS: 0, REJECTED: 1, NOT_LOOKED_AT: 2}
    rows = sorted(by.items(), key=lambda row: (order[row[0][0]], -row[1], row[0]))
    return tuple(
        FunnelRow(plugin, reasons or (FITS,), count) for (_, plugin, reasons), count in rows
    )


def _in_order(cluster: Cluster, found: dict[str, Judged]) -> tuple[Judged, ...]:
    return tuple(found[name] for name in cluster.nodes if name in found)
