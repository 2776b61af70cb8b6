"""Room for a whole pod group, as 1.36 makes it behind WorkloadAwarePreemption.

All less important pods are taken off; if the group then finds nodes, they are put back one by one,
and each time the whole group is tried anew: unlike in 1.37 it need not stay where it was. Pods of a
group that leaves as one count as one, with the group's priority; all others with their own. Nobody
is nominated but pods that fit as things are. Upstream starts from the order of a Go map.
"""

from __future__ import annotations

from bayplan.cluster.pod_groups import group_key
from bayplan.framework import (
    Code,
    GroupTrial,
    Handle,
    PodGroupInfo,
    PodGroupPostFilterResult,
    PodInfo,
    Status,
    unschedulable,
)
from bayplan.plugins.default_preemption.groups import (
    NEVER,
    NOBODY,
    Answer,
    budgets_of,
    pods_of,
    put_back,
    take_off,
    to,
)
from bayplan.plugins.default_preemption.units import Unit, by_importance, protected_first


def find_room_1_36(handle: Handle, group: PodGroupInfo, trial: GroupTrial) -> Answer:
    """Who has to go for the group, or why nobody can."""
    if any(pod.spec.preemption_policy == "Never" for pod in group.unscheduled):
        return None, unschedulable(NEVER)
    priority = group.group.spec.priority or 0
    units = [unit for unit in _units(handle) if unit.priority < priority]
    if not units:
        return None, unschedulable(NOBODY)
    take_off(trial, units)
    _, status = trial.schedule()
    if status is not None:
        return None, status
    gone = []
    for unit in protected_first(by_importance(units, handle.now), budgets_of(handle)):
        put_back(trial, unit)
        if trial.schedule()[1] is not None:
            take_off(trial, [unit])
            gone.append(unit)
    nominations = {each.info.uid: to(each.node_name) for each in trial.tried if each.node_name}
    victims = pods_of(by_importance(sorted(gone, key=lambda unit: unit.place), handle.now))
    return PodGroupPostFilterResult(nominations, victims), Status(Code.SUCCESS)


def _units(handle: Handle) -> list[Unit]:
    groups = handle.objects.pod_groups
    together: dict[str, list[PodInfo]] = {}
    found: list[Unit] = []
    for info in handle.table.all_pods():
        key = group_key(info.pod)
        group = groups.get(key) if key else None
        if group is None or not group.spec.leaves_as_one:
            found.append(Unit(info.priority, [info], bool(key), len(found)))
        elif key in together:
            together[key].append(info)
        else:
            members = together[key] = [info]
            found.append(Unit(group.spec.priority or 0, members, True, len(found)))
    return found
