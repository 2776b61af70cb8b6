"""KubeSchedulerConfiguration v1 as data.

The structs hold a *complete* configuration: what `load` returns has every default filled in and is
valid. Absent and `null` mean the same in the file, as they do for kube-scheduler.
"""

import msgspec

from bayplan.api.duration import Duration, seconds
from bayplan.config.args import Int64, Model, PluginArgs

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

EXTENSION_POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "podGroupPostFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
)
"""The keys under `plugins`, besides `multiPoint`."""


class Plugin(Model, frozen=True):
    """A plugin by name; the weight matters for scoring points only, 0 counts as 1."""

    name: str = ""
    weight: int = 0


class PluginSet(Model, frozen=True):
    """What is enabled and disabled at one extension point."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(Model, frozen=True):
    """The plugins of a profile, by extension point."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet | None = None
    """Complete configurations of 1.36, which does not know it, are without it."""

    def at(self, point: str) -> PluginSet:
        """The set of an extension point named as in the file, such as `preFilter`."""
        result: PluginSet | None = getattr(self, _ATTRIBUTES[point])
        return result or PluginSet()

    def names(self) -> list[str]:
        """Every plugin that is enabled anywhere, sorted."""
        sets = (getattr(self, attribute) for attribute in self.__struct_fields__)
        return sorted({plugin.name for its in sets if its for plugin in its.enabled})


_ATTRIBUTES = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}


class PluginConfig(Model, frozen=True):
    """The arguments of one plugin: a struct of `args` for in-tree ones, JSON data for others."""

    name: str = ""
    args: PluginArgs | None = None


class KubeSchedulerProfile(Model, frozen=True):
    """One scheduler name and the plugins that serve its pods."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args(self, name: str) -> PluginArgs | None:
        """The arguments of a plugin, or None when it has none."""
        return next((item.args for item in self.plugin_config if item.name == name), None)


class LeaderElectionConfiguration(Model, frozen=True):
    """How several schedulers agree on one that works."""

    leader_elect: bool = True
    lease_duration: Duration = seconds(15)
    renew_deadline: Duration = seconds(10)
    retry_period: Duration = seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(Model, frozen=True):
    """How to talk to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class ExtenderManagedResource(Model, frozen=True):
    """A resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Model, frozen=True):
    """TLS towards an extender; data beats files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Model, frozen=True):
    """An HTTP service that filters, scores, preempts or binds beside the plugins."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False

    @property
    def timeout_seconds(self) -> float:
        """The time limit of a whole request; the file's 0 means five seconds."""
        return self.http_timeout.seconds or 5.0


class KubeSchedulerConfiguration(Model, frozen=True):
    """The scheduler's configuration file."""

    parallelism: int = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False

    def profile(self, scheduler_name: str) -> KubeSchedulerProfile | None:
        """The profile that serves pods with this `schedulerName`, if any."""
        return next((p for p in self.profiles if p.scheduler_name == scheduler_name), None)
