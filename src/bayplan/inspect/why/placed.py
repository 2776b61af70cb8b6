"""Why a bound pod is where it is: scores by plugin against the runner-up, as of now.

The pod is taken off its node, decided again, and put back. What counted when it was bound may have
changed since; the answer says where it would go today.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from bayplan.api import Pod
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.gangs import placement_of
from bayplan.inspect.trial import unbound
from bayplan.inspect.why.answer import Judged, Score
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.judging import rejected, weighed

SHOWN = 5


class Today(NamedTuple):
    """What would become of a bound pod if it were decided now."""

    node: str
    """Where it would go; empty if nowhere."""
    scores: tuple[Score, ...] = ()
    """The best nodes, and the pod's own."""
    message: str = ""
    """Why it would go nowhere."""
    judged: tuple[Judged, ...] = ()


def decided_today(cluster: Cluster, pod: Pod, *, every_node: bool = False) -> Today:
    """Decide for a bound pod as if it were not there; on request with every node's verdict."""
    with cluster.trial() as trial:
        trial.delete(pod)
        free = unbound(pod)
        place = placement_of(trial.engine, free)
        with nullcontext() if place is None else trial.engine.within(place.node_names):
            decision = trial.decide(free, preempt=False)
            case = Case(cluster, free, decision)
            if not decision.placed:
                judged = rejected(case) if every_node else ()
                return Today("", message=decision.message, judged=judged)
            names, columns, totals, _ = trial.engine.all_scores(decision)
        judged = weighed(case, place) if every_node else ()
    best = list(np.argsort(-totals, kind="stable")[:SHOWN])
    chosen = [names.index(name) for name in (pod.spec.node_name, decision.node_name)
              if name in names]  # fmt: skip
    rows = sorted(dict.fromkeys([*chosen, *best]), key=lambda place: -int(totals[place]))
    scores = tuple(
        Score(
            names[place],
            int(totals[place]),
            {plugin: int(column[place]) for plugin, column in columns.items()},
        )
        for place in rows
    )
    return Today(decision.node_name, scores, judged=judged)


def compared(here: Score, other: Score) -> list[str]:
    """What makes the difference between two nodes, plugin by plugin."""
    gaps = [
        (here.plugins[plugin] - other.plugins.get(plugin, 0), plugin) for plugin in here.plugins
    ]
    gaps = [gap for gap in gaps if gap[0]]
    gaps.sort(key=lambda gap: -abs(gap[0]))
    return [f"{plugin} {gap:+d}" for gap, plugin in gaps]
