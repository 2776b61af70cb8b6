"""Why a pod of a pod group waits: the whole group is tried, as the scheduler tries it.

The sentence of a pod is what its group's cycle tells it. Facts are those of the pod itself if it is
the one that finds no node, with its siblings on theirs; else the sibling that finds none is named.
Changes are those of the cluster, verified by trying the group again: a change of one pod of a
template would not be one of the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from itertools import islice

from msgspec.structs import replace

from bayplan.api import Pod, PodGroup, to_builtins
from bayplan.cluster.pod_groups import group_key, members_of, min_count
from bayplan.engine.cycle.decisions import Decision
from bayplan.framework.runtime.filtering import run_pre_enqueue
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.commands import json_patch, where
from bayplan.inspect.gangs import group_of, try_group
from bayplan.inspect.step import CLUSTER, Step
from bayplan.inspect.trial import Trial
from bayplan.inspect.whatif.shapes import named
from bayplan.inspect.why.answer import Fix
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.fixes import SHOWN, TRIED, candidates
from bayplan.inspect.why.moving import new_node_steps
from bayplan.words import plural

MOST_NODES = 64
Groups = dict[str, "Tried"]
"""Groups that were tried for one question, by key: a gang of a thousand is tried once."""


@contextmanager
def member(cluster: Cluster, pod: Pod) -> Iterator[None]:
    """A pod of a group counts as a member while it is asked about, even if it does not exist."""
    members = members_of(cluster.engine.cache.objects)
    try:
        yield
    finally:
        known = cluster.pods.get(pod.key)
        if not group_key(pod):
            pass
        elif known is None or known.uid != pod.uid:
            members.delete(pod)
        else:
            members.put(known)  # in its old place: the order of members counts


class Tried:
    """What came of trying a group; nothing is left placed."""

    def __init__(self, cluster: Cluster, pod: Pod, group: PodGroup) -> None:
        engine, key = cluster.engine, group_key(pod)
        members = members_of(engine.cache.objects)
        profile = engine.profiles[pod.spec.scheduler_name]
        waiting = [
            other
            for other in members.unscheduled(key)
            if not other.terminating
            and other.spec.scheduler_name in engine.profiles
            and run_pre_enqueue(profile, other) is None
        ]
        start = engine.next_start
        found = try_group(engine, group, waiting, cluster.now)
        found.cycle.undo()
        engine.next_start = start
        self.found, self.cycle, self.gang = found, found.cycle, found.cycle.gang
        self.number = self._place_of(pod)
        """The place of the pod in its group."""

    def for_pod(self, pod: Pod) -> Tried:
        """The same, as another pod of the group sees it."""
        found = copy(self)
        found.number = self._place_of(pod)
        return found

    def _place_of(self, pod: Pod) -> int:
        return next(n for n, item in enumerate(self.gang.items) if item.pod.uid == pod.uid)

    @property
    def decision(self) -> Decision | None:
        """The pod's own, if it was tried."""
        decisions = self.cycle.decisions
        return decisions[self.number] if self.number < len(decisions) else None

    @property
    def node(self) -> str:
        """Where the pod goes, if its group does."""
        return self.found.node(self.number)

    @property
    def message(self) -> str:
        return self.found.told(self.number)[0]

    def all_messages(self) -> set[str]:
        """What each pod of the group is told."""
        if self.cycle.placed:
            return set()
        return {self.found.told(number)[0] for number in range(len(self.gang.items))}

    @property
    def nominated(self) -> str:
        """The node that is made free for the pod."""
        return self.found.told(self.number)[1]

    @property
    def have(self) -> int:
        """How many of the group have a node, or find one now."""
        return len(self.gang.scheduled) + sum(bool(node) for node in self.cycle.nodes)

    @property
    def first_failed(self) -> int:
        """The place of the first pod that finds no node; -1 if there is none."""
        return next((n for n, node in enumerate(self.cycle.nodes) if not node), -1)

    @contextmanager
    def others(self, cluster: Cluster, number: int) -> Iterator[None]:
        """With those of the group on their nodes that were tried before one of them."""
        engine, held = cluster.engine, []
        for decision, node in zip(self.cycle.decisions[:number], self.cycle.nodes, strict=False):
            if node:
                stand_in = Decision(decision.info, decision.profile, decision.state)
                stand_in.node_name = node
                held.append(engine.hold(stand_in))
        try:
            yield
        finally:
            for stand_in in reversed(held):
                if stand_in.placed:
                    engine.undo(stand_in)

    def notes(self) -> list[str]:
        """The group in numbers, and who of it finds no node."""
        gang, failed = self.gang, self.first_failed
        known = len(gang.items) + len(gang.scheduled)
        kind = "gang" if gang.group.spec.scheduling_policy.gang is not None else "group"
        text = (
            f'{kind} "{gang.group.key}": {plural(known, "pod")}, {gang.needed} needed at once, '
            f"{len(gang.scheduled)} have a node, {self.have - len(gang.scheduled)} find one now"
        )
        if failed < 0 or failed == self.number or self.cycle.placed:
            return [text]
        decision = self.cycle.decisions[failed]
        return [text, f"{gang.items[failed].pod.key} finds none: {decision.message}"]


def group_facts(cluster: Cluster, pod: Pod) -> tuple[str, ...]:
    """Why a pod waits outside the queue: its group is not there, or not complete."""
    objects, key = cluster.engine.cache.objects, group_key(pod)
    if objects.pod_groups.get(key) is None:
        return (f'there is no PodGroup "{key}"',)
    known, wanted = members_of(objects).known(key), min_count(objects, key) or 1
    there = "there is 1" if known == 1 else f"there are {known}"
    return (f'gang "{key}" needs {plural(wanted, "pod")}, and {there}',)


def incomplete_fixes(cluster: Cluster, pod: Pod) -> list[tuple[Fix, Step]]:
    """What lets a group be tried that is not complete."""
    group = group_of(cluster.engine, pod)
    known = members_of(cluster.engine.cache.objects).known(group_key(pod))
    if group is None or not known:
        return []
    step = _lower(cluster, group, known)
    fix = _verified(cluster, pod, step)
    return [] if fix is None else [(fix, step)]


def group_fixes(cluster: Cluster, pod: Pod, tried: Tried) -> list[tuple[Fix, Step]]:
    """Changes of the cluster after which the pod's group, and it, are placed."""
    failed = tried.first_failed
    if failed < 0:
        return []
    with tried.others(cluster, failed):
        sibling = tried.gang.items[failed].pod
        case = Case(cluster, sibling, tried.cycle.decisions[failed])
        steps = [step for step in islice(candidates(case), TRIED) if step.side == CLUSTER]
        example = next(new_node_steps(case), None)
    if 0 < tried.have < tried.gang.needed:
        steps.append(_lower(cluster, tried.gang.group, tried.have))
    found: list[tuple[Fix, Step]] = []
    kinds: set[str] = set()
    for step in sorted(steps, key=lambda step: step.cost)[:TRIED]:
        fix = None if step.kind in kinds else _verified(cluster, pod, step)
        if fix is not None:
            kinds.add(step.kind)
            found.append((fix, step))
    if example is not None and example.kind not in kinds:
        found += _more_nodes(cluster, pod, example)
    return sorted(found, key=lambda pair: pair[0].disturbs)[:SHOWN]


def _more_nodes(cluster: Cluster, pod: Pod, one: Step) -> list[tuple[Fix, Step]]:
    """The least number of nodes alike that is enough for the group."""

    def several(count: int) -> Step:
        nodes = [named(one.put[0], f"{one.put[0].name}-{n}") for n in range(1, count)]  # type: ignore[arg-type]
        text = one.change.replace("one more node", f"{count} more nodes")
        bodies = tuple(to_builtins(node) for node in nodes)
        put = (*one.put, *nodes)
        return replace(one, change=text, cost=40 + count, put=put, creates=one.creates + bodies)

    high = 2
    while high < MOST_NODES and _verified(cluster, pod, several(high)) is None:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if _verified(cluster, pod, several(middle)) is None:
            low = middle
        else:
            high = middle
    fix = _verified(cluster, pod, several(high))
    return [] if fix is None else [(fix, several(high))]


def _lower(cluster: Cluster, group: PodGroup, count: int) -> Step:
    """Ask for fewer pods at once.

    In 1.36 a group's policy cannot be changed, and a group stays while it has pods: both are made
    again.
    """
    policy = group.spec.scheduling_policy
    assert policy.gang is not None
    fewer = replace(policy, gang=replace(policy.gang, min_count=count))
    changed = replace(group, spec=replace(group.spec, scheduling_policy=fewer))
    if cluster.settings.gates.since("1.37"):
        path = "/spec/schedulingPolicy/gang/minCount"
        patch = json_patch([{"op": "replace", "path": path, "value": count}])
        command = f"kubectl patch podgroup {where(group)} {patch}"
    else:
        command = (
            "# a group keeps its policy, and stays while it has pods: delete podgroup "
            f"{where(group)} with its pods and create them again with minCount {count}"
        )
    text = f'lower minCount of the pod group "{group.name}" from {policy.gang.min_count} to {count}'
    return Step(text, 35, "minCount", put=(changed,), commands=(command,))


def _verified(cluster: Cluster, pod: Pod, step: Step) -> Fix | None:
    """Try the group again with a change made."""
    with Trial(cluster.engine, cluster.now) as trial:
        trial.put_all(step.put)
        for item in step.delete:
            trial.delete(item)
        group = group_of(cluster.engine, pod)
        node = "" if group is None else Tried(cluster, pod, group).node
    if not node:
        return None
    removes = tuple(item.key for item in step.delete)
    creates = step.creates
    return Fix(step.change, CLUSTER, node, (), step.commands, creates, removes, (), step.cost)
