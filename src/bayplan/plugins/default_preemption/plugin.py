"""The plugin: finds the node on which preemption costs least, and nominates the pod to it.

Only nodes whose status says that preemption might help are tried. Nodes without any less important
pod are told apart by one comparison on a column; the others are dry-run one by one (`sweep.py`),
until enough candidates are found; those that would come to the same again are remembered. Who
deletes the victims, and when, is up to the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.api import Object, Pod
from bayplan.cluster.pod_groups import are_composite, group_key
from bayplan.config import DefaultPreemptionArgs
from bayplan.framework import (
    CLEAR_NOMINATION,
    ActionType,
    ClusterEventWithHint,
    Code,
    CycleState,
    Diagnosis,
    ExtenderError,
    GroupTrial,
    Handle,
    IntArray,
    NominatingInfo,
    NominatingMode,
    PodGroupInfo,
    PodGroupPostFilterResult,
    PostFilterResult,
    QueueingHint,
    Resource,
    Status,
    Unfinished,
    Victims,
    on,
    unresolvable,
    unschedulable,
)
from bayplan.framework.contract.diagnosis import fit_text
from bayplan.plugins.default_preemption.memory import (
    Memories,
    Memory,
    hangs_on_rows_only,
)
from bayplan.plugins.default_preemption.sweep import Sweep
from bayplan.plugins.default_preemption.units import Units
from bayplan.plugins.default_preemption.victims import NO_VICTIMS, is_leaving_for_us, pick_node

NAME = "DefaultPreemption"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
PREFIX = "preemption: "
GROUP_PREFIX = "pod group preemption: "
UNDER_WAY = "waiting for the preemption for this pod to be finished"

Answer = tuple[PostFilterResult | None, Status | None]


class DefaultPreemption:
    """PostFilter: victims and a nomination, for pod groups too. PreEnqueue: waits for victims."""

    name = NAME
    repeats = True
    class_hint = True

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._handle = handle
        self._percentage = args.min_candidate_nodes_percentage
        self._absolute = args.min_candidate_nodes_absolute
        self._memories = Memories(handle.limits.dry_runs)
        self._tells = handle.gates.since("1.37")
        self._groups = self._tells and handle.gates["GenericWorkload"]
        self._stopped: Sweep | None = None
        """What time was up for, until the same pod comes again."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unresolvable(UNDER_WAY) if pod.metadata.uid in self._handle.preempting else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(Resource.POD, ActionType.DELETE, _never),)

    def post_filter(self, state: CycleState, pod: Pod, statuses: Diagnosis) -> Answer:
        refusal = self._ineligible(pod, statuses)
        if refusal:
            return None, unschedulable(PREFIX + refusal)
        rows = statuses.rows_with(Code.UNSCHEDULABLE)
        sweep = self._swept(state, pod, rows)
        candidates = sweep.candidates
        if not candidates:
            if sweep.errors:
                told = ", ".join(sweep.errors)
                return None, Status(
                    Code.ERROR, PREFIX + (f"[{told}]" if len(sweep.errors) > 1 else told)
                )
            text = PREFIX + fit_text(statuses.count, "", self._tally(statuses, sweep.failures))
            return PostFilterResult(CLEAR_NOMINATION), unschedulable(text)
        asked = self._ask_extenders(pod, candidates)
        if isinstance(asked, Status):
            return None, asked
        if not asked:
            return None, unschedulable(PREFIX + "no candidate node for preemption")
        name = pick_node(asked, self._handle.now, sweep.costs)
        nomination = NominatingInfo(name, NominatingMode.OVERRIDE)
        return PostFilterResult(nomination, asked[name]), self._success(name, asked[name])

    def pod_group_post_filter(
        self, state: CycleState, group: PodGroupInfo, trial: GroupTrial
    ) -> tuple[PodGroupPostFilterResult | None, Status]:
        # few have pod groups, and fewer emulate 1.36 with them
        if not self._handle.gates.since("1.37"):
            from bayplan.plugins.default_preemption.groups_1_36 import find_room_1_36

            return find_room_1_36(self._handle, group, trial)
        from bayplan.plugins.default_preemption.groups import GroupPreemption

        result, status = GroupPreemption(self._handle, group, trial).find()
        return result, Status(status.code, GROUP_PREFIX + status.message)

    def _tied(self, pod: Pod) -> str:
        """1.36 does not preempt for the pods of a group that must stay together."""
        group = self._handle.objects.pod_groups.get(group_key(pod))
        if group is None:
            return "pod group for pod not found"
        if group.spec.scheduling_constraints is None:
            return ""
        return "not eligible due to placement-based pod group scheduling limitation"

    def _success(self, name: str, victims: Victims) -> Status | None:
        """Since 1.37 the FailedScheduling message says what preemption does."""
        if not self._tells:
            return None
        text = f"found a potential placement for pod on node {name}"
        return Status(Code.SUCCESS, f"{PREFIX}{text}, preempting {len(victims.pods)} victims")

    def _ineligible(self, pod: Pod, statuses: Diagnosis) -> str:
        gates = self._handle.gates
        if pod.spec.scheduling_group and gates["TopologyAwareWorkloadScheduling"]:
            refusal = "" if gates.since("1.37") else self._tied(pod)
            if refusal:
                return refusal
        if pod.spec.scheduling_group and gates["WorkloadAwarePreemption"]:
            return "not eligible due to workload aware preemption enabled"
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        name = pod.status.nominated_node_name
        if not name or statuses.status_of(name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        units = self._units()
        for info in self._handle.table.pods_of(name):
            priority = info.priority if units is None else units.priority(info.pod)
            if priority < pod.priority and is_leaving_for_us(info.pod):
                return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _swept(self, state: CycleState, pod: Pod, rows: IntArray) -> Sweep:
        """All candidates; raises Unfinished when time is up, and goes on in the next attempt."""
        handle, units = self._handle, self._units()
        hopeful = handle.table.min_priority[rows] < pod.priority
        tried = (rows if units is not None else rows[hopeful]).tolist()
        memory = self._memory(state, pod) if units is None else None
        sweep, self._stopped = self._stopped, None
        if sweep is None or not sweep.holds_for(pod, tried, memory):
            hopeless = len(rows) - len(tried)
            failures = {unresolvable(NO_VICTIMS): hopeless} if hopeless else {}
            sweep = Sweep(handle, pod, tried, self._wanted(len(rows)), failures, memory, units)
        if not sweep.run(state, handle.late):
            self._stopped = sweep
            raise Unfinished(f'preemption for pod "{pod.key}" goes on in the next step')
        return sweep

    def _units(self) -> Units | None:
        """Which pods are preempted together; None if each stands for itself."""
        handle = self._handle
        if not self._groups or not len(handle.objects.pod_groups):
            return None
        return Units(handle.table, handle.objects, composite=are_composite(handle.gates))

    def _memory(self, state: CycleState, pod: Pod) -> Memory | None:
        """Where dry runs for pods like this are remembered; None if they must not be."""
        handle = self._handle
        assert handle.profile is not None
        if not hangs_on_rows_only(handle.profile, state, pod):
            return None
        signature = handle.info(pod, state).signature
        memory = self._memories.of(signature)
        memory.follow(handle.table, handle.objects)
        return memory

    def _wanted(self, count: int) -> int:
        return min(count, max(count * self._percentage // 100, self._absolute))

    def _tally(self, statuses: Diagnosis, failures: Mapping[Status, int]) -> dict[str, int]:
        tally: dict[str, int] = {}
        for status, size in failures.items():
            for reason in dict.fromkeys(status.all_reasons):
                tally[reason] = tally.get(reason, 0) + size
        rest = statuses.count - sum(failures.values())
        if rest:
            tally[NOT_HELPFUL] = tally.get(NOT_HELPFUL, 0) + rest
        return tally

    def _ask_extenders(
        self, pod: Pod, candidates: dict[str, Victims]
    ) -> Mapping[str, Victims] | Status:
        left: Mapping[str, Victims] = candidates
        for extender in self._handle.extenders:
            if not extender.supports_preemption or not extender.interested(pod):
                continue
            try:
                left = extender.process_preemption(pod, left)
                empty = [name for name, victims in left.items() if not victims.pods]
                if empty and not extender.ignorable:
                    raise ExtenderError(f'expected at least one victim pod on node "{empty[0]}"')
                left = {name: victims for name, victims in left.items() if victims.pods}
            except ExtenderError as problem:
                if extender.ignorable:
                    continue
                return Status(Code.ERROR, PREFIX + str(problem))
            if not left:
                break
        return left


def _never(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    # The plugins that rejected the pod have hints of their own for deleted pods.
    return QueueingHint.SKIP


def new(args: DefaultPreemptionArgs | None, handle: Handle) -> DefaultPreemption:
    return DefaultPreemption(args or DefaultPreemptionArgs(), handle)
