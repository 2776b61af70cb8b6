"""Packs a cluster: bound and placement from the solver, the last word from the engine's filters.

If the filters refuse a pod of the best placement (its constraint was left out of the numbers), that
pod stays where it is and the search is made again; the bound of the first search remains true.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import numpy as np
from msgspec.structs import replace

from bayplan.api.labels import Selector, SelectorError, parse_selector
from bayplan.cluster.arrays import IntArray
from bayplan.framework import PodInfo
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import InspectError
from bayplan.inspect.pack.answer import Packing, Plan
from bayplan.inspect.pack.choosing import CHECKED, Choice
from bayplan.inspect.pack.pending import Pending
from bayplan.inspect.pack.pricing import Prices
from bayplan.inspect.trial import Trial
from bayplan.pack.assigning import count_moves, moves_of, swap_equal
from bayplan.pack.emptying import empty_nodes
from bayplan.pack.exact import Exact
from bayplan.pack.holding import holds
from bayplan.pack.model import Problem
from bayplan.pack.search import SMALL, Progress, Search

AGAIN = 12
"""How often pods that the filters refuse are pinned and the search is made anew."""
FEWER_SECONDS = 5.0


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    seconds: float = 10.0
    prices: tuple[str, ...] = ()
    keep: str = ""
    """Pods with these labels stay."""
    force: bool = False
    """Whether pods without an owner may move too."""
    max_moves: int = -1
    """-1: any number."""
    plan: bool = False


class Asking:
    """One question, which may be stopped from another thread."""

    def __init__(
        self, cluster: Cluster, wishes: Wishes, told: Callable[[Progress], None] | None = None
    ) -> None:
        self.cluster, self.wishes, self._told = cluster, wishes, told
        self._end = time.monotonic() + wishes.seconds
        self._search: Search | None = None
        self._stopped = False
        self._prices = Prices(wishes.prices)

    def stop(self) -> None:
        """Answer with what is best by now."""
        self._stopped = True
        if self._search is not None:
            self._search.stop()

    @property
    def stopped(self) -> bool:
        return self._stopped

    @property
    def left(self) -> float:
        return 0.0 if self._stopped else max(self._end - time.monotonic(), 0.0)

    def run(self) -> Packing:
        """Everything that was asked for."""
        begin = time.monotonic()
        choice = Choice(self.cluster.engine, _selector(self.wishes.keep), force=self.wishes.force)
        problem = self._problem(choice)
        first, bound = problem, -1
        for _ in range(AGAIN):
            placed, least = self._best(problem)
            bound = least if bound < 0 else bound
            refused = self._refused(choice, problem, placed)
            if not refused:
                break
            choice.pin(refused, CHECKED)
            problem = self._problem(choice)
        else:
            placed = problem.now
        moves = moves_of(problem, placed)
        plan = self._plan(problem, moves) if self.wishes.plan else None
        found = self._answer(choice, first, problem, placed, bound, moves, plan)
        pending = Pending(self.cluster, choice, self.wishes.seconds).answers()
        return replace(found, pending=pending, seconds=round(time.monotonic() - begin, 3))

    def _problem(self, choice: Choice) -> Problem:
        problem = choice.problem()
        problem.cost = self._prices.costs(choice.engine.cache.table.nodes)
        return problem

    # -- searching ------------------------------------------------------------------------------

    def _best(self, problem: Problem) -> tuple[IntArray, int]:
        """A placement with few moves among the cheapest that were found, and the bound."""
        most = self.wishes.max_moves
        search = self._search = Search(problem, self.left, start=problem.now, told=self._told)
        search.offer(empty_nodes(problem), "emptying")
        result = search.run()
        if most >= 0:
            return self._within(problem, most), result.bound
        placed = swap_equal(problem, result.placed[0])
        if not holds(problem, placed):  # a rule told the nodes apart after all
            placed = result.placed[0]
        return self._fewer_moves(problem, placed), result.bound

    def _within(self, problem: Problem, most: int) -> IntArray:
        """The cheapest placement that so many moves reach."""
        placed = empty_nodes(problem, most)
        if problem.allowed.sum() > SMALL:
            return placed
        model = Exact(problem)
        model.hint(placed)
        model.model.add(model.moves() <= most)
        model.model.minimize(model.cost)
        found = model.solve(max(self.left, FEWER_SECONDS if not self._stopped else 0.0)).placed
        better = found is not None and problem.cost_of(problem.used(found)) < problem.cost_of(
            problem.used(placed)
        )
        return found if better and found is not None else placed

    def _fewer_moves(self, problem: Problem, placed: IntArray) -> IntArray:
        cost = problem.cost_of(problem.used(placed))
        if problem.allowed.sum() > SMALL or self._stopped:
            return placed
        model = Exact(problem)
        model.hint(placed)
        model.model.add(model.cost <= cost)
        model.model.minimize(model.moves())
        found = model.solve(min(FEWER_SECONDS, max(self.left, 1.0))).placed
        fewer = found is not None and count_moves(problem, found) < count_moves(problem, placed)
        return found if fewer and found is not None else placed

    # -- judging --------------------------------------------------------------------------------

    def _refused(self, choice: Choice, problem: Problem, placed: IntArray) -> set[str]:
        """Pods that the filters would not let where the placement has them."""
        moves = moves_of(problem, placed)
        if not moves:
            return set()
        with Trial(choice.engine, self.cluster.now) as trial:
            for info, row in moves.values():
                pod = info.pod
                trial.put(replace(pod, spec=replace(pod.spec, node_name=problem.names[row])))
            infos = [i for i in map(choice.engine.cache.pod, _uids(choice)) if i is not None]
            refused = choice.check.refused(infos)
        kept = {uid for uid in choice.lenient if uid not in moves}
        return _some(moves, {uid for uid in refused if uid not in kept})

    def _plan(self, problem: Problem, moves: dict[str, tuple[PodInfo, int]]) -> Plan:
        from bayplan.inspect.pack.planning import Planning

        return Planning(self.cluster, problem, moves).run()

    # -- telling --------------------------------------------------------------------------------

    def _answer(
        self,
        choice: Choice,
        first: Problem,
        problem: Problem,
        placed: IntArray,
        bound: int,
        moves: dict[str, tuple[PodInfo, int]],
        plan: Plan | None,
    ) -> Packing:
        before, after = first.used_now, problem.used(placed)
        cost_now, cost = first.cost_of(before), problem.cost_of(after)
        least = bound if not self._prices.given else _fewest(first, bound)
        return Packing(
            in_use=int(before.sum()),
            would_do=int(after.sum()),
            proven_least=least,
            cost_now=cost_now,
            cost_best=cost,
            cost_bound=bound,
            priced=self._prices.given,
            proven=cost == bound,
            gap=round((cost - bound) / bound, 4) if bound > 0 else 0.0,
            moves=len(moves),
            empties=tuple(sorted(first.names[r] for r in np.flatnonzero(before & ~after).tolist())),
            placement={info.pod.key: problem.names[row] for info, row in moves.values()},
            stay=choice.reasons(),
            plan=plan,
            notes=tuple(self._notes(choice, first)),
        )

    def _notes(self, choice: Choice, problem: Problem) -> list[str]:
        notes = [f"not read: {u.what}: {u.without}" for u in self.cluster.origin.unread]
        if problem.unmodelled:
            names = ", ".join(sorted(problem.unmodelled))
            notes.append(f"left out of the bound, checked in the placement: {names}")
        unused = self._prices.unused(choice.engine.cache.table.nodes)
        notes += [f"no node has the label of --price {label}" for label in unused]
        return notes + list(self.cluster.settings.warnings)


def pack(
    cluster: Cluster, wishes: Wishes | None = None, told: Callable[[Progress], None] | None = None
) -> Packing:
    """How few nodes would do; nothing changes."""
    return Asking(cluster, wishes or Wishes(), told).run()


def _some(moves: dict[str, tuple[PodInfo, int]], refused: set[str]) -> set[str]:
    """Half of the refused pods that came to a node: the rest may fit without them."""
    by_row: dict[int, list[str]] = {}
    for uid in sorted(refused & moves.keys()):
        by_row.setdefault(moves[uid][1], []).append(uid)
    return {uid for uids in by_row.values() for uid in uids[: (len(uids) + 1) // 2]} or refused


def _fewest(problem: Problem, bound: int) -> int:
    """Nodes that are needed if the cost is at least so much, with the dearest first."""
    dearest = np.sort(problem.cost)[::-1].cumsum()
    return int(np.searchsorted(dearest, bound)) + 1 if bound > 0 else 0


def _uids(choice: Choice) -> list[str]:
    return [info.uid for info in choice.movers]


def _selector(text: str) -> Selector | None:
    if not text:
        return None
    try:
        return parse_selector(text)
    except SelectorError as problem:
        raise InspectError(f'--keep "{text}" is not a label selector: {problem}') from None
