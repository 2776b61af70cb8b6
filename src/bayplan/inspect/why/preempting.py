"""What preemption could do for a pod, and why it does not."""

from __future__ import annotations

from collections import Counter

from bayplan.framework import Code
from bayplan.inspect.amounts import listed
from bayplan.inspect.why.case import Case
from bayplan.words import plural


def preemption_facts(case: Case) -> tuple[str, ...]:
    """Who could be evicted and why not; empty where preemption has nothing to do with it."""
    decision, pod = case.decision, case.pod
    error = decision.fit_error
    if error is None or decision.post_filter_status is None:
        return ()
    if decision.victims is not None:
        victims = [f"{item.key} (priority {item.priority})" for item in decision.victims.pods]
        broken = decision.victims.pdb_violations
        budget = f", against {plural(broken, 'disruption budget')}" if broken else ""
        return (f"evicts {listed(victims)}{budget}",)
    if pod.spec.preemption_policy == "Never":
        return ("its preemptionPolicy is Never, so nobody is evicted for it",)
    rows = error.diagnosis.rows_with(Code.UNSCHEDULABLE)
    if not len(rows):
        return ("evicting pods would not help on any node",)
    lower = case.table.min_priority[rows] < pod.priority
    if not lower.any():
        found: Counter[int] = Counter()
        for row in rows[:500].tolist():
            found.update(info.priority for info in case.table.pods[row])
        lowest = min(found, default=None)
        least = f"; the lowest there is {lowest}" if lowest is not None else ""
        return (f"no pod on those nodes has a priority below its own {pod.priority}{least}",)
    count = int(lower.sum())
    return (
        f"{plural(count, 'node')} have pods of lower priority than {pod.priority}, "
        "but it would not fit even without them",
    )
