"""Runs a scenario under two schedulers and tells what went elsewhere, and why.

Pods are compared by name, at the end of their lives. For those that differ the second run is gone
through again: in the very cluster in which the second scheduler bound a pod (or left it pending)
the first is asked too. If it would have decided otherwise, the configuration is the reason and a
plugin is named; all others follow from what happened before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from bayplan.api import Object, Pod, decode
from bayplan.errors import DecodeError
from bayplan.inspect import Cluster, Settings
from bayplan.inspect.cluster import Objects, Origin
from bayplan.inspect.diff.answer import Changed, Diff, Totals
from bayplan.inspect.diff.blame import blame
from bayplan.inspect.kinds import KINDS
from bayplan.inspect.trial import unbound
from bayplan.sim.run import Result, run_scenario
from bayplan.sim.script import Script
from bayplan.sim.tracker import PodLife
from bayplan.sim.world import EPOCH
from bayplan.words import plural

LOOKED_INTO = 50
"""For how many pods the reason is looked for."""
PREEMPTED = "PreemptionByScheduler"
_STRUCTS = {kind.resource.plural: kind.structs for kind in KINDS}


def compare(script: Script, a: Settings, b: Settings) -> Diff:
    """Which pods of a scenario end elsewhere with `b` than with `a`, and who is responsible."""
    one, two = _run(script, a), _run(script, b)
    both = one.placements.keys() & two.placements.keys()
    differ = {key for key in both if one.placements[key] != two.placements[key]}
    reasons = _reasons(two, differ, a, b)
    changed = [_changed(key, one, two, reasons.get(key)) for key in sorted(differ)]
    only = len(one.placements.keys() ^ two.placements.keys())
    notes = [f"of one of the runs only: {plural(only, 'pod')}"] if only else []
    if len(differ) > LOOKED_INTO:
        notes.append(f"the reason was looked for in the first {LOOKED_INTO} pods")
    return Diff(
        a=a.title,
        b=b.title,
        pods=len(both),
        changed=tuple(changed),
        plugins=dict(Counter(c.plugin for c in changed if c.direct and c.plugin).most_common()),
        totals_a=_totals(one),
        totals_b=_totals(two),
        notes=(*notes, *dict.fromkeys((*a.warnings, *b.warnings))),
    )


def _run(script: Script, chosen: Settings) -> Result:
    settings = replace(
        script.settings, config=chosen.config, gates=chosen.gates, registry=dict(chosen.registry)
    )
    # the fast lane keeps no objects, and they are needed afterwards
    return run_scenario(
        script.player, settings=settings, limit=script.limit, faithful=True, name=script.name
    )


def _changed(key: str, one: Result, two: Result, reason: tuple[str, str] | None) -> Changed:
    return Changed(
        pod=key,
        owner="",
        a=one.placements[key],
        b=two.placements[key],
        direct=reason is not None,
        plugin=reason[0] if reason else "",
        detail=reason[1] if reason else "",
    )


def _reasons(
    result: Result, keys: set[str], a: Settings, b: Settings
) -> dict[str, tuple[str, str]]:
    """The plugin and its reason for each of these pods that the schedulers treat differently."""
    found: dict[str, tuple[str, str]] = {}
    wanted = set(sorted(keys)[:LOOKED_INTO])
    for pod, cluster in _moments(result, wanted):
        if pod.key in found or pod.spec.scheduler_name not in a.scheduler_names:
            continue
        first, second = cluster.with_settings(a), cluster.with_settings(b)
        told, planned = first.decide(pod), second.decide(pod)
        if told.node_name != planned.node_name:
            found[pod.key] = blame(first.engine, told, second.engine, planned)
    return found


def _moments(result: Result, wanted: set[str]) -> Iterator[tuple[Pod, Cluster]]:
    """Each pod just before it was bound, with the cluster of that moment; at the end, the rest."""
    objects: Objects = {}
    for entry in result.entries:
        _, plural, _ = entry.key.split("/", 2)
        for struct in _STRUCTS.get(plural, ()):
            try:
                item = decode(struct, entry.value)
            except DecodeError:  # an object that the scheduler passes over, too
                continue
            items = objects.setdefault(struct, {})
            before = items.get(item.key)
            if isinstance(before, Pod) and item.key in wanted and _bound_now(before, item):
                yield before, _picture(objects, result.name, entry.time)
            if entry.action == "DELETED":
                items.pop(item.key, None)
            else:
                items[item.key] = item
    for pod in list(objects.get(Pod, {}).values()):
        if pod.key in wanted and not pod.spec.node_name:
            yield unbound(pod), _picture(objects, result.name, result.seconds)


def _bound_now(before: Pod, item: Object) -> bool:
    return isinstance(item, Pod) and bool(item.spec.node_name) and not before.spec.node_name


def _picture(objects: Objects, name: str, time: float) -> Cluster:
    copy = {kind: dict(items) for kind, items in objects.items()}
    return Cluster(copy, origin=Origin(name, taken=EPOCH + time))


def _totals(result: Result) -> Totals:
    """How the run ended: of what still was there, and of all evictions."""
    lives = list(result.tracker.every_pod())
    here = [life for life in lives if life.node and life.end is None]
    nodes = [node for node in result.tracker.every_node() if node.gone is None]
    used = {node.name: _share(node.cpu, node.memory, here, node.name) for node in nodes}
    shares = np.array(list(used.values()) or [0.0])
    busy = np.array([used[n] for n in used if any(life.node == n for life in here)] or [0.0])
    return Totals(
        placed=sum(bool(life.node) for life in lives),
        pending=sum(not life.node and life.gone is None for life in lives),
        evictions=sum(life.disruption == PREEMPTED for life in lives),
        nodes_used=len({life.node for life in here}),
        packing=round(float(busy.mean()), 4),
        spread=round(float(shares.std()), 4),
    )


def _share(cpu: int, memory: int, lives: list[PodLife], node: str) -> float:
    """The share that is requested of the resource used most."""
    mine = [life for life in lives if life.node == node]
    asked = sum(life.cpu for life in mine), sum(life.memory for life in mine)
    return max(asked[0] / max(cpu, 1), asked[1] / max(memory, 1))
