"""Changes that take pods away: move or evict exactly these, raise a priority, add a node.

The pods that have to leave a node are found as preemption finds them, but without looking at
priorities: all that may leave are taken off a copy of the node, then put back one by one, the ones
that are hardest to move first; who no longer fits has to go. Pods of daemon sets and static pods
stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import numpy as np
from msgspec.structs import replace

from bayplan.api import (
    CSINode,
    Node,
    Object,
    ObjectMeta,
    Pod,
    PriorityClass,
    ResourceSlice,
    to_builtins,
)
from bayplan.api.labels import compile_selector
from bayplan.cluster.info import PodInfo
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.framework.runtime.filtering import run_add_pod, run_filters_on, run_remove_pod
from bayplan.inspect.amounts import listed
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.commands import where
from bayplan.inspect.gangs import group_of
from bayplan.inspect.objects import Budget
from bayplan.inspect.step import Step, set_to
from bayplan.inspect.trial import Trial, unbound
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.draining import cordoned
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.settling import Settling
from bayplan.inspect.why.case import CORDON, Case
from bayplan.inspect.why.families.taints import LIFECYCLE
from bayplan.inspect.why.families.volumes import volume_labels

HOSTNAME = "kubernetes.io/hostname"
POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)
CRITICAL = 2_000_000_000
NEW = "new-node"
MOST_LEAVERS = 8

_EXAMPLES: WeakKeyDictionary[Cluster, list[Node]] = WeakKeyDictionary()


def leavers(case: Case, row: int) -> list[Pod]:
    """The fewest pods that must leave a node so that the pod fits; empty if that cannot help."""
    node, state = case.node(row).clone(), case.state.clone()
    profile, pod = case.profile, case.pod
    held = case.cluster.engine.cache.is_assumed  # only tried there: nobody could move it
    movable = sorted(
        (info for info in node.pods if _may_leave(info.pod) and not held(info.uid)),
        key=lambda info: (info.pod.controller is None, info.priority, _size(info), info.pod.key),
    )
    for info in movable:
        node.remove_pod(info)
        run_remove_pod(profile, state, pod, info, node)
    if run_filters_on(profile, state, pod, node) is not None:
        return []
    gone = []
    for info in reversed(movable):  # who would be lost, or is important or large, stays if it can
        node.add_pod(info)
        run_add_pod(profile, state, pod, info, node)
        if run_filters_on(profile, state, pod, node) is not None:
            node.remove_pod(info)
            run_remove_pod(profile, state, pod, info, node)
            gone.append(info.pod)
    return gone


def _may_leave(pod: Pod) -> bool:
    owner = pod.controller
    kind = owner.kind if owner is not None else ""
    return kind not in ("DaemonSet", "Node") and pod.priority < CRITICAL and not pod.terminating


def _size(info: PodInfo) -> int:
    return sum(amount for _, amount in info.traits.used)


def move_steps(case: Case, rows: Iterable[int]) -> Iterator[Step]:
    """Take the fewest pods off one of some nodes; carried out in the engine, and kept if it helps.

    Their owners make them again by their own rules: what would come straight back, before the pod
    that waits, is no help.
    """
    found = [(row, gone) for row in rows if 0 < len(gone := leavers(case, row)) <= MOST_LEAVERS]
    for row, gone in sorted(found, key=lambda item: len(item[1])):
        for closed in (False, True):
            lands, places = _carried_out(case, row, gone, closed)
            if lands:
                yield _move(case, row, lands, gone, places, closed)
                return


def equally_good(engine: Engine, decision: Decision) -> tuple[str, ...]:
    """Other nodes that a decision could have taken with the same score."""
    if decision.feasible_nodes < 2:
        return ()
    names, _, totals, _ = engine.all_scores(decision)
    top = np.flatnonzero(totals == totals.max()).tolist()
    return tuple(names[place] for place in top if names[place] != decision.node_name)


def _carried_out(
    case: Case, row: int, gone: list[Pod], closed: bool
) -> tuple[tuple[str, ...], dict[str, str | None]]:
    """Where the pod ends (and nodes as good) when others are told to go, and where those end.

    None for one that nobody makes again; a group's pod is tried alone here, the group later. The
    node may be closed meanwhile, so that nobody comes straight back.
    """
    cluster, engine = case.cluster, case.cluster.engine
    with Rehearsal(engine, cluster.now) as trial:
        if group_of(engine, case.pod) is not None:
            for pod in gone:
                trial.delete(pod)
            node = "" if closed else trial.place(case.pod).node_name
            return (node,) if node else (), {
                pod.key: trial.place(unbound(pod)).node_name for pod in gone
            }
        settling = Settling(cluster, trial, Budgets(cluster))
        mine = settling.add(case.pod)
        settling.run()
        open_node = case.table.nodes[row]
        if closed:
            trial.put(cordoned(open_node, unschedulable=True))
        for pod in gone:
            info = engine.cache.pod(pod.uid)
            if info is not None:
                settling.evict(info)
        settling.run()
        if closed:
            trial.put(open_node)
            settling.run()
        ends = settling.ends
        places = {pod.key: ends[pod.uid].node if pod.uid in ends else None for pod in gone}
        places |= {first.key: "" for _, first in settling.unborn() if first.key in places}
        return _lands(trial, mine.node, case.pod), places


def _lands(trial: Trial, node: str, pod: Pod) -> tuple[str, ...]:
    """A pod's node, and others that it could have taken with the same score."""
    info = trial.engine.cache.pod(pod.uid)
    if not node or info is None:
        return (node,) if node else ()
    trial.delete(info.pod)
    again = trial.decide(unbound(pod), preempt=False)
    same = (again.node_name, *equally_good(trial.engine, again))
    return (node, *(name for name in same if name != node)) if node in same else (node,)


def _move(
    case: Case,
    row: int,
    lands: tuple[str, ...],
    gone: list[Pod],
    places: dict[str, str | None],
    closed: bool,
) -> Step:
    name = case.name(row)
    broken = [key for key, budget in case.cluster.budgets.items() if _breaks(budget, gone)]
    lost = [key for key, place in places.items() if place is None]
    waits = [key for key, place in places.items() if place == ""]
    if lost:
        text = f"delete {listed(list(places), 3)} from {name} ("
        text += "nothing makes it again)" if lost == list(places) else (
            f"nothing makes {listed(lost, 2)} again)"
        )  # fmt: skip
    elif waits:
        text = f"evict {listed(list(places), 3)} from {name} ({listed(waits, 2)} would then wait)"
    else:
        shown = listed([f"{key} to {place}" for key, place in places.items()], 3)
        text = f"move {shown}, off {name}"
    if broken:
        text += f"; the disruption budget {listed(broken, 1)} does not allow it now"
    cost = (85 if lost else 75 if waits else 50) + 5 * len(gone) + 30 * len(broken)
    commands = [f"kubectl delete pod {where(pod)}" for pod in gone]
    if closed:
        text += f"; {name} is cordoned meanwhile"
        commands = [f"kubectl cordon {name}", *commands, *_until_placed(gone, places)]
        commands.append(f"kubectl uncordon {name}")
    return Step(text, cost, "move", delete=tuple(gone), commands=tuple(commands), lands=lands)


def _until_placed(gone: list[Pod], places: dict[str, str | None]) -> list[str]:
    """A stateful set makes its pod again, under its name, only when the old one is gone."""
    return [
        f"kubectl wait -n {pod.namespace} --for={event} pod/{pod.name} --timeout=5m"
        for pod in gone
        if places[pod.key] and pod.controller is not None and pod.controller.kind == "StatefulSet"
        for event in ("create", "condition=PodScheduled")
    ]


def _breaks(budget: Budget, gone: list[Pod]) -> bool:
    """Whether a budget does not allow that all these pods go now."""
    selector = compile_selector(budget.spec.selector)
    hit = [p for p in gone if p.namespace == budget.namespace and selector.matches(p.labels)]
    return len(hit) > budget.status.disruptions_allowed


def priority_steps(case: Case) -> Iterator[Step]:
    """Give the pod a priority class under which preemption makes room; the lowest first."""
    if case.pod.spec.preemption_policy == "Never":
        return
    classes = sorted(case.cluster.of(PriorityClass).values(), key=lambda item: item.value)
    for found in classes:
        if not case.pod.priority < found.value < CRITICAL or found.preemption_policy == "Never":
            continue
        ops = (
            set_to(found.name, "spec", "priorityClassName"),
            set_to(found.value, "spec", "priority"),
        )
        text = f'use the priority class "{found.name}" ({found.value})'
        yield Step(text, 60, "priority", ops)


def new_node_steps(case: Case) -> Iterator[Step]:
    """One more node like those of each group, the largest groups first."""
    for node in _examples(case.cluster)[:12]:
        if _large_enough(case, node):
            yield _like(case.cluster, node, volume_labels(case))


def _examples(cluster: Cluster) -> list[Node]:
    """One node of each group, of the largest group first; worked out once a cluster."""
    found = _EXAMPLES.get(cluster)
    if found is None:
        seen: dict[tuple[object, ...], list[Node]] = {}
        for node in cluster.nodes.values():
            seen.setdefault(_group(node), []).append(node)
        groups = sorted(seen.values(), key=lambda nodes: -len(nodes))
        found = _EXAMPLES[cluster] = [nodes[0] for nodes in groups]
    return found


def _group(node: Node) -> tuple[object, ...]:
    pool = tuple(node.labels.get(key, "") for key in POOLS)
    zone = node.labels.get("topology.kubernetes.io/zone", "")
    room = tuple(sorted((name, str(amount)) for name, amount in node.status.allocatable.items()))
    return (*pool, zone, room, _lasting(node))


def _lasting(node: Node) -> tuple[object, ...]:
    return tuple(t for t in node.spec.taints if t.key not in LIFECYCLE and t.key != CORDON)


def _large_enough(case: Case, node: Node) -> bool:
    row = case.table.row_of(node.name)
    if row is None:
        return False
    info = case.node(row)
    return all(
        info.allocatable_of(name) >= amount
        for name, amount in case.info.traits.resources.fit.items()
    )


def _like(cluster: Cluster, node: Node, needed: dict[str, str]) -> Step:
    labels = {**node.labels, **needed}
    if HOSTNAME in node.labels:
        labels[HOSTNAME] = NEW
    meta = replace(
        node.metadata, name=NEW, uid=NEW, labels=labels, resource_version="", annotations={}
    )
    spec = replace(node.spec, unschedulable=False, taints=_lasting(node), provider_id="")
    fresh = replace(node, metadata=meta, spec=spec)
    pool = next((node.labels[key] for key in POOLS if key in node.labels), "")
    zone = labels.get("topology.kubernetes.io/zone", "")
    about = [part for part in (pool, zone and f"zone {zone}") if part]
    room = node.status.allocatable
    about += [f"{room[name]} {name}" for name in ("cpu", "memory") if name in room]
    text = f"add one more node like {node.name} ({', '.join(map(str, about))})"
    made = (fresh, *_belongings(cluster, node.name))
    # its kubelet registers the drivers
    creates = tuple(to_builtins(item) for item in made if not isinstance(item, CSINode))
    return Step(text, 40, "node", put=made, creates=creates)


def _belongings(cluster: Cluster, name: str) -> list[Object]:
    """What comes with a node like this one: its drivers and its devices."""
    found: list[Object] = []
    drivers = cluster.of(CSINode).get(name)
    if drivers is not None:
        found.append(replace(drivers, metadata=ObjectMeta(name=NEW, uid=f"CSINode/{NEW}")))
    for item in cluster.of(ResourceSlice).values():
        if item.spec.node_name == name:
            title = f"{NEW}-{item.name}"
            pool = replace(item.spec.pool, name=title)
            spec = replace(item.spec, node_name=NEW, pool=pool)
            meta = ObjectMeta(name=title, uid=f"ResourceSlice/{title}")
            found.append(replace(item, metadata=meta, spec=spec))
    return found


def victims_text(pods: list[Pod]) -> str:
    """Who would be evicted."""
    return listed([f"{pod.key} (priority {pod.priority})" for pod in pods], 3)
