"""Which plugin is responsible when two configurations choose differently in the same cluster.

If one refuses the other's node, the plugin that refuses it is. Else the scores differ: the plugin
that moved the balance between the two nodes most, weight times score, from the one configuration to
the other.
"""

from __future__ import annotations

from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine


def blame(a: Engine, one: Decision, b: Engine, two: Decision) -> tuple[str, str]:
    """The plugin, and how it is responsible; empty if there is no telling."""
    refused = _refusal(b, two, one.node_name) or _refusal(a, one, two.node_name)
    if refused is not None:
        return refused
    if not one.node_name or not two.node_name:
        return "", ""
    mine, theirs = _scores(a, one), _scores(b, two)
    moved: dict[str, int] = {}
    for plugin in mine | theirs:
        before = _balance(mine, plugin, one.node_name, two.node_name)
        after = _balance(theirs, plugin, one.node_name, two.node_name)
        moved[plugin] = after - before
    plugin = max(moved, key=lambda name: (moved[name], name), default="")
    if not plugin or moved[plugin] <= 0:
        return "", "equally good"
    return plugin, f"{two.node_name} gains {moved[plugin]} points on {one.node_name}"


def _refusal(engine: Engine, decision: Decision, node: str) -> tuple[str, str] | None:
    if not node:
        return None
    status = engine.node_statuses(decision).get(node)
    if status is None:
        return None
    return status.plugin, f"{node}: {', '.join(status.reasons)}"


def _scores(engine: Engine, decision: Decision) -> dict[str, dict[str, int]]:
    names, columns, _, _ = engine.all_scores(decision)
    return {
        plugin: dict(zip(names, column.tolist(), strict=True)) for plugin, column in columns.items()
    }


def _balance(scores: dict[str, dict[str, int]], plugin: str, one: str, two: str) -> int:
    column = scores.get(plugin, {})
    return column.get(two, 0) - column.get(one, 0)
