"""Room for a pod group that found none: PodGroupPostFilter plugins say how it could be made.

They try it on the table itself: pods are taken off and put back, the group is tried, and when a
plugin has answered every pod lies where it lay. Nobody else looks at the table meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from bayplan.api import CompositePodGroup, Pod, PodGroup
from bayplan.cluster.info import PodInfo
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.engine.loop.composite_cycle import CompositeCycle
from bayplan.engine.loop.gangs import Branch, Gang
from bayplan.engine.loop.group_cycle import Cycle
from bayplan.engine.loop.placement_cycle import run_cycle, with_nodes
from bayplan.framework import PodGroupInfo, ProposedAssignment, Status
from bayplan.framework.contract.groups import PodGroupPostFilterResult
from bayplan.framework.contract.handle import never
from bayplan.framework.contract.points import implements
from bayplan.framework.contract.results import ApiCall
from bayplan.framework.contract.status import Code
from bayplan.framework.runtime.placing import Proposal, run_pod_group_post_filters
from bayplan.framework.runtime.profile import Profile

POINT = "podGroupPostFilter"
UNREGISTERED = "default preemption plugin is not registered, workload aware preemption is disabled"
CONSTRAINED = (
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)

Tried = Cycle | CompositeCycle


class Room(NamedTuple):
    """What is to be done so that a group finds room."""

    victims: tuple[Pod, ...] = ()
    plugin: str = ""
    """Who wants them away."""
    calls: tuple[ApiCall, ...] = ()


def make_room(cycle: Cycle, engine: Engine, profile: Profile, now: float) -> Room:
    """Look for room for a group that found none; the cycle is told."""
    gates, gang = engine.handles[0].gates, cycle.gang
    modern = gates.since("1.37")
    if not modern and not gates["WorkloadAwarePreemption"]:
        return Room()
    asked = _Asked(engine, profile, gang, cycle, partial(run_cycle, engine, gang, now), now)
    if not modern:
        return _make_room_1_36(cycle, asked)
    result, status = asked.at_point()
    _tell(cycle, result, status, status.message)
    return _room(result, status)


def make_room_for_tree(
    whole: CompositeCycle, tree: Branch, engine: Engine, profile: Profile, now: float
) -> Room:
    """The same for a composite group; the cycles of all groups below it are told."""

    def again() -> CompositeCycle:
        other = CompositeCycle(engine, tree, now)
        other.run()
        return other

    result, status = _Asked(engine, profile, tree, whole, again, now).at_point()
    for name, cycle in whole.results.items():
        if isinstance(cycle, Cycle):
            _tell(cycle, result, status, whole.remedies(name, status.message))
    return _room(result, status)


def _make_room_1_36(cycle: Cycle, asked: _Asked) -> Room:
    """The configuration of 1.36 has no such point: whoever can is asked."""
    constraints = cycle.gang.group.spec.scheduling_constraints
    result, status = None, Status(Code.UNSCHEDULABLE, CONSTRAINED)
    if constraints is None or not constraints.topology:
        result, status = asked.anywhere()
    if status.rejected and not status.message:
        status = Status(Code.UNSCHEDULABLE, UNREGISTERED)
    _tell(cycle, result, status, "" if status.success else status.message)
    if status.rejected and not cycle.decisions:
        # pods that were not tried are told all that the group is told
        cycle.message, cycle.remedy = cycle.told_group, ""
    return _room(result, status)


def _tell(
    cycle: Cycle, result: PodGroupPostFilterResult | None, status: Status, remedy: str
) -> None:
    if not status.success and not status.rejected:
        cycle.error, cycle.message = status, status.message
        return
    cycle.remedy, cycle.waits_for_victims = remedy, status.success
    if status.success and result is not None:
        cycle.nominations = dict(result.nominating_infos)


def _room(result: PodGroupPostFilterResult | None, status: Status) -> Room:
    if result is None:
        return Room()
    calls = () if result.effects is None else result.effects.calls
    return Room(result.victims if status.success else (), status.plugin, calls)


class _Asked:
    """One round of questions to plugins."""

    def __init__(
        self,
        engine: Engine,
        profile: Profile,
        gang: Gang | Branch,
        failed: Tried,
        again: Callable[[], Tried],
        now: float,
    ) -> None:
        """`again` tries the group on the cluster as it is then."""
        self._profile = profile
        self._engine = engine
        self._failed = failed
        self._again = again
        group: PodGroup | CompositePodGroup = gang.group
        pods = tuple(item.pod for item in gang.items)
        self._info = PodGroupInfo(group, pods, tuple(with_nodes(engine, gang.scheduled)))
        for handle in engine.handles:
            handle.now, handle.late = now, never

    def at_point(self) -> Proposal:
        """What the plugins of the point say."""
        result, status = self._run(self._profile.at[POINT])
        if not status.success and not status.rejected:
            text = f'error in "{status.plugin}" PodGroupPostFilter plugins: {status.message}'
            return None, Status(Code.ERROR, text, plugin=status.plugin)
        return result, status

    def anywhere(self) -> Proposal:
        """What plugins of the profile say that could be at the point."""
        return self._run(p for p in self._profile.plugins.values() if implements(p, POINT))

    def _run(self, plugins: Iterable[Any]) -> Proposal:
        return run_pod_group_post_filters(self._profile, plugins, self._info, self._trying)

    @contextmanager
    def _trying(self) -> Iterator[TableTrial]:
        trial = TableTrial(self._engine, self._failed, self._again)
        try:
            yield trial
        finally:
            trial.restore()


class TableTrial:
    """The `GroupTrial` of one plugin."""

    def __init__(self, engine: Engine, failed: Tried, again: Callable[[], Tried]) -> None:
        self._engine = engine
        self._table = engine.cache.table
        self._failed = failed
        self._again = again
        self._gone: dict[str, PodInfo] = {}
        self._orders: dict[str, list[PodInfo]] = {}
        """How pods lay on the nodes that were touched."""
        self._decisions: dict[str, Decision] = {}
        """By uid those of the last try."""

    @property
    def tried(self) -> Sequence[ProposedAssignment]:
        return _proposed(self._failed)

    def remove_pod(self, info: PodInfo) -> None:
        name = info.node_name
        if name not in self._orders:
            self._orders[name] = list(self._table.pods_of(name))
        self._table.remove_pod(info)
        self._gone[info.uid] = info

    def add_pod(self, info: PodInfo) -> None:
        del self._gone[info.uid]
        self._table.add_pod(info)

    def schedule(self) -> tuple[Sequence[ProposedAssignment], Status | None]:
        cycle = self._again()
        if cycle.placed:
            cycle.undo()
            self._decisions = {decision.info.uid: decision for decision in cycle.decisions}
            return _proposed(cycle), None
        code = Code.UNSCHEDULABLE if cycle.error is None else Code.ERROR
        return _proposed(cycle), Status(code, cycle.message)

    def follow(self, proposed: Sequence[ProposedAssignment]) -> list[ProposedAssignment]:
        found = []
        with self._holding() as hold:
            for each in proposed:
                state = self._engine.pre_filtered(self._decisions[each.info.uid])
                found.append(each._replace(state=state))
                hold(each)
        return found

    def fits(self, proposed: Sequence[ProposedAssignment]) -> bool:
        with self._holding() as hold:
            for each in proposed:
                decision = self._decisions[each.info.uid]
                if not self._engine.fits_on(decision, each.node_name, each.state):
                    return False
                hold(each)
        return True

    @contextmanager
    def _holding(self) -> Iterator[Callable[[ProposedAssignment], None]]:
        """Give a way to hold pods on their nodes until the block ends."""
        held: list[Decision] = []

        def hold(each: ProposedAssignment) -> None:
            decision = self._decisions[each.info.uid]
            decision.node_name = each.node_name
            if self._engine.hold(decision).placed:
                held.append(decision)

        try:
            yield hold
        finally:
            for decision in reversed(held):
                self._engine.undo(decision)

    def restore(self) -> None:
        """Put everything back where it was."""
        for info in self._gone.values():
            self._table.add_pod(info)
        self._table.lay_as(self._orders)


def _proposed(cycle: Tried) -> list[ProposedAssignment]:
    found = []
    for decision, node in zip(cycle.decisions, cycle.nodes, strict=True):
        error = decision.fit_error
        statuses = None if error is None else error.diagnosis
        found.append(ProposedAssignment(decision.info, node, decision.state, statuses))
    return found
