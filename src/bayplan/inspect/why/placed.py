"""Why a bound pod is where it is: scores by plugin against the runner-up, as of now.

The pod is taken off its node, decided again, and put back. What counted when it was bound may have
changed since; the answer says where it would go today.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from bayplan.api import Pod
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.gangs import placement_of
from bayplan.inspect.trial import unbound
from bayplan.inspect.why.answer import Score

SHOWN = 5


def scores_of(cluster: Cluster, pod: Pod) -> tuple[str, tuple[Score, ...], str]:
    """Where the pod would go today, the best nodes with the pod's own, and why not if nowhere."""
    with cluster.trial() as trial:
        trial.delete(pod)
        free = unbound(pod)
        place = placement_of(trial.engine, free)
        with nullcontext() if place is None else trial.engine.within(place.node_names):
            decision = trial.decide(free, preempt=False)
            if not decision.placed:
                return "", (), decision.message
            names, columns, totals, _ = trial.engine.all_scores(decision)
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
    return decision.node_name, scores, ""


def compared(here: Score, other: Score) -> list[str]:
    """What makes the difference between two nodes, plugin by plugin."""
    gaps = [
        (here.plugins[plugin] - other.plugins.get(plugin, 0), plugin) for plugin in here.plugins
    ]
    gaps = [gap for gap in gaps if gap[0]]
    gaps.sort(key=lambda gap: -abs(gap[0]))
    return [f"{plugin} {gap:+d}" for gap, plugin in gaps]
