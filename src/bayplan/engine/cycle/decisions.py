"""What an attempt decided, as data: a node, or why there is none and what could be done."""

from __future__ import annotations

from bayplan.engine.cycle.records import AttemptRecord
from bayplan.framework import (
    CycleState,
    FitError,
    NominatingInfo,
    PodInfo,
    PostFilterResult,
    Profile,
    Status,
)
from bayplan.framework.contract.results import Effects, Victims


class Decision:
    """The outcome of one attempt for one pod.

    Placed: `node_name` is set and `status` is None, or a Wait with a time limit per plugin in
    `timeouts`. Not placed: `status` tells why; `fit_error` is set when nodes were rejected, and
    then `post_filter`, `nominating` and `victims` hold what PostFilter proposes.
    """

    __slots__ = (
        "evaluated_nodes",
        "feasible_nodes",
        "fit_error",
        "info",
        "next_start",
        "node_name",
        "nominating",
        "post_filter",
        "post_filter_status",
        "profile",
        "record",
        "start",
        "state",
        "status",
        "timeouts",
    )

    def __init__(self, info: PodInfo, profile: Profile, state: CycleState) -> None:
        self.info = info
        self.profile = profile
        self.state = state
        self.node_name = ""
        self.start = 0
        """Where in the list of nodes the search started."""
        self.next_start = 0
        """Where in the list of nodes the next search starts if this attempt counts."""
        self.status: Status | None = None
        self.fit_error: FitError | None = None
        self.nominating: NominatingInfo | None = None
        """What to do with the pod's nomination; None leaves it."""
        self.post_filter: PostFilterResult | None = None
        self.post_filter_status: Status | None = None
        self.timeouts: dict[str, float] = {}
        self.evaluated_nodes = 0
        self.feasible_nodes = 0
        self.record: AttemptRecord | None = None

    @property
    def placed(self) -> bool:
        """Whether the pod has a node (it may still have to wait for a Permit plugin)."""
        return bool(self.node_name)

    @property
    def waits(self) -> bool:
        return bool(self.timeouts)

    @property
    def victims(self) -> Victims | None:
        return None if self.post_filter is None else self.post_filter.victims

    @property
    def effects(self) -> Effects | None:
        """Calls that a PostFilter wants made."""
        return None if self.post_filter is None else self.post_filter.effects

    @property
    def message(self) -> str:
        """Why the pod was not placed, in kube-scheduler's words."""
        if self.fit_error is not None:
            return str(self.fit_error)
        return "" if self.status is None else self.status.message

    @property
    def unschedulable_plugins(self) -> set[str]:
        """Plugins whose events may make the pod schedulable; empty after an error."""
        return set() if self.fit_error is None else self.fit_error.unschedulable_plugins

    @property
    def pending_plugins(self) -> set[str]:
        return set() if self.fit_error is None else self.fit_error.pending_plugins

    def __repr__(self) -> str:
        where = self.node_name or self.message
        return f"Decision({self.info.pod.key} -> {where})"


class GroupDecision:
    """The outcome of placing several pods together."""

    __slots__ = ("decisions", "placed")

    def __init__(self, decisions: list[Decision], placed: bool) -> None:
        self.decisions = decisions
        """One per pod that was tried, in order."""
        self.placed = placed
        """Whether all (or as many as were needed) have a node; if not, nothing was changed."""
