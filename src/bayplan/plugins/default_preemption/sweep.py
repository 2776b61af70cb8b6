"""One preemptor's way through the nodes that might help, which can stop and go on.

Rows are dry-run in list order until enough candidates are found. When time is up the sweep stops
between two rows, and a later attempt of the same pod goes on with it, provided that nothing it has
seen has changed since. If something has, it begins anew; dry runs that are remembered
(`memory.py`) then cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from bayplan.api import Pod
from bayplan.framework import Code, CycleState, Handle, PodInfo, Status, Victims
from bayplan.plugins.default_preemption.memory import Memory, Outcome
from bayplan.plugins.default_preemption.sums import Sums, only_sums
from bayplan.plugins.default_preemption.units import UnitRun, Units
from bayplan.plugins.default_preemption.victims import (
    Budgets,
    Cost,
    DryRun,
    Run,
    choose_victims,
    compile_budgets,
    cost_of,
    moving_filters,
    start_time,
)

ROWS = 128
"""So many rows are prepared at a time."""


class Sweep:
    """Candidates found so far, and the rows still to be tried."""

    def __init__(
        self,
        handle: Handle,
        pod: Pod,
        rows: list[int],
        wanted: int,
        failures: dict[Status, int],
        memory: Memory | None,
        units: Units | None = None,
    ) -> None:
        """`units`: which pods go together, where there are pod groups."""
        self._handle = handle
        self._pod = pod
        self._rows = rows
        self._wanted = wanted
        self._memory = memory
        self._place = 0
        """How many rows were tried."""
        self._safe: dict[str, Victims] = {}
        self._violating: dict[str, Victims] = {}
        self.failures = failures
        """How many nodes failed for each reason."""
        self.errors: dict[str, None] = {}
        """What went wrong, each said once."""
        compiled = compile_budgets(list(handle.objects.pod_disruption_budgets))
        self._old = not handle.gates.since("1.37")
        self._budgets = Budgets(compiled, all_count=self._old)
        self._units = units
        self._alike: dict[Hashable, tuple[list[int], int, Cost | None]] = {}
        """By shape of row: which pods must go, how many break a budget, and what that costs."""
        self.costs: dict[str, tuple[Victims, Cost]] = {}
        """By node, where that is known and does not hang on the clock."""
        self._past: set[str] = set()
        """Times of start that are over."""
        self._seen = self._stamp()
        self._journals = (handle.table.changes, handle.table.renewals)
        self._read = [journal.generation for journal in self._journals]

    @property
    def candidates(self) -> dict[str, Victims]:
        """Victims by node; those that break no budget first."""
        return {**self._safe, **self._violating}

    def holds_for(self, pod: Pod, rows: list[int], memory: Memory | None) -> bool:
        """Whether the sweep may go on for a pod: all that it has seen is as it was.

        `memory` is what a sweep that begins now would use: another one, or none, if filters have
        come to look at more than one node.
        """
        if pod is not self._pod or rows != self._rows or memory is not self._memory:
            return False
        if self._stamp() != self._seen:
            return False
        told = [journal.since(n) for journal, n in zip(self._journals, self._read, strict=True)]
        changed, renewed = told
        if changed is None or renewed is None or (changed and memory is None):
            return False
        if not {*changed, *renewed}.isdisjoint(rows[: self._place]):
            return False
        self._read = [journal.generation for journal in self._journals]
        return True

    def run(self, state: CycleState, late: Callable[[], bool]) -> bool:
        """Try rows until there are enough candidates; False if time was up before."""
        handle, rows = self._handle, self._rows
        profile = handle.profile
        assert profile is not None
        moving = moving_filters(profile, state, self._pod)
        sums = None
        if self._units is None and only_sums(profile, state, moving):
            sums = Sums(profile, state, self._pod, handle.table, moving)
        self._alike.clear()  # who has not started is as old as the attempt
        begun = self._place
        for place in range(begun, len(rows)):
            if place > begun and late():
                return False
            row = rows[place]
            if sums is not None and (place - begun) % ROWS == 0:
                sums.prepare(rows[place : place + ROWS])
            name = handle.table.name_of(row)
            self._take(name, self._outcome(row, name, state, moving, sums))
            self._place = place + 1
            if self._safe and len(self._safe) + len(self._violating) >= self._wanted:
                break
        return True

    def _stamp(self) -> Hashable:
        handle = self._handle
        objects = handle.objects
        budgets, devices = objects.pod_disruption_budgets, objects.device_classes
        read = (budgets.revision, devices.revision)
        return (
            handle.table.nodes_revision,
            handle.nominator.revision,
            objects.revision if self._memory is None else read,
        )

    def _take(self, name: str, found: Outcome) -> None:
        if isinstance(found, Victims):
            (self._violating if found.pdb_violations else self._safe)[name] = found
        elif found.code is Code.ERROR:
            self.errors[found.message] = None
        else:
            self.failures[found] = self.failures.get(found, 0) + 1

    def _outcome(
        self, row: int, name: str, state: CycleState, moving: Sequence[Any], sums: Sums | None
    ) -> Outcome:
        handle, memory = self._handle, self._memory
        infos = handle.table.pods[row]
        nominated = handle.nominator.pods_for(name) if len(handle.nominator) else []
        if memory is None or nominated:
            return self._dry_run(row, name, state, moving, None if nominated else sums, nominated)
        pods = [info.pod for info in infos]
        found = memory.get(row, pods)
        if found is None:
            found = self._dry_run(row, name, state, moving, sums, nominated)
            erred = isinstance(found, Status) and found.code is Code.ERROR
            if not erred and not self._any_later(pods):
                memory.keep(row, pods, found)
        return found

    def _dry_run(
        self,
        row: int,
        name: str,
        state: CycleState,
        moving: Sequence[Any],
        sums: Sums | None,
        nominated: Sequence[PodInfo],
    ) -> Outcome:
        handle, priority = self._handle, self._pod.priority
        table, profile = handle.table, handle.profile
        assert profile is not None
        if self._units is not None:
            units = self._units.of(table.pods[row])
            trial = UnitRun(table, profile, state, self._pod, table.info(row), nominated, moving)
            return trial.choose(units, self._budgets, priority, handle.now)
        potential = [info for info in table.pods[row] if info.traits.priority < priority]
        if sums is not None:
            found = self._by_shape(row, name, potential, sums)
            if found is not None:
                return found
        run = DryRun(profile, state, self._pod, table.info(row), nominated, moving)
        return self._chosen(run, name, potential)

    def _chosen(self, run: Run, name: str, potential: Sequence[PodInfo]) -> Outcome:
        now, old = self._handle.now, self._old
        return choose_victims(run, name, potential, self._budgets, now, asks_again=old)

    def _by_shape(
        self, row: int, name: str, potential: list[PodInfo], sums: Sums
    ) -> Outcome | None:
        """What a row comes to if only sums count; None if the preemptor does not fit even so."""
        now = self._handle.now
        shape = None if self._budgets.know_names else sums.shape(row, potential)
        known = None if shape is None else self._alike.get(shape)
        if known is not None:
            places, violations, cost = known
            found = Victims(tuple([potential[place].pod for place in places]), violations)
        else:
            run = sums.run(row, potential)
            told = None if run is None else self._chosen(run, name, potential)
            if not isinstance(told, Victims):
                return told
            found, started = told, all(pod.status.start_time for pod in told.pods)
            cost = cost_of(told, now) if started else None
            at = {id(info.pod): place for place, info in enumerate(potential)}
            gone = [at[id(pod)] for pod in found.pods]
            if shape is not None:
                self._alike[shape] = (gone, found.pdb_violations, cost)
        if cost is not None:
            self.costs[name] = (found, cost)
        return found

    def _any_later(self, pods: Sequence[Pod]) -> bool:
        """Whether a pod says that it starts later: its importance changes with the clock."""
        past, now = self._past, self._handle.now
        for pod in pods:
            text = pod.status.start_time
            if text not in past:
                if start_time(pod, now) > now:
                    return True
                past.add(text)
        return False
