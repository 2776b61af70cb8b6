"""What each plugin contributes: a configuration, and the same without one plugin after the other.

Only plugins that judge nodes or make room are left out; without a queue order or a binder there is
no scheduler. Differences are taken seed by seed, so that what seeds have in common falls out.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from bayplan.config import FeatureGates, from_data
from bayplan.errors import BayplanError
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.extensions import load_registry
from bayplan.sim.study.measures import LESS_IS_BETTER
from bayplan.sim.study.plan import Plan
from bayplan.sim.study.results import Estimate, Row, estimate

WITHOUT = " without "
NEEDED = ("PrioritySort", "DefaultBinder", "SchedulingGates")
MEASURES = ("pending", "unbound", "evicted", "nodes", "fragmentation", "spread")


def without_each(plan: Plan, config: str) -> Plan:
    """The plan with one configuration and all that lack one of its plugins."""
    if config not in plan.configs:
        known = ", ".join(plan.configs)
        raise BayplanError(f'--ablate "{config}" is not in the axis configs: {known}')
    document = plan.configs[config]
    configs = {config: document}
    for name in plugins_of(document, plan.versions[-1], plan.plugins):
        configs[f"{config}{WITHOUT}{name}"] = without(document, name)
    return msgspec.structs.replace(plan, configs=configs)


def plugins_of(document: dict[str, object], version: str, files: Sequence[str]) -> list[str]:
    """The plugins of the first profile that may be left out."""
    config = from_data(document, FeatureGates(version=version))
    registry = load_registry(list(files)) if files else in_tree_registry()
    plugins = config.profiles[0].plugins
    assert plugins is not None
    return [name for name in plugins.names() if name in registry and name not in NEEDED]


def without(document: dict[str, object], name: str) -> dict[str, object]:
    """A configuration whose profiles all lack a plugin."""
    made: dict[str, Any] = copy.deepcopy(document)
    for profile in made.setdefault("profiles", [{}]):
        points = profile.setdefault("plugins", {})
        points.setdefault("multiPoint", {})
        for point in points.values():
            point["enabled"] = [i for i in point.get("enabled", []) if i["name"] != name]
            point["disabled"] = [*point.get("disabled", []), {"name": name}]
    return made


def differences(found: Sequence[Row], config: str) -> list[tuple[str, str, dict[str, Estimate]]]:
    """Plugin, workload and what leaving it out changes, seed by seed."""
    axes = ("workload", "load", "version", "seed")
    base = {tuple(row[a] for a in axes): row for row in found if row["config"] == config}
    head = f"{config}{WITHOUT}"
    pairs: dict[tuple[str, str], list[tuple[Row, Row]]] = {}
    for row in found:
        name = str(row["config"])
        first = base.get(tuple(row[a] for a in axes))
        if name.startswith(head) and first is not None and not row["error"] and not first["error"]:
            key = (name.removeprefix(head), str(row["workload"]))
            pairs.setdefault(key, []).append((first, row))
    return [
        (plugin, workload, {m: estimate([_minus(b, a, m) for a, b in some]) for m in MEASURES})
        for (plugin, workload), some in pairs.items()
    ]


def _minus(after: Row, before: Row, measure: str) -> float:
    return float(after[measure]) - float(before[measure])  # type: ignore[arg-type]


def lines(found: Sequence[Row], config: str) -> list[str]:
    """The differences in words, plugins that change nothing in one line."""
    told, idle = [f"without a plugin, {config} changes by (less is better):"], []
    for plugin, workload, changes in differences(found, config):
        said = [f"{m} {_signed(e)}" for m, e in changes.items() if e.mean and m in LESS_IS_BETTER]
        if said:
            told.append(f"  {plugin} on {workload}: {', '.join(said)}")
        elif plugin not in idle:
            idle.append(plugin)
    return [*told, f"  no difference: {', '.join(idle)}"] if idle else told


def _signed(change: Estimate) -> str:
    return ("+" if change.mean > 0 else "") + str(change)
