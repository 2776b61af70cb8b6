"""`why` for one pod: what the engine decides, in facts, compared with what the cluster says."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.framework import Code, Status
from bayplan.framework.runtime.filtering import run_pre_enqueue
from bayplan.inspect.admission import Admission
from bayplan.inspect.amounts import listed
from bayplan.inspect.cluster import Cluster, seconds
from bayplan.inspect.gangs import group_of, placement_of
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.why.answer import FITS, Answer, Fix, FunnelRow, Judged, Near
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families import facts_of
from bayplan.inspect.why.fixes import fixes, other_schedulers
from bayplan.inspect.why.gangs import (
    Groups,
    Tried,
    group_facts,
    group_fixes,
    incomplete_fixes,
    member,
)
from bayplan.inspect.why.judging import ENOUGH, alike, counted, rejected, told, weighed
from bayplan.inspect.why.making import as_refused
from bayplan.inspect.why.nearest import nearest
from bayplan.inspect.why.observed import observe
from bayplan.inspect.why.placed import compared, decided_today
from bayplan.inspect.why.preempting import preemption_facts
from bayplan.plugins.gang_scheduling import NAME
from bayplan.words import plural

GATED = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server writes into the condition of a gated pod."""
SILENT = (
    "its scheduler has not said anything about it: it may not have tried yet, may be "
    "stopped, or the pod waits for a permit plugin or for its binding"
)
OTHER_ORDER = (
    "the scheduler took the pods of the group in another order: we say this of another of them, "
    "and which comes first hangs on when it first saw each"
)
UNFIT = "does not fit"
ALONE = (
    "it belongs to a pod group, but is decided alone here; if your scheduler has pod groups, "
    "give --feature-gates GenericWorkload=true,GangScheduling=true"
)


def why_pod(
    cluster: Cluster,
    pod: Pod,
    *,
    with_fixes: bool = True,
    groups: Groups | None = None,
    brief: bool = False,
    made: bool = False,
    every_node: bool = False,
) -> Answer:
    """Why a pod is where it is; `groups` are those that this question has tried already.

    `brief` leaves out facts, near nodes and preemption of a pod that waits: it takes half as long.
    `made`: as if the API server had let it be made. `every_node` fills `judged`.
    """
    base = Answer(
        pod=pod.key,
        state="",
        summary="",
        scheduler=pod.spec.scheduler_name,
        nodes=len(cluster.nodes),
        age_seconds=age(cluster, pod),
        owner=title(cluster, pod),
        unread=cluster.origin.unread,
        version=cluster.settings.gates.version,
        version_note=cluster.version_note,
        nodes_left_out=0 if every_node else len(cluster.nodes),
    )
    if pod.finished:
        return replace(base, state="finished", summary=f"it has ended ({pod.status.phase})")
    if pod.spec.node_name:
        return _bound(cluster, pod, base, every_node)
    if pod.terminating:
        return replace(base, state="terminating", summary="it is being deleted")
    if pod.spec.scheduler_name not in cluster.settings.scheduler_names:
        return _foreign(cluster, pod, base, with_fixes)
    admission = Admission(cluster)
    exists = pod.key in cluster.pods
    refused = [] if exists or made else admission.obstacles(pod)
    if exists:
        base = replace(base, notes=tuple(admission.outlived(pod)))
    helps = with_fixes and not refused
    with member(cluster, pod):
        groups = {} if groups is None else groups
        answer = _waiting(cluster, pod, base, helps, groups, brief, every_node)
    if refused:
        return as_refused(cluster, pod, refused, answer, with_fixes=with_fixes)
    return answer


def _waiting(
    cluster: Cluster,
    pod: Pod,
    base: Answer,
    with_fixes: bool,
    groups: Groups,
    brief: bool,
    every_node: bool,
) -> Answer:
    decision = cluster.decide(pod)
    case = Case(cluster, pod, decision)
    gate = run_pre_enqueue(decision.profile, pod)
    if gate is not None:
        return _gated(case, base, gate, with_fixes, every_node)
    group = group_of(cluster.engine, pod)
    if group is not None:
        tried = groups.get(group.key)
        if tried is None:
            tried = groups[group.key] = Tried(cluster, pod, group)
        return _in_group(cluster, pod, base, tried.for_pod(pod), with_fixes, every_node)
    if pod.spec.scheduling_group is not None:
        base = replace(base, notes=(*base.notes, ALONE))
    if decision.placed:
        return _fits(case, base, decision.node_name, weighed(case) if every_node else ())
    if brief and decision.victims is None:
        rows = tuple(FunnelRow(*told(case, status), len(rows)) for status, rows in case.groups)
        text = f"no node of {case.table.count:,} fits"
        answer = replace(base, state="pending", summary=text, funnel=rows)
        return compare(cluster, pod, replace(answer, message=decision.message))
    return _pending(case, base, with_fixes, every_node)


def age(cluster: Cluster, pod: Pod) -> int:
    """Seconds since a pod was made, 0 if that is not known."""
    made = seconds(pod.metadata.creation_timestamp)
    return max(0, round(cluster.now - made)) if made else 0


def _in_group(
    cluster: Cluster, pod: Pod, base: Answer, tried: Tried, with_fixes: bool, every_node: bool
) -> Answer:
    base = replace(base, notes=(*base.notes, *tried.notes()))
    decision = tried.decision
    judged: tuple[Judged, ...] = ()
    if tried.node and decision is not None:
        case = Case(cluster, pod, decision)
        if every_node:
            with tried.others(cluster, tried.number):
                judged = weighed(case, placement_of(cluster.engine, pod, tried.node))
        return _fits(case, base, tried.node, judged)
    own = tried.first_failed == tried.number
    case = Case(cluster, pod, decision or cluster.decide(pod))
    rows: tuple[FunnelRow, ...] = ()
    near: tuple[Near, ...] = ()
    if own:
        with tried.others(cluster, tried.number):
            rows, near = funnel(case), nearest(case)
            judged = rejected(case) if every_node else ()
    elif base.nodes:
        rows = (FunnelRow(NAME, (tried.message,), base.nodes),)
        judged = alike(cluster, NAME, tried.message) if every_node else ()
    state, summary = "pending", f'its pod group "{tried.gang.group.name}" is not placed as a whole'
    if tried.nominated:
        state, summary = "nominated", f"its group waits for victims; it gets {tried.nominated} then"
    answer = replace(
        base,
        state=state,
        summary=summary,
        message=tried.message,
        funnel=rows,
        nearest=near,
        judged=judged,
    )
    if with_fixes and state == "pending":
        found = group_fixes(cluster, pod, tried)
        answer = replace(answer, fixes=tuple(fix for fix, _ in found))
    answer = compare(cluster, pod, answer)
    if answer.identical is False and answer.observed in tried.all_messages():
        answer = replace(answer, difference=OTHER_ORDER)
    return answer


def compare(cluster: Cluster, pod: Pod, answer: Answer) -> Answer:
    """The answer with what the cluster's scheduler says."""
    seen = observe(cluster, pod, answer.message)
    return replace(
        answer,
        observed=seen.message,
        observed_reason=seen.reason,
        event=seen.event,
        identical=seen.identical,
        difference=seen.difference,
    )


def _pending(case: Case, base: Answer, with_fixes: bool, every_node: bool) -> Answer:
    nominated = case.decision.nominating
    state, summary = "pending", _summary(case)
    if case.decision.victims is not None and nominated is not None:
        state = "nominated"
        names = [pod.key for pod in case.decision.victims.pods]
        summary = (
            f"it preempts {listed(names)} and is nominated to {nominated.nominated_node_name}; "
            "it is placed when they are gone"
        )
    answer = replace(
        base,
        state=state,
        summary=summary,
        message=case.decision.message,
        funnel=funnel(case),
        nearest=nearest(case),
        preemption=preemption_facts(case),
        fixes=fixes(case) if with_fixes else (),
        judged=rejected(case) if every_node else (),
    )
    return compare(case.cluster, case.pod, answer)


def _summary(case: Case) -> str:
    count = case.table.count
    if not count:
        return "there are no nodes"
    if case.rejection is not None:
        return f"no node is looked at: {case.rejection.message}"
    status = case.decision.status
    if status is not None and status.code is Code.ERROR:
        return "the attempt ended with an error, before a node was chosen"
    close = int((case.failures == 1).sum())
    if close:
        verb = "lacks" if close == 1 else "lack"
        return f"no node of {count:,} fits; {plural(close, 'node')} {verb} only one thing"
    several = bool((case.failures > 1).all())  # else an extender said no, which has no filter
    return f"no node of {count:,} fits" + ("; each lacks more than one thing" if several else "")


def funnel(case: Case) -> tuple[FunnelRow, ...]:
    """Nodes by what rejected them first; adds up to all nodes."""
    return tuple(
        FunnelRow(
            *told(case, status),
            len(rows),
            facts_of(case, status, rows) if status.all_reasons else (),
            tuple(case.names(rows)),
        )
        for status, rows in case.groups
    )


def _gated(case: Case, base: Answer, gate: Status, with_fixes: bool, every_node: bool) -> Answer:
    pod, cluster = case.pod, case.cluster
    message = GATED if pod.spec.scheduling_gates else gate.message
    names = ", ".join(item.name for item in pod.spec.scheduling_gates)
    summary = f"it is held back by {names}" if names else gate.message
    notes = [*base.notes]
    if pod.spec.scheduling_gates:
        free = replace(pod, spec=replace(pod.spec, scheduling_gates=()))
        decision = cluster.decide(free)
        then = f"would go to {decision.node_name}" if decision.placed else decision.message
        notes.append(f"without the gate: {then}")
    rows = np.arange(case.table.count)
    facts = (f"gate: {names}",) if names else facts_of(case, gate, rows)
    helps = fixes if names or gate.plugin != NAME else _of_group
    if gate.plugin == NAME and not names:
        facts = group_facts(cluster, pod)
    row = FunnelRow(gate.plugin, (message,), base.nodes, facts)
    answer = replace(
        base,
        state="gated" if names else "pending",
        summary=summary,
        message=message,
        funnel=(row,) if base.nodes else (),
        notes=tuple(notes),
        fixes=helps(case) if with_fixes else (),
        judged=alike(cluster, gate.plugin, message) if every_node else (),
    )
    return compare(cluster, pod, answer)


def _of_group(case: Case) -> tuple[Fix, ...]:
    return tuple(fix for fix, _ in incomplete_fixes(case.cluster, case.pod))


def _fits(case: Case, base: Answer, node: str, judged: tuple[Judged, ...]) -> Answer:
    cluster, pod, decision = case.cluster, case.pod, case.decision
    rows = (
        FunnelRow("", (FITS,), decision.feasible_nodes),
        FunnelRow("", (UNFIT,), decision.evaluated_nodes - decision.feasible_nodes),
        FunnelRow("", (ENOUGH,), base.nodes - decision.evaluated_nodes),
    )
    answer = replace(
        base,
        state="fits",
        summary=f"it would be placed on {node} now",
        node=node,
        funnel=counted(judged) or tuple(row for row in rows if row.nodes > 0),
        judged=judged,
    )
    answer = compare(cluster, pod, answer)
    silent = answer.observed is None and answer.event is None and pod.key in cluster.pods
    notes = [SILENT] if silent else []
    return replace(answer, notes=(*answer.notes, *notes))


def _foreign(cluster: Cluster, pod: Pod, base: Answer, with_fixes: bool) -> Answer:
    name = pod.spec.scheduler_name
    known = ", ".join(cluster.settings.scheduler_names)
    seen = observe(cluster, pod, "")
    silent = not (seen.message or seen.event)
    heard = (
        "nothing was heard of it: check that it runs and that the name is right"
        if silent
        else f'it has said: "{seen.message or seen.event}"'
    )
    helps = other_schedulers(cluster, pod) if silent and with_fixes else []
    return replace(
        base,
        state="otherScheduler",
        summary=f'it waits for the scheduler "{name}"; {heard}',
        observed=seen.message,
        observed_reason=seen.reason,
        event=seen.event,
        identical=None,
        notes=(f"the configuration here has: {known}; give the other one with --config",),
        fixes=tuple(fix for fix, _ in helps),
    )


def _bound(cluster: Cluster, pod: Pod, base: Answer, every_node: bool) -> Answer:
    here = pod.spec.node_name
    base = replace(base, state="bound", node=here)
    if here not in cluster.nodes:
        return replace(base, summary=f"it is bound to {here}, a node that does not exist")
    if pod.spec.scheduler_name not in cluster.settings.scheduler_names:
        name = pod.spec.scheduler_name
        return replace(base, summary=f'it runs on {here}, placed by the scheduler "{name}"')
    today, scores, message, judged = decided_today(cluster, pod, every_node=every_node)
    by_node = {score.node: score for score in scores}
    base = replace(base, scores=scores, judged=judged)
    notes = []
    if not today:
        notes.append(f"it would not be placed anywhere today: {message}")
    elif here not in by_node:
        notes.append(f"{here} would not take it today; it would go to {today}")
    elif today != here:
        gaps = compared(by_node[today], by_node[here])
        notes.append(f"today it would go to {today} ({', '.join(gaps) or 'equal scores'})")
    else:
        others = [score for score in scores if score.node != here]
        if others:
            gaps = compared(by_node[here], others[0])
            notes.append(f"ahead of {others[0].node} by {', '.join(gaps) or 'order only'}")
        else:
            notes.append("no other node fits")
    return replace(base, summary=f"it runs on {here}", notes=(*base.notes, *notes))


def span(total: int) -> str:
    """`3d`, `12m`, `45s`."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "m")):
        if total >= 2 * unit:
            return f"{total // unit}{name}"
    return f"{total}s"
