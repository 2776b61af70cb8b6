"""Checks that a node has room for what a pod asks, and scores how full it would be.

The check is what the pod asks against what is offered less what placed pods use, for each resource,
and the number of pods. Extended resources that the configuration ignores, or that device drivers
serve on nodes that do not offer them, are left out; in scores their devices count. Placements of
pod groups are scored as one large node, the fuller the better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.api.requests import is_extended, is_scalar, pod_requests, to_integers
from bayplan.cluster.resources import CPU_ID, MEMORY_ID, resource_id, resource_name
from bayplan.config import NodeResourcesFitArgs
from bayplan.framework import (
    BoolArray,
    ClusterEventWithHint,
    Code,
    CycleState,
    Depends,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
    PodGroupAssignments,
    PodGroupInfo,
    PodInfo,
    PreFilterResult,
    Status,
    Verdict,
)
from bayplan.plugins.dynamic_resources.scored import DeviceResources
from bayplan.plugins.node_resources_fit.hints import FitHints
from bayplan.plugins.node_resources_fit.strategies import (
    Wanted,
    make_strategy,
    score_one,
    score_table,
    score_together,
)

NAME = "NodeResourcesFit"
TOO_MANY_PODS = "Too many pods"
IMPLICIT_DEVICES = "deviceclass.resource.kubernetes.io/"

_ASKED = f"{NAME}/asked"
_WANTED = f"{NAME}/wanted"

_PLENTY = 1 << 62
"""More than all pods of a node can take."""

Asked = tuple[tuple[int, int, bool], ...]
"""(resource id, amount, whether device drivers may serve it), without zeros and ignored ones."""

WantedServed = tuple[tuple[Wanted, ...], tuple[int, ...]]
"""What is scored, and which of it device drivers may serve."""


class NodeResourcesFit:
    """Filter by free resources; score by allocation."""

    name = NAME
    class_hint = True

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self._handle = handle
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._strategy = make_strategy(args)
        self._scored = tuple(
            (item.name, resource_id(item.name), item.weight or 1)
            for item in args.scoring_strategy.resources
        )
        self._reasons: dict[tuple[int, ...], tuple[Status, Status]] = {}
        self._hints = FitHints(handle)
        self._devices = DeviceResources(handle)

    def asked(self, info: PodInfo) -> Asked:
        """What is checked for a pod, for questions."""
        return self._asked(info.traits.fit)

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.CLUSTER if self._served_of(self._wanted(None, pod)) else Depends.SUMS

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        traits = self._handle.info(pod, state).traits
        wanted = self._wanted(state, pod)
        return self._asked(traits.fit), wanted, self._served_of(wanted)

    def facet_revision(self) -> Hashable:
        # Which resources device drivers serve decides what is asked of nodes.
        return self._devices.revision

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        fit = self._handle.info(pod, state).traits.fit
        state.write(_ASKED, self._asked(fit))
        return None, None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        full = nodes.pod_count >= nodes.allowed_pods  # (N,)
        lacks: IntArray | None = None  # (N,): bit 0 too many pods, bit i + 1 too little of asked[i]
        if np.count_nonzero(full):
            lacks = full.astype(np.int64)
        hopeless: BoolArray | None = None
        asked = self._asked_of(state, pod)
        for place, (resource, amount, delegable) in enumerate(asked):
            offered = nodes.allocatable(resource)
            short = offered - nodes.requested(resource) < amount
            if delegable:
                short &= offered != 0
            if np.count_nonzero(short):
                bits = short.astype(np.int64) << (place + 1)
                lacks = bits if lacks is None else lacks | bits
                never = short & (offered < amount)
                hopeless = never if hopeless is None else hopeless | never
        if lacks is None:
            return Verdict.all_pass(nodes)
        if hopeless is None:
            hopeless = np.zeros(nodes.count, dtype=bool)
        return self._verdict(lacks, hopeless, asked)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        lacks: list[int] = []
        hopeless = False
        if len(node.pods) >= node.allowed_pods:
            lacks.append(-1)
        allocatable, requested = node.allocatable, node.requested
        for resource, amount, delegable in self._asked_of(state, pod):
            offered = allocatable[resource] if resource < len(allocatable) else 0
            used = requested[resource] if resource < len(requested) else 0
            if amount > offered - used and not (delegable and offered == 0):
                lacks.append(resource)
                hopeless = hopeless or amount > offered
        return self._status(tuple(lacks), hopeless) if lacks else None

    def spare(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        asked = self._asked_of(state, pod)
        left = np.empty((len(asked) + 1, nodes.count), dtype=np.int64)
        left[0] = nodes.allowed_pods - nodes.pod_count - 1
        for place, (resource, amount, delegable) in enumerate(asked, 1):
            offered = nodes.allocatable(resource)
            left[place] = offered - nodes.requested(resource) - amount
            if delegable:
                left[place, offered == 0] = _PLENTY
        return left

    def takes(self, state: CycleState, pod: Pod, placed: PodInfo) -> Sequence[int]:
        used = dict(placed.traits.used)
        return [1, *(used.get(resource, 0) for resource, _, _ in self._asked_of(state, pod))]

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        if not self._scored:
            return Status(Code.ERROR, "resources not found")
        wanted = self._wanted(state, pod)
        state.write(_WANTED, (wanted, self._served_of(wanted)))
        return None

    def _wanted_served(self, state: CycleState, pod: Pod) -> WantedServed:
        """What is scored; worked out now if PreScore is off."""
        known: WantedServed | None = state.get(_WANTED)
        if known is not None:
            return known
        wanted = self._wanted(state, pod)
        return wanted, self._served_of(wanted)

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        wanted, served = self._wanted_served(state, pod)
        if served:
            each = (self.score_node(state, pod, nodes.info(row)) for row in range(nodes.count))
            return np.fromiter(each, dtype=np.int64, count=nodes.count)
        return score_table(self._strategy, wanted, nodes)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        wanted, served = self._wanted_served(state, pod)
        return score_one(self._strategy, wanted, self._devices.on(node, served) if served else node)

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, proposed: PodGroupAssignments
    ) -> int:
        """How full the nodes of a placement would be with the group's pods on them."""
        asked = Counter[int]()
        for pod, _ in proposed.assignments:
            for item in self._wanted(None, pod):
                asked[item.resource] += item.request
        wanted = [
            Wanted(resource, weight, asked[resource])
            for name, resource, weight in self._scored
            if asked[resource] or not is_scalar(name)
        ]
        table = self._handle.table
        rows = [table.row_by_name[name] for name in proposed.placement.node_names]
        return score_together(wanted, table.select(np.array(rows, dtype=np.int64)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._hints.events()

    def _asked_of(self, state: CycleState, pod: Pod) -> Asked:
        asked: Asked | None = state.get(_ASKED)
        return self._asked(self._handle.info(pod, state).traits.fit) if asked is None else asked

    def _asked(self, fit: tuple[tuple[int, int], ...]) -> Asked:
        served = self._device_resources()
        found = []
        for resource, amount in fit:
            name = resource_name(resource)
            if amount > 0 and not self._is_ignored(name):
                delegable = name in served or name.startswith(IMPLICIT_DEVICES)
                found.append((resource, amount, delegable and self._served(name, served)))
        return tuple(found)

    def _is_ignored(self, name: str) -> bool:
        if not (self._ignored or self._ignored_groups) or not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _device_resources(self) -> frozenset[str]:
        """Names of extended resources that some device class serves."""
        classes = self._handle.objects.device_classes
        if not len(classes) or not self._handle.gates["DRAExtendedResource"]:
            return frozenset()
        named = (item.spec.extended_resource_name for item in classes)
        return frozenset(name for name in named if name)

    def _served(self, name: str, served: frozenset[str]) -> bool:
        if name in served:
            return True
        if not self._handle.gates["DRAExtendedResource"]:
            return False
        return self._handle.objects.device_classes.get(name[len(IMPLICIT_DEVICES) :]) is not None

    def _served_of(self, wanted: tuple[Wanted, ...]) -> tuple[int, ...]:
        return self._devices.served(item.resource for item in wanted)

    def _wanted(self, state: CycleState | None, pod: Pod) -> tuple[Wanted, ...]:
        cpu, memory = self._handle.info(pod, state).traits.resources.scored
        others: dict[str, int] | None = None
        found: list[Wanted] = []
        for name, resource, weight in self._scored:
            if resource == CPU_ID:
                request = cpu
            elif resource == MEMORY_ID:
                request = memory
            else:
                if others is None:
                    others = to_integers(pod_requests(pod, pod_level=False))
                request = others.get(name, 0)
                if request == 0 and is_scalar(name):
                    continue
            found.append(Wanted(resource, weight, request))
        return tuple(found)

    def _verdict(self, lacks: npt.NDArray[np.int64], hopeless: BoolArray, asked: Asked) -> Verdict:
        kinds, which = np.unique(lacks * 2 + hopeless, return_inverse=True)
        outcomes: list[Status] = []
        numbers = np.zeros(len(kinds), dtype=np.int64)
        for place, kind in enumerate(kinds.tolist()):
            bits, worse = kind >> 1, bool(kind & 1)
            if bits:
                short = [-1] if bits & 1 else []
                short += [a[0] for i, a in enumerate(asked) if bits >> (i + 1) & 1]
                outcomes.append(self._status(tuple(short), worse))
                numbers[place] = len(outcomes)
        return Verdict.by_outcome(numbers[which], outcomes)

    def _status(self, lacks: tuple[int, ...], hopeless: bool) -> Status:
        """The status for these resources (-1: the number of pods), made once."""
        known = self._reasons.get(lacks)
        if known is None:
            reasons = [
                TOO_MANY_PODS if item < 0 else f"Insufficient {resource_name(item)}"
                for item in lacks
            ]
            known = self._reasons[lacks] = (
                Status(Code.UNSCHEDULABLE, reasons),
                Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons),
            )
        return known[hopeless]


def new(args: NodeResourcesFitArgs | None, handle: Handle) -> NodeResourcesFit:
    return NodeResourcesFit(args or NodeResourcesFitArgs(), handle)
