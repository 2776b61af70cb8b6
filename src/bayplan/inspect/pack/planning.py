"""Puts moves into an order that works: the engine decides each step before it is written down.

A move is an eviction and what its owner makes in its place. The nodes to be emptied are cordoned
first; where the scheduler would rather put a pod elsewhere, those nodes are cordoned for that one
step. While a new pod looks for its node the old one still takes its room (a stateful set waits
until it is gone), and no eviction is written down that a budget would refuse. If every move waits
for another one, a pod makes a stopover.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.framework import PodInfo
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.pack.answer import Plan, Step
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.draining import cordoned
from bayplan.inspect.whatif.owners import (
    Remake,
    release_claims,
    remake,
    successor,
    title,
    with_claims,
)
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.pack.model import Problem

STEERING = 200
"""Up to how many nodes are cordoned for one step."""
STOPOVERS = 50

Moves = dict[str, tuple[PodInfo, int]]


class Planning:
    """One plan, rehearsed in the engine and taken back."""

    def __init__(
        self,
        cluster: Cluster,
        problem: Problem,
        moves: Moves,
        *,
        then: Sequence[Pod] = (),
        emptying: bool = True,
    ) -> None:
        """`then`: pending pods that are to find their nodes at the end."""
        self._cluster, self._problem = cluster, problem
        self._left: dict[str, tuple[str, str]] = {
            uid: (info.pod.key, problem.names[row]) for uid, (info, row) in moves.items()
        }
        """Uid of the pod as it is now to its key and where it is to go."""
        self._steps: list[Step] = []
        self._closed: set[str] = set()
        """Nodes that are cordoned by this plan."""
        self._number = 0
        self._then = then
        self._why = ""
        targets = {problem.names[row] for _, row in moves.values()}
        sources = {info.node_name for info, _ in moves.values()}
        staying = self._staying(moves)
        self._empties = sorted(
            name
            for name in (sources - targets - staying if emptying else ())
            if not problem.forced[self._row(name)]
        )

    def _staying(self, moves: Moves) -> set[str]:
        leaving: dict[str, int] = {}
        for info, _ in moves.values():
            leaving[info.node_name] = leaving.get(info.node_name, 0) + 1
        return {
            name
            for row, name in enumerate(self._problem.names)
            if int(self._problem.now[:, row].sum()) > leaving.get(name, 0)
        }

    def _row(self, name: str) -> int:
        return self._problem.names.index(name)

    # -- the order --------------------------------------------------------------------------------

    def run(self) -> Plan:
        """Rehearse all moves."""
        with Rehearsal(self._cluster.engine, self._cluster.now) as trial:
            self._trial, self._budgets = trial, Budgets(self._cluster)
            self._cordon(self._empties)
            stopovers = 0
            while self._left:
                if self._pass():
                    continue
                if stopovers >= STOPOVERS or not self._stop_over():
                    break
                stopovers += 1
            complete = not self._left
            emptied = [name for name in self._empties if not self._inhabited(name)]
            self._uncordon(sorted(self._closed - set(emptied)))
            complete = complete and self._place_rest()
        return Plan(
            steps=tuple(self._steps),
            moves=sum(step.do == "evict" for step in self._steps),
            empties=tuple(emptied),
            complete=complete,
            why_not="" if complete else self._why,
        )

    def _place_rest(self) -> bool:
        """See pending pods placed, now that there is room."""
        for pod in self._then:
            decision = self._trial.fill(pod)
            if not decision.placed:
                self._why = f"{pod.key} is still not placed by the scheduler: {decision.message}"
                return False
            self._steps.append(Step(do="place", pod=pod.key, target=decision.node_name))
        return True

    def _pass(self) -> bool:
        """Try every move once; True if any worked."""
        before = len(self._left)
        for uid in list(self._left):
            if self._move(uid, self._left[uid][1]):
                del self._left[uid]
        return len(self._left) < before

    def _inhabited(self, name: str) -> bool:
        """Whether a node still has a pod that does not belong to it."""
        return any(
            remake(info.pod) is not Remake.STAYS and not info.terminating
            for info in self._trial.pods_on(name)
        )

    def _stop_over(self) -> bool:
        """Let one pod go wherever there is room, so that another can take its place."""
        for uid in list(self._left):
            key, target = self._left[uid]
            moved = self._move(uid, "")
            if moved:
                del self._left[uid]
                self._left[moved] = (key, target)
                return True
        return False

    # -- one step ---------------------------------------------------------------------------------

    def _move(self, uid: str, target: str) -> str:
        """Evict a pod and see its successor placed; its uid, or nothing and nothing changed."""
        trial, info = self._trial, self._trial.engine.cache.pod(uid)
        if info is None:
            return ""
        pod, source = info.pod, info.node_name
        refusal = self._budgets.refusal(pod)
        if refusal:
            self._why = f"{pod.key} cannot be evicted: {refusal}"
            return ""
        mark, steps, closed = trial.mark, len(self._steps), set(self._closed)
        healthy = self._budgets.gone(pod, trial)
        made = self._make(info)
        node = "" if healthy else self._place(made, target)
        if not node:
            trial.undo(mark)
            del self._steps[steps:]
            self._closed = closed
            return ""
        self._budgets.back(made, trial)
        if remake(pod) is not Remake.WHEN_GONE:
            going = trial.engine.cache.pod(uid)
            assert going is not None
            trial.take(going)
            release_claims(trial, pod)
        owner = title(self._cluster, pod)
        self._steps.append(
            Step(do="evict", pod=pod.key, owner=owner, source=source, target=node,
                 stopover=not target)
        )  # fmt: skip
        return made.uid

    def _make(self, info: PodInfo) -> Pod:
        """The old pod is told to go, and its owner makes another."""
        self._number += 1
        made = with_claims(self._trial, info.pod, successor(info.pod, self._number))
        if remake(info.pod) is Remake.WHEN_GONE:
            self._trial.take(info)
            release_claims(self._trial, info.pod)
        else:
            self._trial.terminate(info)
        return made

    def _place(self, pod: Pod, target: str) -> str:
        """Have the scheduler put a pod on its target, closing what it would rather take."""
        trial = self._trial
        if not target:
            return trial.fill(pod).node_name
        self._uncordon([target] if target in self._closed else [])
        for _ in range(STEERING):
            decision = trial.decide(pod, preempt=False)
            if not decision.placed:
                self._why = f"{pod.key} would not fit on {target}: {decision.message}"
                return ""
            rivals = self._rivals(decision, target)
            if rivals is None:
                self._why = f"{pod.key} would not be placed on {target} yet"
                return ""
            if not rivals:
                placed = trial.fill(pod)
                assert placed.node_name == target, f"{pod.key}: {placed.node_name}, not {target}"
                return target
            if len(self._closed) + len(rivals) > STEERING + len(self._empties):
                self._why = f"to bring {pod.key} to {target}, too many nodes would be cordoned"
                return ""
            self._cordon(rivals)
        return ""

    def _rivals(self, decision: Decision, target: str) -> list[str] | None:
        """Nodes that the scheduler likes as much or more; None if the target does not fit."""
        found = self._trial.engine.all_scores(decision)
        scores = dict(zip(found.names, found.totals.tolist(), strict=True))
        if target not in scores:
            return None
        return [n for n, score in scores.items() if n != target and score >= scores[target]]

    # -- cordons ----------------------------------------------------------------------------------

    def _cordon(self, names: list[str]) -> None:
        fresh = [name for name in names if name not in self._closed and not self._is_closed(name)]
        if fresh:
            self._mark(fresh, True)
            self._closed |= set(fresh)
            self._steps.append(Step(do="cordon", nodes=tuple(fresh)))

    def _uncordon(self, names: list[str]) -> None:
        if names:
            self._mark(names, False)
            self._closed -= set(names)
            self._steps.append(Step(do="uncordon", nodes=tuple(names)))

    def _is_closed(self, name: str) -> bool:
        table = self._trial.engine.cache.table
        row = table.row_of(name)
        return row is not None and bool(table.unschedulable[row])

    def _mark(self, names: list[str], closed: bool) -> None:
        table = self._trial.engine.cache.table
        for name in names:
            row = table.row_of(name)
            assert row is not None
            self._trial.put(cordoned(table.nodes[row], unschedulable=closed))
