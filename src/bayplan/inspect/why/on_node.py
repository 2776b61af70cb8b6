"""`why POD --node NODE`: why not there."""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.framework.runtime.filtering import run_pre_enqueue
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.trial import unbound
from bayplan.inspect.why.answer import Answer, Near
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families import FAMILIES, missing_on
from bayplan.inspect.why.fixes import verify
from bayplan.inspect.why.moving import move_steps
from bayplan.inspect.why.placed import compared
from bayplan.inspect.why.pod import why_pod

NOT_ASKED = ("finished", "terminating", "otherScheduler")
"""States in which no node is looked for; the answer without one tells why."""


def why_on_node(cluster: Cluster, pod: Pod, node: str) -> Answer:
    """Why a pod is not, or would not be, on one node."""
    cluster.node(node)
    whole = why_pod(cluster, pod, with_fixes=False)
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
        better = _better(cluster, case, node) if fits else ""
    here = tuple(fix for fix in found if fix is not None and fix.node == node)
    near = () if fits else (Near(node, missing, plugins),)
    summary = better or f"{node} does not take it: {'; '.join(missing)}"
    if gate is not None:
        summary = f"{whole.summary}, so no node is looked at; without that, {summary}"
    return replace(whole, summary=summary, nearest=near, fixes=here, asked_node=node)


def _better(cluster: Cluster, case: Case, node: str) -> str:
    """Why another node is preferred to one that fits."""
    from bayplan.inspect.why.answer import Score

    decision = case.decision
    if decision.node_name == node:
        return f"{node} is where it would go"
    names, columns, totals, _ = cluster.engine.all_scores(decision)
    if node not in names or decision.node_name not in names:
        return f"{node} fits"
    both = [
        Score(
            name,
            int(totals[names.index(name)]),
            {plugin: int(column[names.index(name)]) for plugin, column in columns.items()},
        )
        for name in (decision.node_name, node)
    ]
    gaps = ", ".join(compared(both[0], both[1])) or "the order of nodes alone"
    return (
        f"{node} fits with {both[1].total} points, but {decision.node_name} has {both[0].total}: "
        f"{gaps}"
    )
