"""`why POD --node NODE`: why not there."""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.framework import Placement
from bayplan.framework.runtime.filtering import run_pre_enqueue
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.gangs import placement_of
from bayplan.inspect.trial import unbound
from bayplan.inspect.why.answer import Answer, Near, Score
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families import FAMILIES, missing_on
from bayplan.inspect.why.fixes import verify
from bayplan.inspect.why.moving import move_steps
from bayplan.inspect.why.placed import compared
from bayplan.inspect.why.pod import why_pod
from bayplan.plugins.gang_scheduling import NAME

NOT_ASKED = ("finished", "terminating", "otherScheduler")
"""States in which no node is looked for; the answer without one tells why."""


def why_on_node(cluster: Cluster, pod: Pod, node: str, *, every_node: bool = False) -> Answer:
    """Why a pod is not, or would not be, on one node."""
    cluster.node(node)
    whole = why_pod(cluster, pod, with_fixes=False, every_node=every_node)
    if pod.spec.node_name == node:
        return replace(whole, notes=(f"it is on {node}", *whole.notes))
    if whole.state in NOT_ASKED:
        return whole
    gate = run_pre_enqueue(cluster.engine.profiles[pod.spec.scheduler_name], unbound(pod))
    with cluster.trial() as trial:
        trial.delete(pod)
        free = unbound(pod)
        case = Case(cluster, free, trial.decide(free, preempt=False))
        row = case.table.row_of(node)
        assert row is not None
        missing, plugins = missing_on(case, row), case.failing(row)
        if case.rejection is not None:
            missing = (case.rejection.message,)
        place = placement_of(trial.engine, free)
        if place is not None and node not in place.node_names:
            missing, plugins = (_elsewhere(free, place), *missing), (NAME, *plugins)
        fits = not missing
        steps = [
            step
            for plugin in plugins
            if len(plugins) == 1 and plugin in FAMILIES
            for step in FAMILIES[plugin].steps(case, row)
        ]
        if plugins and all(p in FAMILIES and FAMILIES[p].evictable for p in plugins):
            steps += move_steps(case, [row])
        found = [verify(cluster, free, step) for step in steps]
        better, score = _better(cluster, case, node) if fits else ("", None)
    here = tuple(fix for fix in found if fix is not None and fix.node == node)
    near = () if fits else (Near(node, missing, plugins),)
    summary = better or f"{node} does not take it: {'; '.join(missing)}"
    if gate is not None:
        summary = f"{whole.summary}, so no node is looked at; without that, {summary}"
    scores = whole.scores
    if scores and score is not None and node not in {each.node for each in scores}:
        scores = (*scores, score)
    return replace(whole, summary=summary, nearest=near, fixes=here, asked_node=node, scores=scores)


def _elsewhere(pod: Pod, place: Placement) -> str:
    group = pod.spec.scheduling_group
    assert group is not None
    return f'its pod group "{group.pod_group_name}" runs in "{place.name}" and stays there'


def _better(cluster: Cluster, case: Case, node: str) -> tuple[str, Score | None]:
    """Why another node is preferred to one that fits, and that one's scores."""
    decision = case.decision
    if decision.node_name == node:
        return f"{node} is where it would go", None
    names, columns, totals, _ = cluster.engine.all_scores(decision)
    if node not in names or decision.node_name not in names:
        return f"{node} fits", None
    both = [
        Score(
            name,
            int(totals[names.index(name)]),
            {plugin: int(column[names.index(name)]) for plugin, column in columns.items()},
        )
        for name in (decision.node_name, node)
    ]
    gaps = ", ".join(compared(both[0], both[1])) or "the order of nodes alone"
    text = f"{node} fits with {both[1].total} points, but {decision.node_name} has {both[0].total}"
    return f"{text}: {gaps}", both[1]
