"""One cycle for a whole pod group: its pods are placed one after the other, each seeing those
before it, and all are taken back unless the group's demand is met.

1.37 gives up as soon as the demand cannot be met any more, and then looks for room for the group as
a whole (`group_room`). 1.36 tries every pod, and each may preempt for itself.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api import Pod
from bayplan.cluster.pod_groups import REASON_WAIT
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.engine.loop.gangs import Gang
from bayplan.errors import RAISED
from bayplan.framework import CLEAR_NOMINATION, NominatingInfo, NominatingMode, Status
from bayplan.framework.runtime import binding

UNSCHEDULABLE = "pod group is unschedulable"
WAITING = "pod group is waiting for preemption to complete"

Nominations = dict[str, NominatingInfo]
"""By the pod's uid where it is to go when room was made."""


def shortage(needed: int, scheduled: int, left: int) -> str:
    """Why a demand cannot be met any more; empty if it still can."""
    if left + scheduled >= needed:
        return ""
    return f"minCount ({needed}) cannot be satisfied: {scheduled} scheduled, {left} remaining"


class Cycle:
    """What came of one cycle; if the group was not placed, nothing is left placed."""

    def __init__(self, engine: Engine, gang: Gang, now: float) -> None:
        self.gang = gang
        self.size = len(gang.items)
        """With how many pods it waits for another cycle."""
        self.decisions: list[Decision] = []
        """One for each pod that was tried; those that come after were not."""
        self.nodes: list[str] = []
        """The node of each decision, even if it was taken back; empty if there was none."""
        self.placed = False
        self.message = ""
        """Why the group was not placed."""
        self.cause = ""
        """The same as an error, which is how placements are told of."""
        self.by_placement = False
        """Whether it is one of several sets of nodes that the group was tried on."""
        self.elsewhere: set[str] = set()
        """Plugins that rejected the group on other sets of nodes, or before any was tried."""
        self.remedy = ""
        """What is done about it."""
        self.nominations: Nominations = {}
        self.error: Status | None = None
        """What ended the cycle if it was no rejection."""
        self.waits_for_victims = False
        self._refusal = ""
        """What pods are told that had a node, if not what the group is told."""
        self._engine = engine
        self._now = now
        self._held: list[Decision] = []

    # -- 1.37 -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Try the pods in order until it is clear that the demand cannot be met.

        A group whose demand was met before counts as placed, whether or not a pod finds a node.
        """
        scheduled, left = len(self.gang.scheduled), len(self.gang.items)
        short = self._short(scheduled, left)
        if short:
            self.message, self.cause = f"{UNSCHEDULABLE}, {short}", UNSCHEDULABLE
            return
        for item in self.gang.items:
            if not self._try(item.pod, None):
                return
            left -= 1
            scheduled += self.decisions[-1].placed
            self.message = self.cause = self._short(scheduled, left)
            if self.message:
                break
        self.placed = not self.message
        if not self.placed:
            self.undo()

    def conclude(self) -> None:
        """A group of which no pod found a node was not placed."""
        if self.placed and not any(self.nodes):
            self.placed, self.message = False, UNSCHEDULABLE

    def _short(self, scheduled: int, left: int) -> str:
        return shortage(self.gang.needed, scheduled, left)

    @property
    def any_scheduled(self) -> bool:
        """Whether the group was placed, and a pod of it in this cycle."""
        return self.placed and any(self.nodes)

    # -- 1.36 -------------------------------------------------------------------------------------

    def run_each(self, preempt: Callable[[Decision], None] | None) -> None:
        """Try every pod; those that need victims get them at once and count as placed.

        Without `preempt` nobody gets victims.
        """
        have = len(self.gang.scheduled)
        self.message = self.cause = UNSCHEDULABLE
        self._refusal = f"{UNSCHEDULABLE}, {REASON_WAIT}, {binding.WAITING}"
        for item in self.gang.items:
            if not self._try(item.pod, preempt):
                return
            have += bool(self.nodes[-1])
            if self.nodes[-1] and have >= self.gang.needed:
                self.placed = all(
                    decision.placed
                    for decision, node in zip(self.decisions, self.nodes, strict=True)
                    if node
                )
        if not self.placed:
            self.waits_for_victims = have >= self.gang.needed and any(self.nodes)
            if self.waits_for_victims:
                self.message = self._refusal = f"{UNSCHEDULABLE}, {WAITING}"
                self._nominate()
            self.undo()

    def _nominate(self) -> None:
        for decision, node in zip(self.decisions, self.nodes, strict=True):
            if node:
                nominating = NominatingInfo(node, NominatingMode.OVERRIDE)
                self.nominations[decision.info.uid] = nominating

    # -- both -------------------------------------------------------------------------------------

    def _try(self, pod: Pod, preempt: Callable[[Decision], None] | None) -> bool:
        """Try one pod; False if that ends the cycle."""
        engine, asks = self._engine, preempt is not None
        try:
            decision = engine.place_in_group(pod, self._now, post_filter=asks)
        except RAISED:
            self.undo()  # only this cycle knows what it holds
            raise
        self.decisions.append(decision)
        self.nodes.append(decision.node_name)
        status = decision.status
        if decision.placed:
            self._held.append(decision)
        elif status is not None and not status.rejected:
            self.error = status
            self.message = f"failed to schedule other pod from a pod group: {decision.message}"
            self.undo()
        elif preempt is not None and decision.victims is not None:
            preempt(decision)
            self._hold_nominated(decision)
        return self.error is None

    def _hold_nominated(self, decision: Decision) -> None:
        """Later pods see a pod that waits for victims as if it ran already."""
        assert decision.nominating is not None
        stand_in = Decision(decision.info, decision.profile, decision.state)
        stand_in.node_name = decision.nominating.nominated_node_name
        if self._engine.hold(stand_in).placed:
            self.nodes[-1] = stand_in.node_name
            self._held.append(stand_in)

    def undo(self) -> None:
        """Take all pods back."""
        for decision in reversed(self._held):
            self._engine.undo(decision)
        self._held = []

    def redo(self) -> None:
        """Place the pods again that were taken back."""
        for decision in self.decisions:
            if decision.placed and self._engine.hold(decision).placed:
                self._held.append(decision)

    @property
    def rejectors(self) -> set[str]:
        """Plugins whose events may help the group."""
        return self.elsewhere.union(*(found.unschedulable_plugins for found in self.decisions))

    def errors(self) -> dict[int, str]:
        """What pods met that was no rejection, by their place."""
        tried = [(decision.status, decision.message) for decision in self.decisions]
        return {
            number: message
            for number, (status, message) in enumerate(tried)
            if status is not None and not status.rejected
        }

    @property
    def told_group(self) -> str:
        """What the group is told if it was not placed."""
        return ", ".join(text for text in (self.message, self.remedy) if text)

    def told(self, number: int) -> tuple[str, NominatingInfo | None]:
        """What the pod at a place is told if the group was not placed, and its nomination."""
        nominating = self.nominations.get(self.gang.items[number].pod.uid)
        if number >= len(self.decisions):
            return self.message, nominating
        decision, node = self.decisions[number], self.nodes[number]
        if not node or (self.waits_for_victims and not decision.placed):
            return decision.message, nominating
        if self.waits_for_victims:
            return self.told_group, nominating
        return self._refusal or f"{UNSCHEDULABLE}, {self.told_group}", CLEAR_NOMINATION
