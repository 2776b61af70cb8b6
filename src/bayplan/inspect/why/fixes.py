"""Finds the smallest changes after which a pod fits; each is decided again before it is shown.

Nodes that only one filter rejects are one change away, those that two reject need a pair. Of each
such set of filters the nearest nodes stand for the others. Changes are tried from the least
disturbing on, within a budget of decisions, so that a question stays quick on 5,000 nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, product

from bayplan.api import Pod
from bayplan.framework import Status
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.commands import anew, change_owner, create, for_template, json_patch, where
from bayplan.inspect.objects import Owner
from bayplan.inspect.step import Step, patched, remove, set_to, together
from bayplan.inspect.whatif.making import pinned_to
from bayplan.inspect.why.answer import Fix
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families import FAMILIES
from bayplan.inspect.why.moving import (
    equally_good,
    move_steps,
    new_node_steps,
    priority_steps,
    victims_text,
)
from bayplan.inspect.why.nearest import nearest_rows

TRIED = 24
"""How many changes are decided again at most."""
SHOWN = 6
LIVE_PATHS = ("/spec/tolerations", "/spec/schedulingGates")
"""What may be changed on a pod that exists; anything else means making it anew."""


def fixes(case: Case) -> tuple[Fix, ...]:
    """Verified changes, the least disturbing first."""
    return tuple(fix for fix, _ in verified(case))


def verified(case: Case, most: int = SHOWN) -> list[tuple[Fix, Step]]:
    """The same with the steps that they are."""
    found: list[tuple[Fix, Step]] = []
    seen: set[str] = set()
    tried = 0
    for step in candidates(case):
        if step.change in seen or not seen.isdisjoint(step.kind.split("+")):
            continue
        if len(found) >= most or tried >= TRIED:
            break
        seen.add(step.change)
        tried += 1
        fix = verify(case.cluster, case.pod, step)
        if fix is not None:
            found.append((fix, step))
            seen.add(step.kind)
    return sorted(found, key=lambda pair: pair[0].disturbs)


def candidates(case: Case) -> Iterator[Step]:
    """Single changes by cost, then those that take pods away or add a node, then pairs."""
    gates = _gate_steps(case)
    if gates:
        yield from gates
        return
    if case.rejection is not None:
        yield from _rejection_steps(case, case.rejection)
    else:
        singles = [step for row in nearest_rows(case, 1, 8) for step in _steps(case, row)]
        yield from sorted(singles, key=lambda step: step.cost)
        yield from _new_nodes(case)
        yield from _moves(case)
        yield from priority_steps(case)
        pairs = [step for row in nearest_rows(case, 2, 4) for step in _pairs(case, row)]
        yield from sorted(pairs, key=lambda step: step.cost)[:12]


def other_schedulers(cluster: Cluster, pod: Pod) -> list[tuple[Fix, Step]]:
    """Name a scheduler that there is, for a pod whose own is not heard of."""
    found = []
    for name in cluster.settings.scheduler_names:
        patch = (set_to(name, "spec", "schedulerName"),)
        step = Step(f'use the scheduler "{name}"', 20, name, patch)
        fix = verify(cluster, pod, step)
        if fix is not None:
            found.append((fix, step))
    return found


def _gate_steps(case: Case) -> list[Step]:
    gates = case.pod.spec.scheduling_gates
    if not gates:
        return []
    names = ", ".join(gate.name for gate in gates)
    noun = "gate" if len(gates) == 1 else "gates"
    patch = (remove("spec", "schedulingGates"),)
    return [Step(f"remove the scheduling {noun} {names}", 5, "gate", patch)]


def _rejection_steps(case: Case, rejection: Status) -> list[Step]:
    """Changes where a plugin ended the attempt before any node was looked at."""
    family = FAMILIES.get(rejection.plugin)
    return [] if family is None else sorted(family.whole(case), key=lambda step: step.cost)


def _steps(case: Case, row: int) -> list[Step]:
    return [
        step
        for plugin in case.failing(row)
        if plugin in FAMILIES
        for step in FAMILIES[plugin].steps(case, row)
    ]


def _pairs(case: Case, row: int) -> Iterable[Step]:
    parts = [FAMILIES[p].steps(case, row) if p in FAMILIES else [] for p in case.failing(row)]
    return [together(chosen) for chosen in product(*parts)] if all(parts) else []


def _moves(case: Case) -> Iterator[Step]:
    rows = [
        row
        for filters in (1, 2)
        for row in nearest_rows(case, filters, 4)
        if all(name in FAMILIES and FAMILIES[name].evictable for name in case.failing(row))
    ]
    yield from move_steps(case, rows)


def _new_nodes(case: Case) -> Iterator[Step]:
    yield from islice(new_node_steps(case), 3)


def verify(cluster: Cluster, given: Pod, step: Step) -> Fix | None:
    """Decide again with the change made; None if the pod still does not fit."""
    pod = patched(given, step.patch)
    with cluster.trial() as trial:
        trial.put_all(step.put)
        for item in step.delete:
            trial.delete(item)
        decision = trial.decide(pod)
        equals = step.lands[1:] if step.lands else equally_good(cluster.engine, decision)
    node, *_ = step.lands or (decision.node_name,)
    change, cost = step.change, step.cost
    removes = [item.key for item in step.delete]
    if not node:
        victims, nominating = decision.victims, decision.nominating
        if not step.patch or victims is None or nominating is None:
            return None
        if pod.priority <= given.priority:
            return None
        node, removes = nominating.nominated_node_name, [p.key for p in victims.pods]
        change = f"{change}; it then preempts {victims_text(list(victims.pods))}"
        cost += 5 * len(removes) + 30 * victims.pdb_violations
    commands = pod_commands(cluster, given, step)
    if commands is None or node != (pinned_to(given) or node):
        return None
    return Fix(
        change,
        step.side,
        node,
        step.patch,
        (*(step.commands or _creating(step)), *commands),
        step.creates,
        tuple(removes),
        equals,
        cost,
    )


def _creating(step: Step) -> tuple[str, ...]:
    """How to create what a change needs; a node is not made by a command."""
    if any(body["kind"] == "Node" for body in step.creates):
        return ()
    return tuple(create(body) for body in step.creates)


def pod_commands(cluster: Cluster, pod: Pod, step: Step) -> tuple[str, ...] | None:
    """How to make a change of the pod: in place, in its owner's template, or anew.

    None if the owner would make the next pod without the change.
    """
    if not step.patch:
        return ()
    owner, exists = cluster.maker_of(pod), pod.key in cluster.pods
    if exists and all(op["path"].startswith(LIVE_PATHS) for op in step.patch):
        return (f"kubectl patch pod {where(pod)} {json_patch(step.patch)}",)
    waiting = pod if exists else None
    if owner is not None and not _has_template(owner):
        return tuple(change_owner(owner, step.patch, waiting))
    if owner is not None:
        ops = for_template(owner, step.patch)
        return None if ops is None else tuple(change_owner(owner, ops, waiting))
    ref = pod.controller
    if ref is not None and exists:
        note = f"# {ref.kind.lower()}/{ref.name} makes this pod: change it there, then"
        return note, f"kubectl delete pod {where(pod)}"
    return (anew(pod, step.patch),) if exists else ()


def _has_template(owner: Owner) -> bool:
    """Whether more than the owner's name is known."""
    return bool(owner.spec.template.spec.containers)
