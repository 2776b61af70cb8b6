"""A profile: the plugins that serve one scheduler name, made and put in order.

Each plugin is made once per profile, however many points it takes part in. The configuration's
multiPoint expansion decides who runs where and with which weight. How the points are run is next
door: `filtering`, `scoring`, `binding`. Profiles are generic over what is placed and where:
nothing here knows pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from bayplan.config import ExpandedPlugins, KubeSchedulerProfile, expand
from bayplan.errors import ConfigError, PluginError, not_ours, with_place
from bayplan.framework.contract.events import ActionType, ClusterEventWithHint, Resource, on
from bayplan.framework.contract.points import POINTS, implements
from bayplan.framework.contract.registry import Factory
from bayplan.framework.contract.status import Code, Status

_LOG = structlog.get_logger(__name__)

Wrap = Callable[[Any, str], Any]
"""Takes a plugin and its profile's name, returns what stands in the profile in its stead."""

_EVENT_POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit", "placementGenerate")
_ALL_RESOURCES = (
    Resource.POD,
    Resource.NODE,
    Resource.PERSISTENT_VOLUME,
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.CSI_NODE,
    Resource.CSI_DRIVER,
    Resource.CSI_STORAGE_CAPACITY,
    Resource.STORAGE_CLASS,
    Resource.RESOURCE_CLAIM,
    Resource.DEVICE_CLASS,
)


class Profile:
    """Plugins by extension point, in the order in which they run."""

    def __init__(
        self,
        name: str,
        plugins: Mapping[str, Any],
        points: Mapping[str, tuple[str, ...]],
        weights: Mapping[str, int],
        percentage_of_nodes_to_score: int | None = None,
        placement_weights: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        """The `schedulerName` that this profile serves."""
        self.plugins: dict[str, Any] = dict(plugins)
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.weights = dict(weights)
        self.placement_weights = dict(placement_weights or {})
        self.problems: Counter[tuple[str, str]] = Counter()
        """(plugin, method) to how often it raised or answered what it must not."""
        for point, names in points.items():
            for plugin in names:
                if not implements(self.plugins[plugin], point):
                    raise ConfigError(f'plugin "{plugin}" does not extend {point} plugin')
        at = {point: tuple(self.plugins[n] for n in points.get(point, ())) for point in POINTS}
        self.at: dict[str, tuple[Any, ...]] = at
        self.pre_enqueue = at["preEnqueue"]
        self.queue_sort = at["queueSort"][0] if at["queueSort"] else None
        self.pre_filter = at["preFilter"]
        self.filter = at["filter"]
        self.post_filter = at["postFilter"]
        self.pre_score = at["preScore"]
        self.score = at["score"]
        self.reserve = at["reserve"]
        self.permit = at["permit"]
        self.pre_bind = at["preBind"]
        self.bind = at["bind"]
        self.post_bind = at["postBind"]
        cycle = ("preFilter", "filter", "preScore", "score")
        self.cycle = tuple(
            (plugin, {point: plugin in at[point] for point in cycle})
            for plugin in {plugin.name: plugin for point in cycle for plugin in at[point]}.values()
        )
        """Plugins that say something about nodes, each with the points at which it does."""
        self.extensions = tuple(p for p in self.pre_filter if hasattr(p, "add_pod"))
        """PreFilter plugins that follow pods being added and removed in dry runs."""
        self.score_problem = self._score_problem()
        """What every attempt to score ends with: a plugin scores without a point that it needs."""

    def _score_problem(self) -> Status | None:
        for plugin in self.score:
            point, text = getattr(plugin, "score_needs", ("score", ""))
            if plugin not in self.at[point]:
                return failed_score(plugin.name, text)
        return None

    @classmethod
    def build(
        cls,
        config: KubeSchedulerProfile,
        registry: Mapping[str, Factory],
        handle: Any,
        wrap: Wrap | None = None,
    ) -> Profile:
        """Make the plugins of a configured profile; raises ConfigError.

        `wrap` may put something in front of a plugin, such as timers.
        """
        wanted = config.plugins.names()
        unknown = [name for name in wanted if name not in registry]
        if unknown:
            names = ", ".join(f'"{name}"' for name in unknown)
            what = f"plugin {names} is" if len(unknown) == 1 else f"plugins {names} are"
            raise ConfigError(
                f'loading profile "{config.scheduler_name}": {what} not '
                f"registered; known plugins: {', '.join(sorted(registry))}; --plugins brings others"
            )
        plugins = {name: _make(name, registry, config, handle) for name in wanted}
        if wrap is not None:
            made = config.scheduler_name
            plugins = {name: wrap(plugin, made) for name, plugin in plugins.items()}
        found = {
            name: frozenset(point for point in POINTS if implements(plugin, point))
            for name, plugin in plugins.items()
        }
        expanded: ExpandedPlugins = expand(config, found)
        profile = cls(
            config.scheduler_name,
            plugins,
            expanded.points,
            expanded.score_weights,
            config.percentage_of_nodes_to_score,
            expanded.placement_weights,
        )
        handle.profile = profile
        return profile

    def events(self) -> dict[str, tuple[ClusterEventWithHint, ...]]:
        """What each plugin that can reject a pod waits for, as kube-scheduler fills it in."""
        found: dict[str, tuple[ClusterEventWithHint, ...]] = {}
        for name, plugin in self.plugins.items():
            if not any(plugin in self.at[point] for point in _EVENT_POINTS):
                continue
            register = getattr(plugin, "events_to_register", None)
            found[name] = ALL_EVENTS if register is None else _with_taints(tuple(register()))
        return found

    def weight_of(self, plugin: str) -> int:
        return self.weights.get(plugin, 1)

    def problem(self, plugin: str, method: str, error: BaseException) -> Status:
        """Count and log what went wrong in a plugin, and make a status of it."""
        not_ours(error)
        self.problems[(plugin, method)] += 1
        if not isinstance(error, PluginError):
            named = PluginError(
                f'plugin "{plugin}" raised {type(error).__name__} in {method}: {with_place(error)}'
            )
            named.__cause__ = error
            error = named
        if self.problems[(plugin, method)] == 1:
            _LOG.warning("plugin failed", plugin=plugin, method=method, error=str(error))
        return Status(Code.ERROR, error=error, plugin=plugin)


def failed_score(name: str, text: str) -> Status:
    """The end of an attempt in which a plugin could not score."""
    text = f'running Score plugins: plugin "{name}" failed with: {text}'
    return Status(Code.ERROR, error=PluginError(text), plugin=name)


def _make(
    name: str, registry: Mapping[str, Factory], config: KubeSchedulerProfile, handle: Any
) -> Any:
    try:
        plugin = registry[name](config.args(name), handle)
    except ConfigError as problem:
        raise ConfigError(f'initializing plugin "{name}": {problem}') from problem
    except BaseException as problem:  # sys.exit, too: the file asked for it, not the user
        raise ConfigError(
            f'initializing plugin "{name}": {type(problem).__name__}: {with_place(problem)}'
        ) from problem
    if getattr(plugin, "name", None) != name:
        raise ConfigError(
            f'plugin "{name}" calls itself "{getattr(plugin, "name", None)}"; the names must agree'
        )
    return plugin


ALL_EVENTS: tuple[ClusterEventWithHint, ...] = tuple(
    on(resource, ActionType.ALL) for resource in _ALL_RESOURCES
)
"""What a plugin without `events_to_register` waits for."""


def _with_taints(events: tuple[ClusterEventWithHint, ...]) -> tuple[ClusterEventWithHint, ...]:
    """A node that was added may become fit when its taint goes; upstream adds that event too."""
    nodes = [item.event.action for item in events if item.event.resource == Resource.NODE]
    adds = any(action & ActionType.ADD for action in nodes)
    taints = any(action & ActionType.UPDATE_NODE_TAINT for action in nodes)
    if adds and not taints:
        return (*events, on(Resource.NODE, ActionType.UPDATE_NODE_TAINT))
    return events
