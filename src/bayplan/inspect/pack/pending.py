"""What pending pods and gangs could have, by priority: a place, a place after moves, or a proof.

Each is asked about with those before it already placed. First what the scheduler would do by
itself; then moves of running pods; then, where priorities allow it, pods that would have to go; and
if there is no placement at all, the constraints that conflict.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.cluster.arrays import IntArray
from bayplan.cluster.pod_groups import group_key, min_count
from bayplan.framework import PodInfo
from bayplan.inspect.amounts import show
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.pack.answer import Plan, Step, Wanted
from bayplan.inspect.pack.choosing import Choice
from bayplan.inspect.pack.planning import Planning
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.pack.asked import Asked, victims_of
from bayplan.pack.assigning import moves_of
from bayplan.pack.conflict import in_words, smallest
from bayplan.pack.model import Problem
from bayplan.words import plural


class Waiting(msgspec.Struct, frozen=True, eq=False):
    """Pods that are asked about together."""

    name: str
    pods: tuple[Pod, ...]
    needed: int
    gang: bool = False

    @property
    def priority(self) -> int:
        return max(pod.priority for pod in self.pods)

    @property
    def preempts(self) -> bool:
        return all(pod.spec.preemption_policy != "Never" for pod in self.pods)


def waiting(cluster: Cluster) -> list[Waiting]:
    """Pending pods by gang, else by what they ask for; the most important first."""
    engine = cluster.engine
    groups: dict[object, list[Pod]] = {}
    for pod in cluster.pending():
        if not pod.spec.scheduling_gates and engine.profile_for(pod) is not None:
            key = group_key(pod)
            gang = min_count(engine.cache.objects, key) is not None
            groups.setdefault(key if gang else engine.cache.infos.make(pod).signature, []).append(
                pod
            )
    found = [_waiting(cluster, key, pods) for key, pods in groups.items()]
    return sorted((item for item in found if item.needed > 0), key=lambda item: -item.priority)


def _waiting(cluster: Cluster, key: object, pods: list[Pod]) -> Waiting:
    if isinstance(key, str):
        placed = sum(group_key(pod) == key for pod in cluster.pods.values() if pod.spec.node_name)
        wanted = (min_count(cluster.engine.cache.objects, key) or 0) - placed
        pods.sort(key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp))
        return Waiting(f"gang {key}", tuple(pods), max(wanted, 1), True)
    owner = title(cluster, pods[0])
    name = (
        pods[0].key if len(pods) == 1 else f"{plural(len(pods), 'pod')} of {owner or pods[0].key}"
    )
    return Waiting(name, tuple(pods), len(pods))


class Pending:
    """Answers for all that waits in a cluster."""

    def __init__(self, cluster: Cluster, choice: Choice, seconds: float) -> None:
        self._cluster, self._choice = cluster, choice
        self._end = time.monotonic() + seconds
        self._each = max(seconds / 4, 1.0)

    def answers(self) -> tuple[Wanted, ...]:
        """One after the other, the most important first."""
        with Rehearsal(self._choice.engine, self._cluster.now) as trial:
            return tuple(self._answer(trial, item) for item in waiting(self._cluster))

    def _answer(self, trial: Rehearsal, item: Waiting) -> Wanted:
        found = self._greedy(trial, item)
        if found is not None:
            return found
        if time.monotonic() > self._end:
            return _wanted(item, "open", "not looked at: the time was over")
        asked = self._ask(trial, item)
        by_moves = asked.by_moves(self._each)
        if by_moves.placed is not None:
            return self._moving(trial, item, asked.problem, by_moves.placed)
        preempting = None
        if item.preempts and asked.problem.classes:
            preempting = asked.by_preemption(self._each, item.priority)
            if preempting.placed is not None:
                return self._preempting(trial, item, asked.problem, preempting.placed)
        if by_moves.impossible and (preempting is None or preempting.impossible):
            return self._impossible(asked, item)
        return _wanted(item, "open", "neither a placement nor a proof was found in time")

    # -- the four answers -----------------------------------------------------------------------

    def _greedy(self, trial: Rehearsal, item: Waiting) -> Wanted | None:
        engine = trial.engine
        if not engine.trial(item.pods, trial.now, item.needed).placed:
            return None
        decisions = [(pod.key, trial.fill(pod).node_name) for pod in item.pods]
        nodes = {key: node for key, node in decisions if node}
        return _wanted(item, "fits", "fits as it is; the scheduler will place it", nodes=nodes)

    def _ask(self, trial: Rehearsal, item: Waiting) -> Asked:
        cache = trial.engine.cache
        movers = [info for info in (cache.pod(i.uid) for i in self._choice.movers) if info]
        infos = [cache.infos.make(pod) for pod in item.pods]
        reading = self._choice.reading()
        lenient = self._choice.lenient
        problem = reading.read(movers, pending=infos, lenient=lenient, apart=True)
        return Asked(problem, item.needed)

    def _moving(
        self, trial: Rehearsal, item: Waiting, problem: Problem, placed: IntArray
    ) -> Wanted:
        refusal = self._refusal(trial, problem, placed, [])
        if refusal:
            return _wanted(item, "open", f"a placement was found, but {refusal}")
        moves = moves_of(problem, placed)
        uids = {pod.uid for pod in item.pods}
        running = {uid: move for uid, move in moves.items() if uid not in uids}
        nodes = {i.pod.key: problem.names[r] for uid, (i, r) in moves.items() if uid in uids}
        plan = Planning(self._cluster, problem, running, then=item.pods, emptying=False).run()
        self._apply(trial, problem, moves)
        text = _moves_text(plan, len(running), item)
        return _wanted(item, "moves", text, nodes=nodes, moves=plan.steps if running else ())

    def _preempting(
        self, trial: Rehearsal, item: Waiting, problem: Problem, placed: IntArray
    ) -> Wanted:
        gone = victims_of(problem, placed)
        cache = trial.engine.cache
        victims = [info for info in map(cache.pod, gone) if info is not None]
        refusal = self._refusal(trial, problem, placed, victims)
        if refusal:
            return _wanted(item, "open", f"a placement was found, but {refusal}")
        moves = moves_of(problem, placed)
        uids = {pod.uid for pod in item.pods}
        nodes = {i.pod.key: problem.names[r] for uid, (i, r) in moves.items() if uid in uids}
        moved = len([uid for uid in moves if uid not in uids])
        for info in victims:
            trial.take(info)
        self._apply(trial, problem, moves)
        text = f"there is a placement if {plural(len(victims), 'less important pod')} would go"
        if moved:
            text += f" and {plural(moved, 'pod')} moved"
        keys = tuple(info.pod.key for info in victims)
        return _wanted(item, "preempts", text, nodes=nodes, victims=keys)

    def _impossible(self, asked: Asked, item: Waiting) -> Wanted:
        priority = item.priority if item.preempts else -(2**31)
        because = in_words(asked, smallest(asked, priority), show)
        return _wanted(item, "impossible", "proven impossible, because of", because=tuple(because))

    # -- judging --------------------------------------------------------------------------------

    def _refusal(
        self, trial: Rehearsal, problem: Problem, placed: IntArray, victims: Sequence[PodInfo]
    ) -> str:
        """Why the filters refuse a placement; empty if they do not."""
        mark = trial.mark
        for info in victims:
            trial.take(info)
        moves = moves_of(problem, placed)
        self._apply(trial, problem, moves)
        pods = [info for item in problem.classes for info in item.pods]
        infos = [i for i in (trial.engine.cache.pod(p.uid) for p in pods) if i is not None]
        refused = self._choice.check.refused(infos)
        trial.undo(mark)
        kept = {uid for uid in self._choice.lenient if uid not in moves}
        for uid, status in refused.items():
            if uid not in kept:
                return f"{status.plugin} refuses it: {status.message}"
        return ""

    def _apply(
        self, trial: Rehearsal, problem: Problem, moves: dict[str, tuple[PodInfo, int]]
    ) -> None:
        for info, row in moves.values():
            spec = replace(info.pod.spec, node_name=problem.names[row])
            trial.put(replace(info.pod, spec=spec))


def _moves_text(plan: Plan, moves: int, item: Waiting) -> str:
    if not moves:
        what = "the gang" if item.gang else "them"
        return f"there is a placement that the scheduler's order does not find for {what}"
    text = f"there is a placement, with these {plural(moves, 'move')}"
    if moves == 1:
        text = "there is a placement, with this move"
    return text if plan.complete else f"{text}, but not in an order that works: {plan.why_not}"


def _wanted(
    item: Waiting,
    answer: str,
    text: str,
    *,
    nodes: dict[str, str] | None = None,
    moves: tuple[Step, ...] = (),
    victims: tuple[str, ...] = (),
    because: tuple[str, ...] = (),
) -> Wanted:
    return Wanted(
        name=item.name,
        pods=tuple(pod.key for pod in item.pods),
        needed=item.needed,
        answer=answer,
        text=text,
        nodes=nodes or {},
        moves=moves,
        victims=victims,
        because=because,
    )
