"""Fills in what a configuration leaves out, as kube-scheduler does.

The default plugins live in `multiPoint`; a profile's own sets are merged into them. Plugins that
take arguments and got none receive the default ones.
"""

from typing import TypeVar

import msgspec

from bayplan.config.args import PluginArgs, default_args, fill_in
from bayplan.config.gates import FeatureGates
from bayplan.config.types import (
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)

DEFAULT_SCHEDULER_NAME = "default-scheduler"

# (plugin, weight or 0, feature gate or ""); the order is the order in which they run
_DEFAULT_PLUGINS = (
    ("SchedulingGates", 0, ""),
    ("PrioritySort", 0, ""),
    ("NodeName", 0, ""),
    ("NodeUnschedulable", 0, ""),
    ("TaintToleration", 3, ""),
    ("NodeAffinity", 2, ""),
    ("NodePorts", 0, ""),
    ("NodeResourcesFit", 1, ""),
    ("VolumeRestrictions", 0, ""),
    ("NodeVolumeLimits", 0, ""),
    ("VolumeBinding", 0, ""),
    ("VolumeZone", 0, ""),
    ("PodTopologySpread", 2, ""),
    ("InterPodAffinity", 2, ""),
    ("DynamicResources", 2, "DynamicResourceAllocation"),
    ("DefaultPreemption", 0, ""),
    ("NodeResourcesBalancedAllocation", 1, ""),
    ("ImageLocality", 1, ""),
    ("DefaultBinder", 0, ""),
    ("NodeDeclaredFeatures", 0, "NodeDeclaredFeatures"),
    ("GangScheduling", 0, "GangScheduling"),
    ("TopologyPlacementGenerator", 0, "TopologyAwareWorkloadScheduling"),
    ("PodGroupPodsCount", 1, "TopologyAwareWorkloadScheduling"),
)


def _is_on(gate: str, gates: FeatureGates) -> bool:
    if gate == "GangScheduling":
        return gangs_are_on(gates)
    return not gate or gates[gate]


def gangs_are_on(gates: FeatureGates) -> bool:
    """Whether pod groups are placed as a whole; 1.37 folded the gate into GenericWorkload."""
    return gates["GenericWorkload" if gates.since("1.37") else "GangScheduling"]


def default_plugins(gates: FeatureGates) -> Plugins:
    """The plugins of a profile that says nothing."""
    known = list(_DEFAULT_PLUGINS)
    if not gates.since("1.37"):
        # 1.37 asks NodeName first
        first = known.index(("NodeName", 0, ""))
        known[first], known[first + 1] = known[first + 1], known[first]
    enabled = tuple(
        Plugin(name=name, weight=weight) for name, weight, gate in known if _is_on(gate, gates)
    )
    groups = PluginSet() if gates.since("1.37") else None
    return Plugins(multi_point=PluginSet(enabled=enabled), pod_group_post_filter=groups)


def merge_plugin_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge a profile's set into the default one.

    A plugin listed in both takes the profile's weight and the default's place; `*` in `disabled`
    drops all defaults; the other plugins of the profile follow in their order.
    """
    disabled = custom.disabled + default.disabled
    names = {plugin.name for plugin in disabled}
    position = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    enabled: list[Plugin] = []
    replaced: set[int] = set()
    if "*" not in names:
        for plugin in default.enabled:
            if plugin.name in names:
                continue
            index = position.get(plugin.name)
            if index is not None:
                replaced.add(index)
                enabled.append(custom.enabled[index])
            else:
                enabled.append(plugin)
    enabled += [plugin for i, plugin in enumerate(custom.enabled) if i not in replaced]
    disabled = tuple(Plugin(name=plugin.name) for plugin in disabled)
    return PluginSet(enabled=tuple(enabled), disabled=disabled)


def merge_plugins(default: Plugins, custom: Plugins) -> Plugins:
    """Merge every extension point's set."""
    return Plugins(
        **{
            name: merge_plugin_set(getattr(default, name), getattr(custom, name) or PluginSet())
            for name in Plugins.__struct_fields__
            if getattr(default, name) is not None
        }
    )


def default_profile(profile: KubeSchedulerProfile, gates: FeatureGates) -> KubeSchedulerProfile:
    """The profile with default plugins merged in and arguments for all that take some."""
    plugins = merge_plugins(default_plugins(gates), profile.plugins)
    given = [
        PluginConfig(name=item.name, args=_complete(item.args, gates))
        for item in profile.plugin_config
    ]
    has = {item.name for item in given}
    for name in plugins.names():
        args = default_args(name, gates)
        if name not in has and args is not None:
            given.append(PluginConfig(name=name, args=args))
    return msgspec.structs.replace(profile, plugins=plugins, plugin_config=tuple(given))


def _complete(args: PluginArgs | None, gates: FeatureGates) -> PluginArgs | None:
    return None if args is None else fill_in(args, gates)


def set_defaults(
    config: KubeSchedulerConfiguration, gates: FeatureGates
) -> KubeSchedulerConfiguration:
    """Return the configuration with every default filled in. Idempotent but for disabled lists."""
    profiles = config.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = (msgspec.structs.replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    contention = config.enable_contention_profiling
    return msgspec.structs.replace(
        config,
        profiles=tuple(default_profile(profile, gates) for profile in profiles),
        leader_election=_zero_to_default(config.leader_election),
        client_connection=_zero_to_default(config.client_connection),
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
    )


_Section = TypeVar("_Section", LeaderElectionConfiguration, ClientConnectionConfiguration)


def _zero_to_default(section: _Section) -> _Section:
    """Go cannot tell a zero from an absent value here, so zero means the default."""
    default = type(section)()
    zeros = {
        name: getattr(default, name)
        for name in section.__struct_fields__
        if not getattr(section, name) and name != "leader_elect"
    }
    return msgspec.structs.replace(section, **zeros)
