"""KubeSchedulerConfiguration v1 and the old Policy file: types, defaults, validation, loading."""

from bayplan.config.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    RawArgs,
    VolumeBindingArgs,
)
from bayplan.config.duration import Duration, format_duration, parse_duration
from bayplan.config.encode import to_data
from bayplan.config.expansion import ExpandedPlugins, expand
from bayplan.config.fields import InvalidConfig
from bayplan.config.gates import DEFAULT_GATES, FeatureGates, parse_gates
from bayplan.config.load import Loaded, complete, default_config, from_data, load, load_file
from bayplan.config.types import (
    API_VERSION,
    EXTENSION_POINTS,
    KIND,
    ClientConnectionConfiguration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)

__all__ = [
    "API_VERSION",
    "DEFAULT_GATES",
    "EXTENSION_POINTS",
    "KIND",
    "ClientConnectionConfiguration",
    "DefaultPreemptionArgs",
    "Duration",
    "DynamicResourcesArgs",
    "ExpandedPlugins",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "InterPodAffinityArgs",
    "InvalidConfig",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "Loaded",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "Plugin",
    "PluginArgs",
    "PluginConfig",
    "PluginSet",
    "Plugins",
    "PodTopologySpreadArgs",
    "RawArgs",
    "VolumeBindingArgs",
    "complete",
    "default_config",
    "expand",
    "format_duration",
    "from_data",
    "load",
    "load_file",
    "parse_duration",
    "parse_gates",
    "to_data",
]
