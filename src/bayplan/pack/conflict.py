"""Why there is no placement: constraints that cannot all hold, none of which could be left out.

Every constraint is left out in turn; if there is still no placement it had nothing to do with it
and stays out. What remains is told in words with its numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.pack.asked import Asked
from bayplan.pack.model import PODS, AtMostOne, PodClass, Problem, Spread, members
from bayplan.words import plural

RUNNING = "running"
TOGETHER = "together"
RESOURCE = "resource "
NODE = "node "
RULE = "rule "

Show = Callable[[str, int], str]
"""Writes an amount of a resource."""


def constraints(asked: Asked) -> list[str]:
    """Everything that might be left out, the most telling last: it is kept if there is a choice."""
    problem = asked.problem
    found = [RULE + rule.why for rule in problem.rules]
    found += [NODE + name for item in problem.classes for name in item.masks]
    found += [TOGETHER] if asked.needed > 1 else []
    found += [RUNNING] if not asked.pending.all() else []
    found += [RESOURCE + name for name in reversed(problem.resources)]
    return list(dict.fromkeys(found))


def smallest(asked: Asked, priority: int) -> list[str]:
    """Constraints of which none can be left out."""
    kept = constraints(asked)
    for name in list(kept):
        rest = [other for other in kept if other != name]
        if _never(asked, rest, priority):
            kept = rest
    return kept


def _never(asked: Asked, kept: list[str], priority: int) -> bool:
    """Whether nothing fits under some of the constraints only."""
    relaxed = with_only(asked.problem, set(kept))
    question = Asked(relaxed, asked.needed if TOGETHER in kept else min(asked.needed, 1))
    less: BoolArray = np.array(
        [c.priority < priority or RUNNING not in kept for c in relaxed.classes], dtype=bool
    )
    return question.never(question.pending | less, 5.0)


def with_only(problem: Problem, kept: set[str]) -> Problem:
    """The same problem under some of its constraints."""
    classes = [
        PodClass(
            item.pods,
            tuple(
                amount if RESOURCE + name in kept else 0
                for name, amount in zip(problem.resources, item.need, strict=True)
            ),
            {name: mask for name, mask in item.masks.items() if NODE + name in kept},
            item.profile,
            item.priority,
            item.pending,
        )
        for item in problem.classes
    ]
    found = Problem(problem.names, classes, problem.resources, problem.capacity, problem.now)
    found.rules = [rule for rule in problem.rules if RULE + rule.why in kept]
    found.cost, found.forced = problem.cost, problem.forced
    found.settle()
    return found


# -- in words -----------------------------------------------------------------------------------


def in_words(asked: Asked, names: list[str], show: Show) -> list[str]:
    """Each of the constraints with the numbers that matter."""
    if not asked.problem.names:
        return ["there is no node at all"]
    return [_words(asked, name, names, show) for name in names]


def _words(asked: Asked, name: str, kept: list[str], show: Show) -> str:
    if name == TOGETHER:
        return f"{asked.needed} pods are needed together, not fewer"
    if name == RUNNING:
        return "the pods that run now, of the same or higher priority, go on running"
    if name.startswith(RESOURCE):
        return _resource(asked, name.removeprefix(RESOURCE), kept, show)
    if name.startswith(NODE):
        return _node(asked, name.removeprefix(NODE))
    return _rule(asked, name.removeprefix(RULE))


def _resource(asked: Asked, name: str, kept: list[str], show: Show) -> str:
    problem = asked.problem
    place = problem.resources.index(name)
    open_to = with_only(problem, {item for item in kept if item.startswith(NODE)})
    rows = np.flatnonzero(open_to.allowed[asked.pending].any(axis=0))
    capacity = problem.capacity[place, rows]
    most = int(capacity.max(initial=0))
    each = int(problem.need[asked.pending, place].max(initial=0))
    what = "pods" if name == PODS else name
    one = len(rows) == 1
    where = "the only node that they may use" if one else f"the {len(rows)} nodes that they may use"
    if each > most:
        offers = f"{where} {'offers' if one else 'offer'} at most {show(name, most)}"
        return f"{what}: one pod asks for {show(name, each)}, {offers}"
    wanted = int((problem.need[:, place] * problem.count)[asked.pending].sum())
    free: IntArray = capacity - (problem.need[:, place] @ problem.now)[rows]
    left, total = int(free.clip(0).sum()), int(capacity.sum())
    has = f"{where} {'has' if one else 'have'} {show(name, left)} free in all"
    text = f"{what}: {show(name, wanted)} asked for; {has}"
    if RUNNING in kept:
        text += f" and {show(name, total)} beside pods that stay"
    return text


def _node(asked: Asked, plugin: str) -> str:
    problem = asked.problem
    mine = [c for c in problem.classes if c.pending and plugin in c.masks]
    if not mine:
        return f"{plugin} of running pods: they may use some of the nodes only"
    count = int(np.max([c.masks[plugin].sum() for c in mine]))
    return f"{_PLUGINS.get(plugin, plugin)}: {count} of {len(problem.names)} nodes pass"


def _rule(asked: Asked, why: str) -> str:
    problem = asked.problem
    rules = [rule for rule in problem.rules if rule.why == why]
    for rule in rules:
        if isinstance(rule, AtMostOne):
            pods = int(problem.count[list(rule.classes)].sum())
            domains = plural(len(members(rule.domain)), "domain")
            return f"{why}: {plural(pods, 'pod')}, one a domain, {domains}"
        if isinstance(rule, Spread):
            return (
                f"{why}: at most {rule.skew} more than in any other of {len(rule.present)} domains"
            )
    return why


_PLUGINS = {
    "InterPodAffinity": "pod (anti-)affinity with pods that stay",
    "NodeAffinity": "node selector and affinity",
    "NodePorts": "host ports of pods that stay",
    "NodeUnschedulable": "cordoned nodes",
    "PodTopologySpread": "labels that topology spread needs",
    "TaintToleration": "taints",
    "VolumeBinding": "volumes",
    "VolumeZone": "the zone of volumes",
}
