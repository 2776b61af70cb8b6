"""KubeSchedulerConfiguration v1 and the old Policy file: types, defaults, validation, loading."""

from bayplan.api.duration import parse_duration
from bayplan.config.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from bayplan.config.encode import to_data
from bayplan.config.expansion import ExpandedPlugins, expand
from bayplan.config.fields import InvalidConfig
from bayplan.config.gates import (
    DEFAULT_GATES,
    NEWEST,
    VERSIONS,
    FeatureGates,
    parse_gates,
    parse_version,
)
from bayplan.config.load import complete, default_config, from_data, load, load_file
from bayplan.config.types import (
    API_VERSION,
    KIND,
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginSet,
)

__all__ = [
    "API_VERSION",
    "DEFAULT_GATES",
    "KIND",
    "NEWEST",
    "VERSIONS",
    "ClientConnectionConfiguration",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "ExpandedPlugins",
    "FeatureGates",
    "InterPodAffinityArgs",
    "InvalidConfig",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "Plugin",
    "PluginSet",
    "PodTopologySpreadArgs",
    "VolumeBindingArgs",
    "complete",
    "default_config",
    "expand",
    "from_data",
    "load",
    "load_file",
    "parse_duration",
    "parse_gates",
    "parse_version",
    "to_data",
]
