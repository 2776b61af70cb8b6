"""Judges a placement by the profile's own filters: every pod, with all others where they are.

A placement is *valid* if each pod that may move, taken off its node and tried again, is let back by
every filter. Pods of one signature on one node are judged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.cluster.info import PodInfo
from bayplan.cluster.table import NodeTable
from bayplan.framework import CycleState, Profile, Status
from bayplan.framework.runtime.filtering import (
    PreFilterOutcome,
    run_filters_on,
    run_pre_filters,
    run_remove_pod,
)

Profiles = Callable[[Pod], Profile | None]
Make = Callable[[Pod], PodInfo]


def unplaced(pod: Pod) -> Pod:
    """The pod without its node, as a scheduler would see it."""
    return replace(pod, spec=replace(pod.spec, node_name="")) if pod.spec.node_name else pod


def by_signature(infos: Iterable[PodInfo]) -> dict[bytes, list[PodInfo]]:
    """Pods by all that scheduling reads of them."""
    found: dict[bytes, list[PodInfo]] = {}
    for info in infos:
        found.setdefault(info.signature, []).append(info)
    return found


class Check:
    """Asks the filters about pods where they are."""

    def __init__(self, table: NodeTable, profiles: Profiles, make: Make) -> None:
        self._table, self._profiles, self._make = table, profiles, make

    def refused(self, infos: Iterable[PodInfo]) -> dict[str, Status]:
        """Why placed pods could not be where they are, by uid; empty if all could."""
        found: dict[str, Status] = {}
        for group in by_signature(infos).values():
            found |= self._refused(group)
        return found

    def _refused(self, group: list[PodInfo]) -> dict[str, Status]:
        asked = self._make(unplaced(group[0].pod))
        profile = self._profiles(asked.pod)
        assert profile is not None
        state = CycleState(asked)
        outcome = run_pre_filters(profile, state, asked.pod, self._table)
        rows: dict[str, list[PodInfo]] = {}
        for info in group:
            rows.setdefault(info.node_name, []).append(info)
        found: dict[str, Status] = {}
        for here in rows.values():
            status = self._at(profile, state, outcome, asked.pod, here[0])
            if status is not None:
                found |= {info.uid: status for info in here}
        return found

    def _at(
        self,
        profile: Profile,
        state: CycleState,
        outcome: PreFilterOutcome,
        pod: Pod,
        info: PodInfo,
    ) -> Status | None:
        row = self._table.row_of(info.node_name)
        if outcome.status is not None or row is None:
            return outcome.status
        node, copy = self._table.info(row).clone(), state.clone()
        node.remove_pod(info)
        status = run_remove_pod(profile, copy, pod, info, node)
        return status or run_filters_on(profile, copy, pod, node)


def profiles_of(profiles: Mapping[str, Profile]) -> Profiles:
    """Find profiles by a pod's scheduler name."""
    return lambda pod: profiles.get(pod.spec.scheduler_name)
