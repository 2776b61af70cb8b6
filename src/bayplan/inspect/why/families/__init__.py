"""What each plugin's rejection means in facts: one module a family, one table.

A family says for a group of nodes what they have in common (`facts`), for one node what is missing
there (`lacks`), and which changes might help on it (`steps`). Plugins that are not in the table
(outsiders') are told with their own reasons.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bayplan.cluster.arrays import IntArray
from bayplan.framework import Status
from bayplan.inspect.step import Step
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families import (
    affinity,
    devices,
    ports,
    provision,
    resources,
    selectors,
    spread,
    taints,
    volumes,
)

Facts = Callable[[Case, Status, IntArray], list[str]]
Lacks = Callable[[Case, int], str]
Steps = Callable[[Case, int], list[Step]]


class Family(msgspec.Struct, frozen=True):
    """What is known about the rejections of one plugin."""

    facts: Facts
    lacks: Lacks
    steps: Steps = volumes.no_steps
    whole: Callable[[Case], list[Step]] = volumes.no_whole_steps
    """Changes where the plugin ends the attempt before any node is looked at."""
    evictable: bool = False
    """Whether taking pods off a node may help."""


FAMILIES: dict[str, Family] = {
    "NodeResourcesFit": Family(resources.facts, resources.lacks, resources.steps, evictable=True),
    "TaintToleration": Family(taints.facts, taints.lacks, taints.steps),
    "NodeUnschedulable": Family(taints.cordon_facts, taints.cordon_lacks, taints.cordon_steps),
    "NodeAffinity": Family(selectors.facts, selectors.lacks, selectors.steps),
    "NodeName": Family(selectors.name_facts, selectors.name_lacks),
    "NodePorts": Family(ports.facts, ports.lacks, ports.steps, evictable=True),
    "InterPodAffinity": Family(affinity.facts, affinity.lacks, affinity.steps, evictable=True),
    "PodTopologySpread": Family(spread.facts, spread.lacks, spread.steps),
    "VolumeBinding": Family(
        volumes.facts, volumes.lacks, provision.volume_steps, provision.claim_steps
    ),
    "VolumeZone": Family(volumes.facts, volumes.lacks),
    "NodeVolumeLimits": Family(volumes.limit_facts, volumes.limit_lacks, evictable=True),
    "VolumeRestrictions": Family(
        volumes.restriction_facts,
        volumes.restriction_lacks,
        whole=provision.claim_steps,
        evictable=True,
    ),
    "DynamicResources": Family(devices.facts, devices.lacks, whole=devices.whole_steps),
}


def facts_of(case: Case, status: Status, rows: IntArray) -> tuple[str, ...]:
    """Facts about nodes that were rejected alike."""
    family = FAMILIES.get(status.plugin)
    if family is None and not status.plugin:
        # a PreFilter named nodes, and these are not among them
        return tuple(selectors.facts(case, status, rows))
    return () if family is None else tuple(family.facts(case, status, rows))


def missing_on(case: Case, row: int) -> tuple[str, ...]:
    """What is missing on one node, filter by filter."""
    found = []
    for plugin in case.failing(row):
        family, status = FAMILIES.get(plugin), case.status(plugin, row)
        if family is not None:
            found.append(family.lacks(case, row))
        elif status is not None:
            found.append(f"{plugin}: {', '.join(status.all_reasons)}")
    if not found and case.within is not None and not case.within[row]:
        found.append(selectors.lacks(case, row))
    return tuple(dict.fromkeys(found))
