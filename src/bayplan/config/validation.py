"""Finds every problem of a complete configuration, worded as kube-scheduler words them."""

from bayplan.api.names import qualified_name
from bayplan.config.args import PluginArgs, RawArgs
from bayplan.config.args_validation import validate_args
from bayplan.config.fields import (
    duplicate,
    invalid,
    required,
)
from bayplan.config.gates import FeatureGates
from bayplan.config.types import (
    API_VERSION,
    EXTENSION_POINTS,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginSet,
)

_REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_REMOVED = (
    'was invalid in version "v1" '  # upstream names the version of the core group here
    f'(KubeSchedulerConfiguration is version "{API_VERSION}")'
)


def validate(config: KubeSchedulerConfiguration, gates: FeatureGates) -> list[str]:
    """Return all problems; an empty list means the configuration can be used."""
    problems = []
    if config.client_connection.burst < 0:
        burst = config.client_connection.burst
        problems.append(invalid("clientConnection.burst", burst, "must be non-negative"))
    problems += _leader_election(config.leader_election, "leaderElection")
    if config.parallelism <= 0:
        problems.append(
            invalid(
                "parallelism", config.parallelism, "should be an integer value greater than zero"
            )
        )
    problems += _profiles(config.profiles, gates)
    problems += _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, most = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        problems.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if most < initial:
        problems.append(
            invalid(
                "podMaxBackoffSeconds",
                most,
                "must be greater than or equal to PodInitialBackoffSeconds",
            )
        )
    return problems + _extenders(config.extenders)


def _leader_election(election: LeaderElectionConfiguration, path: str) -> list[str]:
    if not election.leader_elect:
        return []
    problems = [
        invalid(f"{path}.{name}", value, "must be greater than zero")
        for name, value in (
            ("leaseDuration", election.lease_duration),
            ("renewDeadline", election.renew_deadline),
            ("retryPeriod", election.retry_period),
        )
        if value.nanoseconds <= 0
    ]
    if election.lease_duration <= election.renew_deadline:
        problems.append(
            invalid(
                f"{path}.leaseDuration",
                election.renew_deadline,
                "must be greater than `RenewDeadline`",
            )
        )
    if election.resource_lock != "leases":
        problems.append(
            invalid(
                f"{path}.resourceLock",
                election.resource_lock,
                'resourceLock value must be "leases"',
            )
        )
    return problems


def _percentage(path: str, value: int | None) -> list[str]:
    if value is None or 0 <= value <= 100:
        return []
    return [invalid(path, value, "not in valid range [0-100]")]


def _profiles(profiles: tuple[KubeSchedulerProfile, ...], gates: FeatureGates) -> list[str]:
    if not profiles:
        return [required("profiles")]
    problems = []
    seen: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        if not profile.scheduler_name:
            problems.append(required(f"{path}.schedulerName"))
        problems += _percentage(
            f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score
        )
        problems += _removed_plugins(profile, path)
        problems += _plugin_config(profile, path, gates)
        if profile.scheduler_name in seen:
            first = f"profiles[{seen[profile.scheduler_name]}].schedulerName"
            problems.append(f"{path}.schedulerName: Duplicate value: {first}")
        seen[profile.scheduler_name] = i
    return problems + _common_queue_sort(profiles)


def _removed_plugins(profile: KubeSchedulerProfile, path: str) -> list[str]:
    classic = [point for point in EXTENSION_POINTS if not point.startswith("placement")]
    return [
        invalid(f"{path}.plugins.{point}.enabled[{i}]", plugin.name, _REMOVED)
        for point in classic
        for i, plugin in enumerate(profile.plugins.at(point).enabled)
        if plugin.name in _REMOVED_PLUGINS
    ]


def _plugin_config(profile: KubeSchedulerProfile, path: str, gates: FeatureGates) -> list[str]:
    problems = []
    seen: set[str] = set()
    for i, item in enumerate(profile.plugin_config):
        its = f"{path}.pluginConfig[{i}]"
        if item.name in seen:
            problems.append(duplicate(its, item.name))
        seen.add(item.name)
        if item.name in _REMOVED_PLUGINS:
            problems.append(invalid(its, item.name, _REMOVED))
        elif item.args is not None:
            problems += validate_args(item.args, f"{its}.args", gates)
    return problems


def _common_queue_sort(profiles: tuple[KubeSchedulerProfile, ...]) -> list[str]:
    problems = []
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        problems.append(
            invalid(
                "profiles[0].plugins.queueSort.Enabled",
                len(first.enabled),
                "only one queue sort plugin can be enabled",
            )
        )
    name = first.enabled[0].name if first.enabled else ""
    args = profiles[0].args(name) if name else None
    for i, profile in enumerate(profiles[1:], 1):
        path = f"profiles[{i}]"
        mine = profile.plugins.queue_sort
        if mine != first:
            problems.append(_different_sort(f"{path}.plugins.queueSort", mine))
        problems += [
            invalid(
                f"{path}.pluginConfig.args",
                _raw(item.args),
                "queueSort must be the same for all profiles",
            )
            for item in profile.plugin_config
            if item.name == name and item.args != args
        ]
    return problems


def _different_sort(path: str, mine: PluginSet) -> str:
    shown = {
        "Enabled": [{"Name": p.name, "Weight": p.weight} for p in mine.enabled] or None,
        "Disabled": [{"Name": p.name, "Weight": p.weight} for p in mine.disabled] or None,
    }
    return invalid(path, shown, "must be the same for all profiles")


def _raw(args: PluginArgs | None) -> PluginArgs | RawArgs:
    return {} if args is None else args


def _extenders(extenders: tuple[Extender, ...]) -> list[str]:
    problems = []
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if not extender.url_prefix:
            problems.append(required(f"{path}.urlPrefix"))
        if extender.prioritize_verb and extender.weight <= 0:
            problems.append(
                invalid(
                    f"{path}.weight", extender.weight, "must have a positive weight applied to it"
                )
            )
        for j, resource in enumerate(extender.managed_resources):
            its = f"{path}.managedResources[{j}].name"
            problems += _extended_resource(its, resource.name)
            if resource.name in managed:
                problems.append(
                    invalid(its, resource.name, "duplicate extender managed resource name")
                )
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        problems.append(invalid("extenders", found, "only one extender can implement bind"))
    return problems


def _extended_resource(path: str, name: str) -> list[str]:
    problems = [invalid(path, name, text) for text in qualified_name(name)]
    if problems:
        return problems
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests.") or qualified_name(f"requests.{name}"):
        return [invalid(path, name, "is an invalid extended resource name")]
    return []
