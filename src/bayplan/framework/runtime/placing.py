"""Runs the points of a profile for whole pod groups: PlacementGenerate, PlacementScore, and
PodGroupPostFilter for those that found no room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from bayplan.errors import RAISED, PluginError
from bayplan.framework.contract.groups import (
    GroupTrial,
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterResult,
)
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE
from bayplan.framework.contract.results import ApiCall, Effects
from bayplan.framework.contract.state import CycleState, StateMissing
from bayplan.framework.contract.status import Code, Status, is_success
from bayplan.framework.runtime.profile import Profile

NO_PLACEMENTS = "no feasible placements found"
_NORMALIZING = "running NormalizePlacementScore on PlacementScore plugins"


def run_placement_generate(
    profile: Profile, state: CycleState, group: PodGroupInfo, parent: Placement
) -> tuple[Sequence[Placement], Status | None]:
    """The sets of nodes to try a group on: what the profile's plugin says, or all of `parent`."""
    for plugin in profile.at["placementGenerate"]:
        try:
            placements, status = plugin.generate_placements(state, group, parent)
        except RAISED as problem:
            return (), profile.problem(plugin.name, "generate_placements", problem)
        if not is_success(status):
            return (), status.with_plugin(plugin.name)
        if not placements:
            return (), Status(Code.UNSCHEDULABLE, NO_PLACEMENTS, plugin=plugin.name)
        return placements, None
    return (parent,), None


def run_placement_score(
    profile: Profile,
    state: CycleState,
    group: PodGroupInfo,
    proposed: Sequence[PodGroupAssignments],
    states: Sequence[CycleState],
) -> list[int] | Status:
    """The weighted sum of all plugins' scores for each placement; a Status is an error."""
    plugins, raw = profile.at["placementScore"], {}
    for plugin in plugins:
        try:
            pairs = zip(states, proposed, strict=True)
            raw[plugin.name] = [plugin.score_placement(own, group, item) for own, item in pairs]
        except RAISED as problem:
            status = profile.problem(plugin.name, "score_placement", problem)
            return _wrapped("running PlacementScore plugins", plugin.name, status)
    totals = [0] * len(proposed)
    for plugin in plugins:
        scores = raw[plugin.name]
        if hasattr(plugin, "normalize_placements"):
            try:
                scores = plugin.normalize_placements(state, group, scores)
            except RAISED as problem:
                status = profile.problem(plugin.name, "normalize_placements", problem)
                return _wrapped(_NORMALIZING, plugin.name, status)
        wrong = [score for score in scores if not MIN_SCORE <= score <= MAX_SCORE]
        if wrong:
            return _bad_score(plugin.name, wrong[0])
        weight = profile.placement_weights.get(plugin.name, 1)
        totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
    return totals


def _wrapped(doing: str, name: str, status: Status) -> Status:
    text = f'{doing}: plugin "{name}" failed with: {status.message}'
    return Status(Code.ERROR, error=PluginError(text), plugin=name)


def _bad_score(name: str, score: int) -> Status:
    text = (
        f'applying score defaultWeights on PlacementScore plugins: plugin "{name}" returns an '
        f"invalid score {score}, it should in the range of [{MIN_SCORE}, {MAX_SCORE}] after "
        "normalizing"
    )
    return Status(Code.ERROR, error=PluginError(text), plugin=name)


Proposal = tuple[PodGroupPostFilterResult | None, Status]
Trying = Callable[[], AbstractContextManager[GroupTrial]]
"""Gives a plugin the cluster to try things on, and puts all back."""


def run_pod_group_post_filters(
    profile: Profile, plugins: Iterable[Any], group: PodGroupInfo, trying: Trying
) -> Proposal:
    """Ask PodGroupPostFilter plugins in order until one succeeds, gives up for good or fails.

    What those before it want written is written all the same.
    """
    state = CycleState()
    calls: tuple[ApiCall, ...] = ()
    reasons: list[str] = []
    rejector = ""
    for plugin in plugins:
        result, status = _proposal(profile, plugin, state, group, trying)
        if result is not None and result.effects is not None:
            calls += result.effects.calls
        if status.code is not Code.UNSCHEDULABLE:
            return _with_calls(result, calls), status.with_plugin(plugin.name)
        reasons += status.all_reasons
        rejector = rejector or plugin.name
    return _with_calls(None, calls), Status(Code.UNSCHEDULABLE, reasons, plugin=rejector)


def _proposal(
    profile: Profile, plugin: Any, state: CycleState, group: PodGroupInfo, trying: Trying
) -> Proposal:
    try:
        with trying() as trial:
            result, status = plugin.pod_group_post_filter(state, group, trial)
    except StateMissing as problem:
        result, status = None, Status.from_error(problem)
    except RAISED as problem:
        result, status = None, profile.problem(plugin.name, "pod_group_post_filter", problem)
    return result, status or Status(Code.SUCCESS)


def _with_calls(
    result: PodGroupPostFilterResult | None, calls: tuple[ApiCall, ...]
) -> PodGroupPostFilterResult | None:
    if not calls:
        return result
    return msgspec.structs.replace(result or PodGroupPostFilterResult(), effects=Effects(calls))
