"""Runs PreFilter, Filter and PostFilter of a profile, with kube-scheduler's rules for statuses.

Functions, not methods, each over a profile. `call_filter` is the only place where a filter's table
form is called; it accepts the scalar form in its stead, checks the answer's shape and turns
exceptions into statuses. Who wants answers kept between attempts looks at `bayplan.engine.answers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from bayplan.cluster.info import NodeInfo, PodInfo
from bayplan.errors import RAISED, PluginError
from bayplan.framework.contract.results import (
    Effects,
    NominatingMode,
    PostFilterResult,
    PreFilterResult,
    Unfinished,
)
from bayplan.framework.contract.state import CycleState, StateMissing
from bayplan.framework.contract.status import Code, Status
from bayplan.framework.contract.verdict import Verdict
from bayplan.framework.runtime.profile import Profile


class PreFilterOutcome(msgspec.Struct):
    """What all PreFilters together said."""

    status: Status | None
    node_names: frozenset[str] | None = None
    """The nodes left in the search; None for all."""
    narrowed_by: tuple[str, ...] = ()
    """Plugins that named nodes, in the order in which they ran."""


class PreFilterMerge:
    """Puts the answers of PreFilter plugins together, one after the other."""

    __slots__ = ("_state", "narrowed_by", "result", "stopped", "unschedulable")

    def __init__(self, state: CycleState) -> None:
        self._state = state
        self.result = PreFilterResult()
        self.narrowed_by: list[str] = []
        self.unschedulable: Status | None = None
        self.stopped: PreFilterOutcome | None = None

    def add(self, name: str, result: PreFilterResult | None, status: Status | None) -> bool:
        """Take one answer; False when nothing more must be asked."""
        if status is not None and status.code is not Code.SUCCESS:
            if status.code is Code.SKIP:
                self._state.skip_filter.add(name)
                return True
            if status.code is Code.UNSCHEDULABLE:
                self.unschedulable = status.with_plugin(name)
                return True
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                self.stopped = PreFilterOutcome(status.with_plugin(name))
            else:
                wrapped = wrap(f'running PreFilter plugin "{name}"', status, name)
                self.stopped = PreFilterOutcome(wrapped)
            return False
        if result is not None and result.node_names is not None:
            self.narrowed_by.append(name)
            self.result = self.result.merge(result)
            if not self.result.node_names:
                self.stopped = self._nothing_left()
                return False
        return True

    def outcome(self) -> PreFilterOutcome:
        if self.stopped is not None:
            return self.stopped
        names, by = self.result.node_names, tuple(self.narrowed_by)
        return PreFilterOutcome(self.unschedulable, names, by)

    def _nothing_left(self) -> PreFilterOutcome:
        by = sorted(self.narrowed_by)
        text = (
            f"node(s) didn't satisfy plugin(s) [{' '.join(by)}] simultaneously"
            if len(by) > 1
            else f"node(s) didn't satisfy plugin {by[0]}"
        )
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
        return PreFilterOutcome(status, None, tuple(self.narrowed_by))


def run_pre_filters(profile: Profile, state: CycleState, pod: Any, nodes: Any) -> PreFilterOutcome:
    """Ask every PreFilter in order."""
    merge = PreFilterMerge(state)
    for plugin in profile.pre_filter:
        result, status = call_pre_filter(profile, plugin, state, pod, nodes)
        if not merge.add(plugin.name, result, status):
            break
    return merge.outcome()


def call_pre_filter(
    profile: Profile, plugin: Any, state: CycleState, pod: Any, nodes: Any
) -> tuple[PreFilterResult | None, Status | None]:
    """Call one PreFilter; whatever goes wrong becomes an Error status."""
    try:
        answer = plugin.pre_filter(state, pod, nodes)
        result, status = answer
    except (TypeError, ValueError) as problem:
        return None, profile.problem(plugin.name, "pre_filter", problem)
    except RAISED as problem:
        return None, profile.problem(plugin.name, "pre_filter", problem)
    return result, status


def call_filter(
    profile: Profile, plugin: Any, state: CycleState, pod: Any, nodes: Any
) -> Verdict | Status:
    """Call one filter over a table; a Status is an error that ends the attempt.

    Outcomes of single rows may be errors: see `row_error`.
    """
    try:
        if hasattr(plugin, "filter"):
            verdict = plugin.filter(state, pod, nodes)
        else:
            verdict = _loop(plugin, state, pod, nodes)
        if not isinstance(verdict, Verdict):
            raise PluginError(
                f'plugin "{plugin.name}" returned {type(verdict).__name__} from filter, '
                "not a Verdict"
            )
        verdict.check(nodes.count, plugin.name)
    except RAISED as problem:
        return wrap_filter(plugin.name, profile.problem(plugin.name, "filter", problem))
    return verdict


def row_error(verdict: Verdict) -> Status | None:
    """An outcome of some row that is an error rather than a rejection."""
    for number, outcome in enumerate(verdict.outcomes):
        if not outcome.code.rejected and _occurs(verdict, number):
            return outcome
    return None


def call_filter_node(
    profile: Profile, plugin: Any, state: CycleState, pod: Any, node: NodeInfo
) -> Status | None:
    """Call one filter for one (what-if) node, in whichever form the plugin has."""
    try:
        if hasattr(plugin, "filter_node"):
            status: Status | None = plugin.filter_node(state, pod, node)
        else:
            table = node.table.what_if(node)
            verdict = plugin.filter(state, pod, table)
            verdict.check(1, plugin.name)
            status = verdict.status_of(0)
    except RAISED as problem:
        return wrap_filter(plugin.name, profile.problem(plugin.name, "filter_node", problem))
    if status is None or status.code is Code.SUCCESS:
        return None
    if status.code.rejected:
        return status if status.plugin else status.with_plugin(plugin.name)
    return wrap_filter(plugin.name, status)


def run_filters_on(
    profile: Profile,
    state: CycleState,
    pod: Any,
    node: NodeInfo,
    filters: Sequence[Any] | None = None,
) -> Status | None:
    """Run all filters (or some) on one node until the first says no."""
    skip = state.skip_filter
    for plugin in profile.filter if filters is None else filters:
        if plugin.name not in skip:
            status = call_filter_node(profile, plugin, state, pod, node)
            if status is not None:
                return status
    return None


def run_filters_with_nominated(
    profile: Profile,
    state: CycleState,
    pod: Any,
    node: NodeInfo,
    nominated: Sequence[PodInfo],
    filters: Sequence[Any] | None = None,
) -> Status | None:
    """Run all filters on one node, first as if nominated pods ran there, then without them.

    `nominated` are the pods nominated to this node; those that are less important than the pod, or
    are the pod itself, are left out here.
    """
    counted = [n for n in nominated if n.priority >= pod.priority and n.uid != pod.uid]
    if counted:
        what_if, copy = node.clone(), state.clone()
        for info in counted:
            what_if.add_pod(info)
            status = run_add_pod(profile, copy, pod, info, what_if)
            if status is not None:
                return status
        status = run_filters_on(profile, copy, pod, what_if, filters)
        if status is not None:
            return status
    return run_filters_on(profile, state, pod, node, filters)


def run_add_pod(
    profile: Profile, state: CycleState, pod: Any, added: PodInfo, node: NodeInfo
) -> Status | None:
    """Tell PreFilter plugins that a pod was added to a node in a dry run."""
    for plugin in profile.extensions:
        if plugin.name not in state.skip_filter:
            try:
                status = plugin.add_pod(state, pod, added, node)
            except RAISED as problem:
                status = profile.problem(plugin.name, "add_pod", problem)
            if status is not None and not status.success:
                return wrap(f'running AddPod on PreFilter plugin "{plugin.name}"', status)
    return None


def run_remove_pod(
    profile: Profile, state: CycleState, pod: Any, removed: PodInfo, node: NodeInfo
) -> Status | None:
    """Tell PreFilter plugins that a pod was taken off a node in a dry run."""
    for plugin in profile.extensions:
        if plugin.name not in state.skip_filter:
            try:
                status = plugin.remove_pod(state, pod, removed, node)
            except RAISED as problem:
                status = profile.problem(plugin.name, "remove_pod", problem)
            if status is not None and not status.success:
                return wrap(f'running RemovePod on PreFilter plugin "{plugin.name}"', status)
    return None


def run_post_filters(
    profile: Profile, state: CycleState, pod: Any, statuses: Any
) -> tuple[PostFilterResult | None, Status]:
    """Ask PostFilter plugins in order until one succeeds or gives up for good."""
    if state.skip_post_filter:
        return None, Status(Code.UNSCHEDULABLE, "All PostFilter plugins are skipped")
    kept: PostFilterResult | None = None
    effects: list[Effects] = []
    reasons: list[str] = []
    rejector = ""
    for plugin in profile.post_filter:
        try:
            result, status = plugin.post_filter(state, pod, statuses)
        except Unfinished:
            raise
        except StateMissing as problem:
            result, status = None, Status.from_error(problem)
        except RAISED as problem:
            result, status = None, profile.problem(plugin.name, "post_filter", problem)
        if result is not None and result.effects is not None:
            effects.append(result.effects)
        if status is None or status.code is Code.SUCCESS:
            if result is not None:
                result = msgspec.structs.replace(result, plugin=plugin.name)
            return _with_effects(result, effects), status or Status(Code.SUCCESS)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return _with_effects(result, effects), status.with_plugin(plugin.name)
        if not status.rejected:
            return None, status.with_plugin(plugin.name)
        reasons.extend(status.all_reasons)
        rejector = rejector or plugin.name
        if result is not None and _nominates(result):
            kept = result
    return _with_effects(kept, effects), Status(Code.UNSCHEDULABLE, reasons, plugin=rejector)


def _with_effects(
    result: PostFilterResult | None, effects: Sequence[Effects]
) -> PostFilterResult | None:
    """The result with the calls of all plugins asked so far, also of those that did not help."""
    if not effects:
        return result
    calls = tuple(call for item in effects for call in item.calls)
    if result is None:
        return PostFilterResult(effects=Effects(calls))
    return msgspec.structs.replace(result, effects=Effects(calls))


def run_pre_enqueue(profile: Profile, pod: Any, first: str = "") -> Status | None:
    """Ask PreEnqueue plugins, the one that gated the pod last time first."""
    plugins: list[Any] = sorted(profile.pre_enqueue, key=lambda plugin: plugin.name != first)
    for plugin in plugins:
        try:
            status: Status | None = plugin.pre_enqueue(pod)
        except RAISED as problem:
            status = profile.problem(plugin.name, "pre_enqueue", problem)
        if status is not None and not status.success:
            return status.with_plugin(plugin.name)
    return None


def wrap(doing: str, status: Status, plugin: str = "") -> Status:
    """Make an Error status that says what was being done."""
    error = PluginError(f"{doing}: {status.message}")
    error.__cause__ = status.error
    return Status(Code.ERROR, error=error, plugin=plugin or status.plugin)


def wrap_filter(name: str, status: Status) -> Status:
    return wrap(f'running "{name}" filter plugin', status, name)


def _nominates(result: PostFilterResult) -> bool:
    info = result.nominating_info
    return info is not None and info.mode is not NominatingMode.NOOP


def _loop(plugin: Any, state: CycleState, pod: Any, nodes: Any) -> Verdict:
    """Give a scalar filter the table form."""
    which = np.zeros(nodes.count, dtype=np.int64)
    outcomes: dict[Status, int] = {}
    for place in range(nodes.count):
        status = plugin.filter_node(state, pod, nodes.info(place))
        if status is not None and not status.success:
            which[place] = outcomes.setdefault(status, len(outcomes) + 1)
    return Verdict.by_outcome(which, tuple(outcomes)) if outcomes else Verdict.all_pass(nodes)


def _occurs(verdict: Verdict, number: int) -> bool:
    if verdict.which is not None:
        return bool((verdict.which == number + 1).any())
    return not bool(verdict.mask.all())
