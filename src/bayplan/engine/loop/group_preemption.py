"""Room for a whole pod group, as 1.37 makes it: the domain is the cluster.

All less important pods are taken off; if the group then finds its nodes, they are put back one by
one, the most important first and those protected by a disruption budget before the others. Who
takes a place that the group was given is a victim. Pods of a group that leaves as one count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.api import Pod
from bayplan.engine.engine import Engine
from bayplan.engine.loop.gangs import Gang, policy_of
from bayplan.engine.loop.group_cycle import Cycle, Nominations
from bayplan.framework import NominatingInfo, NominatingMode, Status
from bayplan.framework.contract.status import Code
from bayplan.framework.runtime.profile import Profile
from bayplan.plugins.default_preemption.plugin import is_leaving_for_us
from bayplan.plugins.default_preemption.units import Unit, Units, by_importance, split
from bayplan.plugins.default_preemption.victims import Budgets, compile_budgets

PREFIX = "pod group preemption: "
DEVICES = "DynamicResources"
GIVEN_BACK = "deallocation and deletion of ResourceClaims completed"
"""What the plugin of devices says of a group that does not fit, whether or not it has claims."""


class Room(NamedTuple):
    """What can be done for a group."""

    text: str
    nominations: Nominations
    victims: list[Pod]
    helps: bool = True
    final: bool = True
    """Whether no other plugin has a say."""


def make_room(cycle: Cycle, engine: Engine, profile: Profile, now: float) -> list[Pod]:
    """Look for room for a group that found none; the cycle is told, the victims are returned."""
    if not cycle.decisions and DEVICES in profile.plugins:
        # its part for groups asks for what its PreFilter left, which was not asked
        text = f'error in "{DEVICES}" PodGroupPostFilter plugins: not found'
        cycle.error, cycle.message = Status(Code.ERROR, text), text
        return []
    if "DefaultPreemption" not in profile.plugins:
        return []
    room = GroupPreemption(engine, cycle.gang, now).find()
    cycle.remedy, cycle.nominations = room.text, room.nominations
    if not room.final and DEVICES in profile.plugins:
        cycle.remedy = f"{GIVEN_BACK}, {room.text}"
    cycle.waits_for_victims = room.helps
    return room.victims


class GroupPreemption:
    """One search for victims; the cluster is as before when it is over."""

    def __init__(self, engine: Engine, gang: Gang, now: float) -> None:
        self._engine = engine
        self._gang = gang
        self._now = now
        self._table = engine.cache.table
        self._units = Units(self._table, engine.cache.objects)

    def find(self) -> Room:
        """Who has to go for the group, or why nobody can."""
        pods = [item.pod for item in self._gang.items]
        if any(policy_of(pod) == "Never" for pod in pods):
            return _helpless("not eligible due to preemptionPolicy=Never.")
        if self._under_way(pods):
            nominations = {pod.uid: _to(pod.status.nominated_node_name) for pod in pods}
            return Room(f"{PREFIX}ongoing preemption on nominated nodes", nominations, [])
        every = self._units.of(self._table.all_pods())
        units = [unit for unit in every if unit.priority < self._gang.priority]
        if not units:
            room = _helpless("No preemption victims found for incoming preemptor")
            return room._replace(final=True)
        for unit in units:
            self._take_off(unit)
        gone = list(units)
        try:
            cycle = Cycle(self._engine, self._gang, self._now)
            cycle.run()
            if not cycle.placed:
                return _helpless(cycle.message)
            cycle.undo()
            gone = self._victims(cycle, units)
        finally:
            for unit in gone:
                self._put_back(unit)
        victims = [info.pod for unit in by_importance(gone, self._now) for info in unit.infos]
        text = f"{PREFIX}found a placement for podgroup, preempting {len(victims)} victims"
        pairs = zip(cycle.decisions, cycle.nodes, strict=True)
        nominations = {decision.info.uid: _to(node) for decision, node in pairs if node}
        return Room(text, nominations, victims)

    def _under_way(self, pods: Sequence[Pod]) -> bool:
        """Whether victims are leaving the nodes that the group was promised."""
        names = {pod.status.nominated_node_name for pod in pods} - {""}
        return any(
            self._units.priority(info.pod) < self._gang.priority and is_leaving_for_us(info.pod)
            for name in names
            for info in self._table.pods_of(name)
        )

    def _victims(self, cycle: Cycle, units: Sequence[Unit]) -> list[Unit]:
        """The units that cannot stay; the others are back on their nodes."""
        compiled = compile_budgets(list(self._engine.cache.objects.pod_disruption_budgets))
        budgets = Budgets(compiled, all_count=False)
        gone = []
        for unit, _ in split(by_importance(units, self._now), budgets):
            self._put_back(unit)
            if not self._still_fits(cycle):
                self._take_off(unit)
                gone.append(unit)
        return gone

    def _still_fits(self, cycle: Cycle) -> bool:
        """Whether every pod of the group still fits where it was placed, one after the other."""
        engine = self._engine
        held = []
        try:
            for decision, node in zip(cycle.decisions, cycle.nodes, strict=True):
                if not node:
                    continue
                if not engine.fits_on(decision, node):
                    return False
                engine.hold(decision)
                held.append(decision)
            return True
        finally:
            for decision in reversed(held):
                engine.undo(decision)

    def _take_off(self, unit: Unit) -> None:
        for info in unit.infos:
            self._table.remove_pod(info)

    def _put_back(self, unit: Unit) -> None:
        for info in unit.infos:
            self._table.add_pod(info)


def _to(node_name: str) -> NominatingInfo:
    return NominatingInfo(node_name, NominatingMode.OVERRIDE)


def _helpless(text: str) -> Room:
    return Room(PREFIX + text, {}, [], helps=False, final=False)
