"""Which plugin runs at which extension point: the expansion of `multiPoint`.

A plugin in `multiPoint` runs at every point it implements, unless that point disables it. A
point's own list comes in two parts: plugins that also are in `multiPoint` (they were
re-configured) run first, in the point's order; then the rest of `multiPoint`; then the point's
other plugins. The framework calls `expand` when it builds a profile, because only then it is
known which points a plugin implements.
"""

from collections.abc import Collection, Mapping

import msgspec

from bayplan.config.types import EXTENSION_POINTS, KubeSchedulerProfile, Plugin, PluginSet
from bayplan.errors import ConfigError

MAX_SCORE = 100
MAX_TOTAL_SCORE = (1 << 63) - 1


class ExpandedPlugins(msgspec.Struct, frozen=True):
    """What a profile runs: names by extension point (as in the file), and weights by name."""

    points: dict[str, tuple[str, ...]]
    score_weights: dict[str, int]
    placement_weights: dict[str, int]


def expand(
    profile: KubeSchedulerProfile, implements: Mapping[str, Collection[str]]
) -> ExpandedPlugins:
    """Expand a profile, given the extension points that each known plugin implements.

    Raises ConfigError in kube-scheduler's words: an unknown plugin, one enabled at a point it
    does not implement, one listed twice, no or two queue sorts, no binder, weights that could
    overflow.
    """
    names = profile.plugins.names()
    unknown = [name for name in names if name not in implements]
    if unknown:
        known = ", ".join(sorted(implements))
        raise ConfigError(
            f'profile "{profile.scheduler_name}": plugin "{unknown[0]}" does not exist; '
            f"known plugins: {known}"
        )
    multi = profile.plugins.multi_point.enabled
    points = {
        point: _expand_point(point, profile.plugins.at(point), multi, implements)
        for point in EXTENSION_POINTS
    }
    _check_counts(profile.scheduler_name, points)
    plugins = profile.plugins
    return ExpandedPlugins(
        points,
        _weights("score", plugins.score.enabled + multi, implements),
        _weights("placementScore", plugins.placement_score.enabled + multi, implements),
    )


def _expand_point(
    point: str,
    own: PluginSet,
    multi: tuple[Plugin, ...],
    implements: Mapping[str, Collection[str]],
) -> tuple[str, ...]:
    kind = f"{point[0].upper()}{point[1:]}Plugin"
    explicit: list[str] = []
    for plugin in own.enabled:
        if point not in implements[plugin.name]:
            raise ConfigError(f'plugin "{plugin.name}" does not extend {kind} plugin')
        if plugin.name in explicit:
            raise ConfigError(f'plugin "{plugin.name}" already registered as "{kind}"')
        explicit.append(plugin.name)
    disabled = {plugin.name for plugin in own.disabled}
    if "*" in disabled:
        return tuple(explicit)
    overrides: set[str] = set()
    added: list[str] = []
    for plugin in multi:
        if point not in implements[plugin.name] or plugin.name in disabled:
            continue
        if plugin.name in explicit:
            overrides.add(plugin.name)
        elif plugin.name in added:
            raise ConfigError(f'plugin "{plugin.name}" already registered as "{kind}"')
        else:
            added.append(plugin.name)
    first = [name for name in explicit if name in overrides]
    return tuple(first + added + [name for name in explicit if name not in overrides])


def _check_counts(scheduler_name: str, points: dict[str, tuple[str, ...]]) -> None:
    sorts = len(points["queueSort"])
    if sorts != 1:
        raise ConfigError(
            "only one queue sort plugin required for profile with scheduler name "
            f'"{scheduler_name}", but got {sorts}'
        )
    if not points["bind"]:
        raise ConfigError(
            f'at least one bind plugin is needed for profile with scheduler name "{scheduler_name}"'
        )
    if len(points["placementGenerate"]) > 1:
        raise ConfigError(
            "at most one placement generate plugin is allowed for profile with scheduler name "
            f'"{scheduler_name}"'
        )


def _weights(
    point: str, plugins: tuple[Plugin, ...], implements: Mapping[str, Collection[str]]
) -> dict[str, int]:
    """Weights by name; the point's own entry comes first and wins over `multiPoint`'s."""
    weights: dict[str, int] = {}
    total = 0
    for plugin in plugins:
        if point not in implements[plugin.name] or plugin.name in weights:
            continue
        weights[plugin.name] = plugin.weight or 1
        total += weights[plugin.name] * MAX_SCORE
        if total > MAX_TOTAL_SCORE:
            raise ConfigError("score plugins: total score of Score plugins could overflow")
    return weights
