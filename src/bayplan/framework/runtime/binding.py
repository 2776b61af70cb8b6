"""Runs Reserve, Permit, PreBind, Bind and PostBind of a profile.

Nothing here waits or writes: PreBind and Bind return what is to be done as Effects, in groups that
may be carried out together. Who carries them out calls `run_post_bind` or `run_unreserve` at the
end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.errors import RAISED
from bayplan.framework.contract.results import Effects
from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import Code, Status
from bayplan.framework.runtime.filtering import wrap
from bayplan.framework.runtime.profile import Profile

MAX_PERMIT_SECONDS = 15 * 60.0
_SKIP = Status(Code.SKIP)
WAITING = "one or more plugins asked to wait and no plugin rejected pod"


class PermitOutcome(msgspec.Struct):
    """Allowed (None), refused, or Wait with a time limit per plugin that asked for it."""

    status: Status | None
    timeouts: dict[str, float] = {}


def run_reserve(profile: Profile, state: CycleState, pod: Any, node_name: str) -> Status | None:
    """Reserve in order; the caller undoes all with `run_unreserve` if this fails."""
    for plugin in profile.reserve:
        try:
            status: Status | None = plugin.reserve(state, pod, node_name)
        except RAISED as problem:
            status = profile.problem(plugin.name, "reserve", problem)
        if status is not None and not status.success:
            if status.rejected:
                return status.with_plugin(plugin.name)
            return wrap(f'running Reserve plugin "{plugin.name}"', status, plugin.name)
    return None


def run_unreserve(profile: Profile, state: CycleState, pod: Any, node_name: str) -> None:
    """Undo every Reserve, last first, also of plugins whose Reserve never ran."""
    for plugin in reversed(profile.reserve):
        unreserve = getattr(plugin, "unreserve", None)
        if unreserve is not None:
            try:
                unreserve(state, pod, node_name)
            except RAISED as problem:
                profile.problem(plugin.name, "unreserve", problem)


def run_permit(profile: Profile, state: CycleState, pod: Any, node_name: str) -> PermitOutcome:
    """Ask Permit plugins; the first refusal decides, waits are collected."""
    timeouts: dict[str, float] = {}
    reasons: list[str] = []
    for plugin in profile.permit:
        try:
            status, timeout = plugin.permit(state, pod, node_name)
        except RAISED as problem:
            status, timeout = profile.problem(plugin.name, "permit", problem), 0.0
        if status is None or status.success:
            continue
        if status.code is Code.WAIT:
            timeouts[plugin.name] = min(float(timeout), MAX_PERMIT_SECONDS)
            reasons.extend(status.reasons)
        elif status.rejected:
            return PermitOutcome(status.with_plugin(plugin.name))
        else:
            doing = f'running Permit plugin "{plugin.name}"'
            return PermitOutcome(wrap(doing, status, plugin.name))
    if timeouts:
        return PermitOutcome(Status(Code.WAIT, (*reasons, WAITING)), timeouts)
    return PermitOutcome(None)


def run_pre_bind_pre_flight(
    profile: Profile, state: CycleState, pod: Any, node_name: str
) -> Status | None:
    """Find out which PreBind plugins will act: None if any, Skip if none, else an error."""
    acting = False
    for plugin in profile.pre_bind:
        flight = getattr(plugin, "pre_bind_pre_flight", None)
        if flight is None:
            acting = True
            continue
        try:
            result, status = flight(state, pod, node_name)
        except RAISED as problem:
            result, status = None, profile.problem(plugin.name, "pre_bind_pre_flight", problem)
        if status is None or status.success:
            acting = True
            if result is not None and result.allow_parallel:
                state.parallel_pre_bind.add(plugin.name)
        elif status.code is Code.SKIP:
            state.skip_pre_bind.add(plugin.name)
        elif status.code is Code.ERROR:
            return wrap(f'running PreBindPreFlight "{plugin.name}"', status, plugin.name)
        else:
            text = (
                f'PreBindPreFlight {plugin.name} returned "{status.code.text}", which is '
                "unsupported. It is supposed to return Success, Skip, or Error status"
            )
            return Status(Code.ERROR, text, plugin=plugin.name)
    return None if acting else _SKIP


def pre_bind_groups(profile: Profile, state: CycleState) -> list[list[Any]]:
    """PreBind plugins that act, in groups to be run in turn, a group's members together."""
    groups: list[list[Any]] = []
    together = False
    for plugin in profile.pre_bind:
        parallel = plugin.name in state.parallel_pre_bind
        skipped = plugin.name in state.skip_pre_bind
        if not parallel:
            together = False
        if skipped:
            continue
        if parallel and together:
            groups[-1].append(plugin)
        else:
            groups.append([plugin])
        together = parallel
    return groups


def run_pre_bind(
    profile: Profile, plugin: Any, state: CycleState, pod: Any, node_name: str
) -> Status | Effects | None:
    """Ask one PreBind plugin what is to be done."""
    return _ask(profile, plugin, "PreBind", plugin.pre_bind, state, pod, node_name)


def run_bind(profile: Profile, state: CycleState, pod: Any, node_name: str) -> Status | Effects:
    """Ask Bind plugins until one does not skip; all skipping leaves a Skip status."""
    for plugin in profile.bind:
        answer = _ask(profile, plugin, "Bind", plugin.bind, state, pod, node_name)
        if isinstance(answer, Status) and answer.code is Code.SKIP:
            continue
        return Status(Code.SUCCESS) if answer is None else answer
    return Status(Code.SKIP)


def run_post_bind(profile: Profile, state: CycleState, pod: Any, node_name: str) -> None:
    """Tell PostBind plugins that the pod was bound."""
    for plugin in profile.post_bind:
        try:
            plugin.post_bind(state, pod, node_name)
        except RAISED as problem:
            profile.problem(plugin.name, "post_bind", problem)


def _ask(
    profile: Profile,
    plugin: Any,
    point: str,
    method: Callable[..., Any],
    state: CycleState,
    pod: Any,
    node_name: str,
) -> Status | Effects | None:
    try:
        answer = method(state, pod, node_name)
    except RAISED as problem:
        answer = profile.problem(plugin.name, point, problem)
    if isinstance(answer, Status) and not answer.success:
        if answer.rejected:
            return answer.with_plugin(plugin.name)
        if answer.code is not Code.SKIP or point != "Bind":
            return wrap(f'running {point} plugin "{plugin.name}"', answer, plugin.name)
    result: Status | Effects | None = answer
    return result
