"""Pods that the API server would not make: what it would say, and what lets them be made.

Changes that help a pod to a node are no help while the pod is refused. So what takes every obstacle
away comes first, checked against admission again; if the pod then still finds no node, it is given
together with what helps it to one.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.inspect.admission import REFUSED, Admission, Obstacle
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.step import Step, patched, together
from bayplan.inspect.why.answer import Answer, Fix
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.fixes import SHOWN, verified, verify


def as_refused(
    cluster: Cluster,
    pod: Pod,
    obstacles: list[Obstacle],
    if_made: Answer,
    *,
    times: int = 1,
    with_fixes: bool = True,
) -> Answer:
    """The answer of a pod that would be refused; `if_made` is that of it made."""
    texts = [item.text.removesuffix(REFUSED) for item in obstacles]
    then = if_made.message or if_made.summary
    notes = (*texts[1:], *if_made.notes, f"if it were made: {then}")
    found = making_fixes(cluster, pod, obstacles, times) if with_fixes else ()
    return replace(
        if_made,
        state="notMade",
        summary=f"the API server would refuse it: {texts[0]}",
        node="",
        notes=tuple(dict.fromkeys(notes)),
        fixes=found,
    )


def making_fixes(
    cluster: Cluster, pod: Pod, obstacles: list[Obstacle], times: int = 1
) -> tuple[Fix, ...]:
    """What takes every obstacle away and lets the pod be placed; none if one has no remedy."""
    found: list[Fix] = []
    for step in _ways(obstacles):
        if _refused_still(cluster, pod, step, times):
            continue
        fix = verify(cluster, pod, step)
        found += [fix] if fix is not None else _with_a_node(cluster, pod, step)
    return tuple(sorted(found, key=lambda fix: fix.disturbs)[:SHOWN])


def _ways(obstacles: list[Obstacle]) -> Iterator[Step]:
    """Each obstacle taken away in its own way; then, where there is another way, in that."""
    first = [item.step or item.instead for item in obstacles]
    other = [item.instead or item.step for item in obstacles]
    for steps in (first, other) if first != other else (first,):
        known = tuple(step for step in steps if step is not None)
        if len(known) == len(steps):
            yield together(known) if len(known) > 1 else known[0]


def _refused_still(cluster: Cluster, pod: Pod, step: Step, times: int) -> bool:
    changed = Admission(cluster)
    for item in step.put:
        changed.put(item)
    return bool(changed.obstacles(patched(pod, step.patch), times))


def _with_a_node(cluster: Cluster, pod: Pod, step: Step) -> Iterator[Fix]:
    """The same together with what helps the pod to a node."""
    made = patched(pod, step.patch)
    for _, helps in verified(Case(cluster, made, cluster.decide(made)), 3):
        fix = verify(cluster, pod, together((step, helps)))
        if fix is not None:
            yield fix
