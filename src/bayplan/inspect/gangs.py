"""Pod groups in questions: which group a pod is tried with, and one cycle of it.

The cycle is the scheduler's own (`bayplan.engine.loop.group_cycle`), without a queue and without
actions: who would be evicted is told, not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.api import Pod, PodGroup
from bayplan.cluster.pod_groups import group_key, members_of, min_count
from bayplan.engine.engine import Engine
from bayplan.engine.loop.gangs import Gang
from bayplan.engine.loop.group_cycle import Cycle
from bayplan.engine.loop.group_room import make_room
from bayplan.engine.loop.placement_cycle import run_cycle, with_nodes
from bayplan.engine.queue import QueuedPod
from bayplan.framework import CycleState, Placement, PodGroupInfo
from bayplan.framework.runtime.placing import run_placement_generate
from bayplan.plugins.gang_scheduling import NAME


class GroupTry(NamedTuple):
    """What came of one cycle; pods that were placed still are (`cycle.undo()`)."""

    cycle: Cycle
    mismatch: str
    """What the pods contradict each other in; nothing was tried then."""
    victims: list[Pod]
    """Who has to go for the group."""

    def node(self, number: int) -> str:
        """Where the pod at a place goes, if its group does."""
        nodes = self.cycle.nodes
        return nodes[number] if self.cycle.placed and number < len(nodes) else ""

    def told(self, number: int) -> tuple[str, str]:
        """What a pod without a node is told, and the node that is made free for it."""
        cycle = self.cycle
        if self.mismatch or cycle.error is not None:
            return self.mismatch or cycle.message, ""
        if cycle.placed:  # enough of the group go, but not this one
            return cycle.decisions[number].message, ""
        text, nominating = cycle.told(number)
        return text, "" if nominating is None else nominating.nominated_node_name


def group_of(engine: Engine, pod: Pod) -> PodGroup | None:
    """The group with which a pod is tried; None if it is tried alone."""
    profile = engine.profiles.get(pod.spec.scheduler_name)
    key = group_key(pod)
    if not key or profile is None or NAME not in profile.plugins:
        return None
    return engine.cache.objects.pod_groups.get(key)


def placement_of(engine: Engine, pod: Pod, node: str = "") -> Placement | None:
    """Where the running pods of a pod's group keep it, itself not among them; None for anywhere.

    Of a group that may still choose it is the placement of a node that was chosen.
    """
    group, gates = group_of(engine, pod), engine.handles[0].gates
    if group is None or not gates["TopologyAwareWorkloadScheduling"]:
        return None
    others = [other for other in members_of(engine.cache.objects).placed(group_key(pod))
              if other.uid != pod.uid]  # fmt: skip
    info = PodGroupInfo(group, (pod,), tuple(with_nodes(engine, others)))
    everywhere = Placement("", tuple(engine.searched()))
    profile = engine.profiles[pod.spec.scheduler_name]
    found, _ = run_placement_generate(profile, CycleState(), info, everywhere)
    if node:
        return next((place for place in found if node in place.node_names), None)
    return found[0] if len(found) == 1 else None


def try_group(engine: Engine, group: PodGroup, pods: Sequence[Pod], now: float) -> GroupTry:
    """Try the waiting pods of a group in one cycle, as the engine's version does."""
    modern = engine.handles[0].gates.since("1.37")
    key = group_key(pods[0])
    wanted = min_count(engine.cache.objects, key)
    items = [QueuedPod(pod, now) for pod in pods]
    placed = members_of(engine.cache.objects).placed(key)
    gang = Gang(group, items, placed, 1 if wanted is None else wanted)
    victims: list[Pod] = []
    mismatch = gang.mismatch(modern=modern)
    if mismatch:
        return GroupTry(Cycle(engine, gang, now), mismatch, victims)
    cycle = run_cycle(
        engine, gang, now, lambda d: victims.extend(d.victims.pods if d.victims is not None else ())
    )
    if not cycle.placed and cycle.error is None:
        profile = engine.profiles[pods[0].spec.scheduler_name]
        victims += make_room(cycle, engine, profile, now).victims
    return GroupTry(cycle, mismatch, victims)
