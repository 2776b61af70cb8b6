"""The extension points: one small protocol each, with the contract in its docstring.

A plugin is any object with a `name` and the methods of the points that it takes part in. Protocols
are generic over what is placed (P: a pod, a stack) and where (T: a table of nodes, of sites).
`None` as a status means success. Plugins are pure: no clock, no random numbers, no I/O; what must
be written to the API server is returned as `Effects`.

Filter and score come in two forms. The *table* form (`filter`, `score`) sees all rows in one call;
the *scalar* form (`filter_node`, `score_node`) sees one. A plugin gives one or both. The engine
calls the table form for many rows, the scalar form for a few changed rows and for what-if copies
of a node (nominated pods, preemption). Where both exist they must agree.

An exception in any method is caught by the profile, named after the plugin, and counts as an Error
status: the attempt fails and the pod is retried after error backoff; the scheduler goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from enum import IntEnum
from typing import Any, Protocol, TypeVar, runtime_checkable

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.info import PodInfo
from bayplan.framework.contract.diagnosis import Diagnosis
from bayplan.framework.contract.events import ClusterEventWithHint
from bayplan.framework.contract.groups import (
    GroupTrial,
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterResult,
)
from bayplan.framework.contract.results import (
    Effects,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
)
from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import Status
from bayplan.framework.contract.verdict import Verdict

P = TypeVar("P", contravariant=True)
T = TypeVar("T", contravariant=True)
I = TypeVar("I", contravariant=True)  # noqa: E741 - the row seen by the scalar form

MIN_SCORE = 0
MAX_SCORE = 100


class Depends(IntEnum):
    """What a plugin's answers about pods with one facet depend on, besides the facet itself."""

    NODE = 0
    """On the node's own object: labels, taints, images, allocatable."""
    SUMS = 1
    """On what the node offers and what its pods add up to: `allocatable`, `requested`,
    `nonzero_cpu`, `nonzero_memory`, `allowed_pods`, `pod_count`. Nodes alike are asked once."""
    USAGE = 2
    """On the node and the pods placed on that very node."""
    CLUSTER = 3
    """On anything else: other nodes, other pods, volumes. Asked again in every attempt."""


@runtime_checkable
class Plugin(Protocol):
    """Anything with a name; the points that it takes part in are found by its methods."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class CachedPlugin(Protocol[P]):
    """Optional: lets the engine keep the answers for pods with the same facet."""

    def depends_on(self, pod: P) -> Depends:
        """Say what pre_filter, filter, pre_score's status and score depend on for pods like this.

        Called once per facet. Without this method the answer is CLUSTER: always right, never kept.
        All others are kept and computed again only for changed rows; `pre_filter` and `pre_score`
        are then called once per facet, and what they write to the state is shared by all pods with
        that facet. A kept answer sees no other plugin's part of the state.
        """


@runtime_checkable
class Faceted(Protocol[P]):
    """Optional: says what the plugin reads of a pod, so that more pods share its answers."""

    def facet(self, state: CycleState, pod: P) -> Hashable:
        """Return all that this plugin's answers hang on of this pod; equal facets, equal answers.

        Without this method it is everything but name, uid, times, annotations and status. The facet
        must decide `depends_on` too. What later points get is always the pod of the attempt, never
        the pod that was asked about first: take from the state only what the facet determines.
        """


@runtime_checkable
class ChangingFacets(Protocol):
    """Optional, for facets that also hang on the cluster, such as on who selects the pod."""

    def facet_revision(self) -> Hashable:
        """Return a value that changes whenever the facet of any pod may; called at each attempt."""


@runtime_checkable
class Revisioned(Protocol[P]):
    """Optional, for CLUSTER plugins: tells that nothing changed since the last attempt."""

    def revision(self, state: CycleState, pod: P) -> Hashable | None:
        """Return a value that changes whenever this plugin's answers for the facet may change.

        Called at each attempt before `pre_filter`. If it equals the value of the facet's last
        attempt, and no node object changed, the kept answers are used: those of pre_filter and
        filter as they are, scores only if the same nodes fit. So whether `pre_score` skips must
        not depend on which nodes fit. None: never keep.
        """


@runtime_checkable
class Narrowing(Protocol[P]):
    """Optional, for CLUSTER plugins with a revision: tells how far a change of pods reaches."""

    def filter_affects(
        self, state: CycleState, pod: P, rows: Sequence[int]
    ) -> Collection[int] | None:
        """Return the rows whose outcome may differ from that of the facet's last attempt.

        Called after `pre_filter` on the same state as then, if no node object changed since and
        pods only on `rows` (of the table) came, went or changed. None: any row's may.
        """


class PreEnqueuePlugin(Plugin, Protocol[P]):
    """Decides whether a pod may enter the active queue."""

    def pre_enqueue(self, pod: P) -> Status | None:
        """Return None to let the pod in; any other status gates it until an event of this plugin.

        Called before every entry to the active or backoff queue. Must be cheap.
        """


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue; exactly one per profile, the same in all profiles.

    A plugin that also has `sort_key(item)`, smaller for what comes first, is asked only for that.
    """

    def less(self, a: Any, b: Any) -> bool:
        """Whether queued pod `a` is to be tried before `b`; both have `.pod` and `.timestamp`."""


class EnqueueExtensions(Plugin, Protocol):
    """Tells which events may make a pod schedulable that this plugin rejected.

    With `class_hint = True` the plugin promises that its hints for nodes and assigned pods look
    only at what pods of one template share; one pod is then asked for all of them.

    With `hint_selectors(pod)` it tells selectors of which one must match the labels that an
    assigned pod has, or had before it changed, for a hint about that pod not to be Skip; None if
    there are no such. Only then is it asked. Pods with anti-affinity are always asked about.

    With `rejects_groups = True` it counts as one of those that rejected a pod group that did not
    fit, so that its events may bring the group back.
    """

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Called once at start. Without this method every event is taken; empty means none is."""


class PreFilterPlugin(Plugin, Protocol[P, T]):
    """Looks at the pod and the cluster once, before nodes are filtered."""

    def pre_filter(
        self, state: CycleState, pod: P, nodes: T
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Write to `state` what `filter` needs; optionally narrow the set of nodes.

        Skip leaves out this plugin's filter, add_pod and remove_pod in this attempt.
        UnschedulableAndUnresolvable ends the attempt; Unschedulable lets the other PreFilters run
        (preemption needs their state) and then ends it. Anything else is an error.
        """


class PreFilterExtensions(Plugin, Protocol[P, I]):
    """Keeps PreFilter state right while pods are added to or taken off a node in a dry run."""

    def add_pod(self, state: CycleState, pod: P, added: PodInfo, node: I) -> Status | None:
        """`added` now also runs on `node`; change `state` (a clone) accordingly."""

    def remove_pod(self, state: CycleState, pod: P, removed: PodInfo, node: I) -> Status | None:
        """`removed` no longer runs on `node`; change `state` (a clone) accordingly."""


class FilterPlugin(Plugin, Protocol[P, T]):
    """Says which nodes cannot run a pod (table form)."""

    def filter(self, state: CycleState, pod: P, nodes: T) -> Verdict:
        """Return a verdict over all rows of `nodes`, in their order.

        Called after every `pre_filter` passed, with the whole table or a selection of its rows
        (`nodes.rows` then tells which). A node's status is that of the first plugin, in profile
        order, that rejects it. Must not change `nodes` or the pod, must not block. Only
        Unschedulable, UnschedulableAndUnresolvable and Pending are rejections; Error aborts the
        attempt. A verdict must not be changed later; returning the very object of the last attempt
        says that nothing changed, and saves the engine from looking at it again.
        """


class NodeFilterPlugin(Plugin, Protocol[P, I]):
    """Says whether one node cannot run a pod (scalar form)."""

    def filter_node(self, state: CycleState, pod: P, node: I) -> Status | None:
        """Return None if `node`, which may be a what-if copy, can run the pod."""


@runtime_checkable
class SumFilter(Protocol[P, T]):
    """Optional, for filters that do nothing but add up what pods take, such as resources.

    Preemption then tries pods on and off a node without asking the filter each time.
    """

    def spare(self, state: CycleState, pod: P, nodes: T) -> IntArray:
        """What is left of each thing (K) on each node (N) once the pod is there too, as (K, N).

        The filter lets the pod onto a node exactly if nothing there is negative.
        """

    def takes(self, state: CycleState, pod: P, placed: PodInfo) -> Sequence[int]:
        """What a placed pod takes of each of these things; hangs on its traits alone."""


@runtime_checkable
class HeedingFilter(Protocol[P]):
    """Optional, for filters that most placed pods do not concern, such as pod affinity.

    Preemption then tries such pods on and off a node without asking the filter each time.
    """

    def heeds(self, state: CycleState, pod: P, placed: PodInfo) -> bool:
        """Whether any node's outcome for the pod may change when a placed pod goes or comes back.

        Hangs on the placed pod's traits, namespace and labels alone.
        """


class PostFilterPlugin(Plugin, Protocol[P]):
    """Tries to make room when no node fits; DefaultPreemption is one."""

    def post_filter(
        self, state: CycleState, pod: P, statuses: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Called in order when filtering left nothing or a PreFilter rejected the pod.

        Success and UnschedulableAndUnresolvable end the round; Unschedulable passes on to the next
        plugin; anything else is an error. The pod stays unscheduled in this attempt either way.
        Long work looks at `Handle.late` and raises `Unfinished`: the attempt is then made again.
        A plugin with `repeats = True` promises the same answer for pods alike that are nominated
        to no node, while no node, placed pod or other object changes: they are not asked for then.
        """


class PodGroupPostFilterPlugin(Plugin, Protocol):
    """Tries to make room when a pod group finds none; DefaultPreemption is one."""

    def pod_group_post_filter(
        self, state: CycleState, group: PodGroupInfo, trial: GroupTrial
    ) -> tuple[PodGroupPostFilterResult | None, Status | None]:
        """Called in order when the cycle of a group, or of a composite one, has failed.

        Success and UnschedulableAndUnresolvable end the round; Unschedulable passes on to the next
        plugin; anything else is an error. Pods wait in the queue until the victims of a success are
        gone. `state` is shared by the plugins of this round. 1.36 has no such point in its
        configuration: behind WorkloadAwarePreemption all plugins of the profile with this method
        are asked, whatever points they are enabled at.
        """


class PreScorePlugin(Plugin, Protocol[P, T]):
    """Prepares scoring of the nodes that fit."""

    def pre_score(self, state: CycleState, pod: P, nodes: T, feasible: BoolArray) -> Status | None:
        """`feasible` marks the rows that passed. Skip leaves out this plugin's score."""


class ScorePlugin(Plugin, Protocol[P, T]):
    """Ranks nodes (table form)."""

    def score(self, state: CycleState, pod: P, nodes: T) -> IntArray:
        """Return one int64 a row; rows that did not pass are ignored.

        Without `normalize` values must lie in 0..100. Called only when two or more nodes fit.
        A plugin with `compact_scores = True` may return any integer type, which its own `normalize`
        then gets; without it scores are widened to int64 first. Arrays must not be changed later.
        One with `score_needs = (point, text)` fails with the text where it is not enabled there.
        """


class NodeScorePlugin(Plugin, Protocol[P, I]):
    """Ranks one node (scalar form)."""

    def score_node(self, state: CycleState, pod: P, node: I) -> int: ...


class NormalizePlugin(Plugin, Protocol[P]):
    """Brings raw scores into 0..100."""

    def normalize(
        self, state: CycleState, pod: P, scores: IntArray, feasible: BoolArray
    ) -> IntArray:
        """Return new scores; look only at rows in `feasible`, others may hold anything.

        If all scores are equal, the result must not hang on which rows are feasible: it is kept
        for plugins whose answers are (see `Depends`).
        Must not change `scores`. A result outside 0..100 on a feasible row fails the attempt.
        """


class ReservePlugin(Plugin, Protocol[P]):
    """Books what the pod will use on the chosen node."""

    def reserve(self, state: CycleState, pod: P, node_name: str) -> Status | None:
        """Called in order after the pod was assumed; a rejection undoes all."""

    def unreserve(self, state: CycleState, pod: P, node_name: str) -> None:
        """Undo `reserve`; must be idempotent and work if `reserve` never ran."""


class PermitPlugin(Plugin, Protocol[P]):
    """Last word before binding: allow, reject, or wait."""

    def permit(self, state: CycleState, pod: P, node_name: str) -> tuple[Status | None, float]:
        """Return (None, 0) to allow, (Wait, seconds) to park the pod, a rejection to undo."""


class PreBindPlugin(Plugin, Protocol[P]):
    """Work that must be done before the pod is bound, such as binding its volumes."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: P, node_name: str
    ) -> tuple[PreBindPreFlightResult | None, Status | None]:
        """Success: `pre_bind` will act; Skip: it has nothing to do; else error. Must be cheap."""

    def pre_bind(self, state: CycleState, pod: P, node_name: str) -> Status | Effects | None:
        """Return the calls to make and what to wait for, or a status."""


class BindPlugin(Plugin, Protocol[P]):
    """Binds the pod to the node; the first that does not say Skip decides.

    A plugin that only ever creates a plain Binding may also have `bind_target(pod, node_name)`: the
    node to bind to, which the scheduler then does in its own, quicker way; an empty text means that
    `bind` is to be called.
    """

    def bind(self, state: CycleState, pod: P, node_name: str) -> Status | Effects | None: ...


class PostBindPlugin(Plugin, Protocol[P]):
    """Is told that the pod was bound."""

    def post_bind(self, state: CycleState, pod: P, node_name: str) -> None: ...


class PlacementGeneratePlugin(Plugin, Protocol):
    """Proposes sets of nodes for a whole pod group; at most one per profile.

    Placements are asked for behind the gate TopologyAwareWorkloadScheduling.
    """

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, parent: Placement
    ) -> tuple[Sequence[Placement], Status | None]:
        """Return sets of nodes out of `parent`; they may overlap, none at all rejects the group.

        `state` lasts as long as the group's cycle. Called again after less important pods were
        taken off, when room is made for the group.
        """


class PlacementScorePlugin(Plugin, Protocol):
    """Ranks the placements on which a pod group fits; called if there are two or more."""

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, proposed: PodGroupAssignments
    ) -> int:
        """Return a score; none of the proposed pods is on its node.

        `state` is of this placement alone. Without `normalize_placements` it must lie in 0..100.
        """


class NormalizePlacementPlugin(Plugin, Protocol):
    """Brings the scores of placements into 0..100."""

    def normalize_placements(
        self, state: CycleState, group: PodGroupInfo, scores: Sequence[int]
    ) -> Sequence[int]:
        """Return new scores in the same order; `state` is that of the group's cycle."""


POINTS: dict[str, tuple[str, ...]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("less",),
    "preFilter": ("pre_filter",),
    "filter": ("filter", "filter_node"),
    "postFilter": ("post_filter",),
    "podGroupPostFilter": ("pod_group_post_filter",),
    "preScore": ("pre_score",),
    "score": ("score", "score_node"),
    "reserve": ("reserve",),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
    "placementGenerate": ("generate_placements",),
    "placementScore": ("score_placement",),
}
"""Extension point (as in the configuration) to the methods of which a plugin needs one."""


def implements(plugin: object, point: str) -> bool:
    """Whether a plugin takes part in an extension point."""
    return any(callable(getattr(plugin, method, None)) for method in POINTS[point])
