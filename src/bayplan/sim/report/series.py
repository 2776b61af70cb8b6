"""Step functions over time, from the lives of pods: exact, nothing is sampled unless too long."""

from __future__ import annotations

from bayplan.sim.tracker import PodLife

MOST_POINTS = 600

Point = tuple[float, int, int, int]
"""Time, milli-cpu, bytes and pods that are in use from then on."""


def used_by_node(lives: list[PodLife], end: float) -> dict[str, list[Point]]:
    """Return what pods have requested on each node, as steps."""
    changes: dict[str, list[tuple[float, int, int, int]]] = {}
    for life in lives:
        if not life.node or life.bound is None:
            continue
        moves = changes.setdefault(life.node, [])
        moves.append((life.bound, life.cpu, life.memory, 1))
        if life.end is not None:
            moves.append((life.end, -life.cpu, -life.memory, -1))
    return {node: _thinned(_steps(moves), end) for node, moves in sorted(changes.items())}


def _steps(moves: list[tuple[float, int, int, int]]) -> list[Point]:
    points: list[Point] = []
    cpu = memory = pods = 0
    for time, more_cpu, more_memory, more_pods in sorted(moves):
        cpu, memory, pods = cpu + more_cpu, memory + more_memory, pods + more_pods
        if points and points[-1][0] == time:
            points.pop()
        points.append((time, cpu, memory, pods))
    return points


def _thinned(points: list[Point], end: float) -> list[Point]:
    """Keep the last point of each of equal slices of time, when there are too many."""
    if len(points) <= MOST_POINTS:
        return points
    slices: dict[int, Point] = {}
    for point in points:
        slices[int(point[0] / end * MOST_POINTS)] = point
    return list(slices.values())


def queue_series(queues: list[tuple[float, dict[str, int]]], end: float) -> list[list[float]]:
    """Return time, active, backoff, unschedulable, gated."""
    names = ("active", "backoff", "unschedulable", "gated")
    rows = [[time, *(float(sizes.get(name, 0)) for name in names)] for time, sizes in queues]
    if len(rows) <= MOST_POINTS:
        return rows
    slices: dict[int, list[float]] = {}
    for row in rows:
        here = int(row[0] / end * MOST_POINTS)
        old = slices.get(here)
        slices[here] = row if old is None else [row[0], *map(max, old[1:], row[1:])]
    return list(slices.values())
