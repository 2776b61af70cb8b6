"""One cycle for a composite pod group: its groups one after the other, each seeing those before it.

A composite group is tried on placements as a pod group is (`placement_cycle`), with its groups in
the place of pods: each is tried within the placement, and may have placements of its own. What
fits stays as long as the one above still may; if the group at the top does not fit, nothing stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bayplan.api import Pod
from bayplan.cluster.pod_groups import needed
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine, UnknownNodeError
from bayplan.engine.loop.gangs import Branch
from bayplan.engine.loop.group_cycle import UNSCHEDULABLE, Cycle, shortage
from bayplan.engine.loop.placement_cycle import PlacementCycle, with_nodes
from bayplan.errors import RAISED
from bayplan.framework import (
    Code,
    CycleState,
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    Status,
)
from bayplan.framework.runtime.placing import run_placement_generate, run_placement_score


class Twig:
    """What came of a composite group."""

    def __init__(self, message: str = "", error: Status | None = None) -> None:
        self.message = self.cause = message
        self.error = error
        self.placed = not message and error is None
        self.rejectors: set[str] = set()
        self.any_scheduled = False


Results = dict[str, Cycle | Twig]
"""By the group's kind and key; groups that were not tried are missing."""


class CompositeCycle:
    """What came of the whole tree; if it was not placed, nothing is left placed."""

    def __init__(self, engine: Engine, tree: Branch, now: float) -> None:
        self._engine = engine
        self._tree = tree
        self._now = now
        self._profile = engine.profiles[tree.items[0].pod.spec.scheduler_name]
        self.results: Results = {}
        self.owners: dict[str, str] = {}
        """By leaf whose words it was told: its own, or those of a group above it."""

    def run(self) -> None:
        root = self._try(self._tree, self.results)
        if isinstance(root, Twig) and root.placed and not root.any_scheduled:
            root.placed, root.message = False, UNSCHEDULABLE
            self.undo()
        if not root.placed:
            self.undo()

    @property
    def root(self) -> Twig:
        found = self.results[self._tree.name]
        assert isinstance(found, Twig)
        return found

    @property
    def placed(self) -> bool:
        return self.root.placed

    @property
    def message(self) -> str:
        return self.root.message

    @property
    def error(self) -> Status | None:
        return self.root.error

    @property
    def decisions(self) -> list[Decision]:
        return [one for cycle in self._cycles() for one in cycle.decisions]

    @property
    def nodes(self) -> list[str]:
        return [one for cycle in self._cycles() for one in cycle.nodes]

    def _cycles(self) -> Iterator[Cycle]:
        return (found for found in self.results.values() if isinstance(found, Cycle))

    def undo(self) -> None:
        for cycle in reversed(list(self._cycles())):
            cycle.undo()

    # -- one group after the other -----------------------------------------------------------------

    def _try(self, branch: Branch, results: Results) -> Cycle | Twig:
        if branch.gang is not None:
            engine, profile, now = self._engine, self._profile, self._now
            cycle = PlacementCycle(engine, profile, branch.gang, now, modern=True).run(Cycle.run)
            if cycle.placed:
                cycle.redo()
            results[branch.name] = cycle
            return cycle
        twig = self._on_placements(branch, results)
        results[branch.name] = twig
        return twig

    def _on_placements(self, branch: Branch, results: Results) -> Twig:
        engine, state = self._engine, CycleState()
        group = branch.group
        pods = tuple(item.pod for item in branch.items)
        scheduled = tuple(with_nodes(engine, branch.scheduled))
        info = PodGroupInfo(group, pods, scheduled)
        parent = Placement("", tuple(engine.searched()))
        placements, status = run_placement_generate(self._profile, state, info, parent)
        if status is not None:
            return _ended(status)
        tried: list[tuple[Placement, Twig, Results]] = []
        for placement in placements:
            inner: Results = {}
            try:
                with engine.within(placement.node_names):
                    twig = self._here(branch, inner)
            except UnknownNodeError as problem:
                text = f"failed to assume pod group placement: node {problem} in placement "
                return _ended(Status(Code.ERROR, f"{text}is not present in snapshot"))
            except RAISED:
                _take_back(inner)
                raise
            _take_back(inner)
            if twig.error is not None:
                return twig
            inner[branch.name] = twig
            tried.append((placement, twig, inner))
        fitting = [each for each in tried if each[1].placed]
        if not fitting:
            _, first, inner = tried[0]
            first.message = (
                f"{UNSCHEDULABLE}, 0/{len(placements)} placements are available, "
                f"first placement status: {first.cause}"
            )
            first.rejectors = set[str]().union(
                *(found.rejectors for _, _, each in tried for found in each.values())
            )
            results.update(inner)
            return first
        return self._best(branch, info, state, fitting, results)

    def _best(
        self,
        branch: Branch,
        info: PodGroupInfo,
        state: CycleState,
        fitting: Sequence[tuple[Placement, Twig, Results]],
        results: Results,
    ) -> Twig:
        best = fitting[0]
        if len(fitting) > 1:
            proposed = [
                PodGroupAssignments(place, tuple(_assigned(branch, inner)))
                for place, _, inner in fitting
            ]
            states = [CycleState() for _ in fitting]
            scores = run_placement_score(self._profile, state, info, proposed, states)
            if isinstance(scores, Status):
                return _ended(scores)
            best = fitting[scores.index(max(scores))]
        _, twig, inner = best
        for cycle in _fitting_leaves(branch, inner):
            cycle.redo()
        results.update(inner)
        return twig

    def _here(self, branch: Branch, results: Results) -> Twig:
        """Try the groups of a composite one on the nodes that are searched."""
        wanted, scheduled, left = needed(branch.group), 0, len(branch.children)
        short = shortage(wanted, scheduled, left)
        if short:
            return Twig(short)
        any_scheduled = False
        for child in branch.children:
            found = self._try(child, results)
            if found.error is not None:
                text = "composite pod group evaluation failed due to child error: "
                return _ended(Status(Code.ERROR, text + found.message))
            any_scheduled = any_scheduled or found.any_scheduled
            left -= 1
            scheduled += found.placed
            short = shortage(wanted, scheduled, left)
            if short:
                break
        twig = Twig(short)
        twig.any_scheduled = any_scheduled and twig.placed
        if not twig.placed:
            _take_back(results)
        return twig

    # -- what each group is told -------------------------------------------------------------------

    def complete(self) -> None:
        """Give every leaf a result: one that a group above did not let stay is told why."""
        self._complete(self._tree, None, "")

    def _complete(self, branch: Branch, above: Cycle | Twig | None, owner: str) -> None:
        found = self.results.get(branch.name)
        lost = above is not None and not above.placed
        own = found is not None and not (lost and found.placed)
        self.owners[branch.name] = branch.name if own else owner
        if not own:
            assert above is not None
            if branch.gang is None:
                found = Twig(above.message, above.error)
                found.placed = above.placed
            else:
                found = Cycle(self._engine, branch.gang, self._now)
                found.message, found.error = above.message, above.error
                found.placed = above.placed
            self.results[branch.name] = found
        assert found is not None
        for child in branch.children:
            self._complete(child, found, self.owners[branch.name])

    def remedies(self, name: str, text: str) -> str:
        """What is done about it, as often as groups share the words of one; as upstream."""
        return ", ".join([text] * Counter(self.owners.values())[self.owners[name]]) if text else ""


def _ended(status: Status) -> Twig:
    twig = Twig(status.message, None if status.rejected else status)
    twig.placed, twig.rejectors = False, {status.plugin} - {""}
    return twig


def _take_back(results: Results) -> None:
    for found in reversed(list(results.values())):
        if isinstance(found, Cycle):
            found.undo()


def _fitting_leaves(branch: Branch, results: Results) -> Iterator[Cycle]:
    """The leaves that fit below groups that do."""
    found = results.get(branch.name)
    if found is None or not found.placed:
        return
    for child in branch.children:
        yield from _fitting_leaves(child, results)
    if isinstance(found, Cycle):
        yield found


def _assigned(branch: Branch, results: Results) -> Iterator[tuple[Pod, str]]:
    for cycle in _fitting_leaves(branch, results):
        for decision, node in zip(cycle.decisions, cycle.nodes, strict=True):
            if node:
                yield decision.info.pod, node
