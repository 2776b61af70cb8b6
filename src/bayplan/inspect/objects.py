# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""Objects that scheduling itself does not read but a question about a cluster needs.

Owners carry the template of their pods, events what a scheduler or a controller said, quotas and
service accounts why a pod was never made. As everywhere, only what is read is kept: there is no
field for an environment value or a secret to land in.
"""

import re
from typing import ClassVar

from bayplan.api import Condition, LabelSelector, Model, Object, ObjectMeta, Pod, PodSpec, Resources
from bayplan.api.volumes import ClaimTemplate

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""An annotation: of a replica set's pods the cheapest goes first."""


class TemplateSpec(PodSpec, frozen=True):
    """`spec` of a pod that is to be made: with what is checked only then."""

    service_account_name: str = ""
    active_deadline_seconds: int | None = None


class PodTemplate(Model, frozen=True):
    """`spec.template` of an owner."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()


class Rolling(Model, frozen=True):
    """`rollingUpdate` of a strategy; numbers or shares such as `25%`."""

    partition: int = 0
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Strategy(Model, frozen=True):
    """How an owner replaces its pods when its template changes."""

    type: str = "RollingUpdate"
    rolling_update: Rolling | None = None

    @property
    def rolling(self) -> Rolling:
        return self.rolling_update or Rolling()


class OwnerSpec(Model, frozen=True):
    """`spec` of an owner, as far as its pods go."""

    replicas: int | None = None
    paused: bool = False
    strategy: Strategy = Strategy()
    """Of a deployment."""
    update_strategy: Strategy = Strategy()
    """Of stateful and daemon sets."""
    manual_selector: bool = False
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    pod_management_policy: str = ""
    template: PodTemplate = PodTemplate()
    volume_claim_templates: tuple[ClaimTemplate, ...] = ()


class OwnerStatus(Model, frozen=True):
    """`status` of an owner."""

    replicas: int = 0
    ready_replicas: int = 0
    active: int = 0
    succeeded: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    conditions: tuple[Condition, ...] = ()


class Owner(Object, kw_only=True, frozen=True):
    """What makes pods and makes them again: the base of the kinds below."""

    spec: OwnerSpec = OwnerSpec()
    status: OwnerStatus = OwnerStatus()

    @property
    def wanted(self) -> int:
        """How many pods it is to have at once."""
        spec = self.spec
        if self.KIND == "Job":
            left = None if spec.completions is None else spec.completions - self.status.succeeded
            at_once = 1 if spec.parallelism is None else spec.parallelism
            return at_once if left is None else max(0, min(at_once, left))
        if self.KIND == "DaemonSet":
            return self.status.desired_number_scheduled
        return 1 if spec.replicas is None else spec.replicas

    @property
    def replaces(self) -> bool:
        """Whether it replaces its pods by itself when its template changes."""
        if self.KIND in ("StatefulSet", "DaemonSet"):
            return self.spec.update_strategy.type != "OnDelete"
        return self.KIND == "Deployment"

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels that its pods have."""
        return self.spec.template.metadata.labels

    @property
    def title(self) -> str:
        """`deployment/web`, as kubectl names it."""
        return f"{self.KIND.lower()}/{self.name}"


_ORDINAL = re.compile(r"-(\d+)$")


def ordinal(pod: Pod) -> int:
    """The number of a stateful set's pod."""
    found = _ORDINAL.search(pod.name)
    return int(found.group(1)) if found else 0


class NodeInfo(Model, frozen=True):
    """`status.nodeInfo` of a node."""

    kubelet_version: str = ""


class ReportedStatus(Model, frozen=True):
    """`status` of a node as far as it tells of versions."""

    node_info: NodeInfo = NodeInfo()


class ReportingNode(Object, kw_only=True, frozen=True):
    """What a node says of its kubelet; never kept, only the newest version is."""

    KIND: ClassVar[str] = "Node"
    RESOURCE: ClassVar[str] = "nodes"

    status: ReportedStatus = ReportedStatus()


class Deployment(Owner, kw_only=True, frozen=True):
    """A deployment; its pods belong to its replica sets."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "Deployment"
    RESOURCE: ClassVar[str] = "deployments"


class ReplicaSetOwner(Owner, kw_only=True, frozen=True):
    """A replica set with its template."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "ReplicaSet"
    RESOURCE: ClassVar[str] = "replicasets"


class StatefulSetOwner(Owner, kw_only=True, frozen=True):
    """A stateful set with its template."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "StatefulSet"
    RESOURCE: ClassVar[str] = "statefulsets"


class DaemonSet(Owner, kw_only=True, frozen=True):
    """A daemon set."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "DaemonSet"
    RESOURCE: ClassVar[str] = "daemonsets"


class ReplicationControllerOwner(Owner, kw_only=True, frozen=True):
    """A replication controller with its template."""

    KIND: ClassVar[str] = "ReplicationController"
    RESOURCE: ClassVar[str] = "replicationcontrollers"


class Job(Owner, kw_only=True, frozen=True):
    """A job."""

    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "Job"
    RESOURCE: ClassVar[str] = "jobs"


class EventReference(Model, frozen=True):
    """What an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Model, frozen=True):
    """How often an event repeated."""

    count: int = 0
    last_observed_time: str = ""


class Event(Object, kw_only=True, frozen=True):
    """An event of either group; `note` and `regarding` are the newer names of two fields."""

    KIND: ClassVar[str] = "Event"
    RESOURCE: ClassVar[str] = "events"

    reason: str = ""
    message: str = ""
    note: str = ""
    involved_object: EventReference = EventReference()
    regarding: EventReference = EventReference()
    last_timestamp: str = ""
    event_time: str = ""
    series: EventSeries | None = None
    reporting_component: str = ""
    reporting_controller: str = ""

    @property
    def about(self) -> EventReference:
        return self.involved_object if self.involved_object.name else self.regarding

    @property
    def text(self) -> str:
        return self.message or self.note

    @property
    def time(self) -> str:
        """When it was last seen, as written."""
        series = self.series.last_observed_time if self.series is not None else ""
        return series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp


class QuotaScope(Model, frozen=True):
    """One of a quota's `matchExpressions`."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class QuotaScopes(Model, frozen=True):
    """`spec.scopeSelector` of a quota."""

    match_expressions: tuple[QuotaScope, ...] = ()


class QuotaSpec(Model, frozen=True):
    """`spec` of a quota."""

    hard: Resources = {}
    scopes: tuple[str, ...] = ()
    scope_selector: QuotaScopes | None = None


class QuotaStatus(Model, frozen=True):
    """`status` of a quota."""

    hard: Resources = {}
    used: Resources = {}


class ResourceQuota(Object, kw_only=True, frozen=True):
    """How much a namespace may ask for."""

    KIND: ClassVar[str] = "ResourceQuota"
    RESOURCE: ClassVar[str] = "resourcequotas"

    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class LimitItem(Model, frozen=True):
    """One of the `limits` of a limit range."""

    type: str = ""
    max: Resources = {}
    min: Resources = {}
    default: Resources = {}
    default_request: Resources = {}
    max_limit_request_ratio: Resources = {}


class LimitRangeSpec(Model, frozen=True):
    """`spec` of a limit range."""

    limits: tuple[LimitItem, ...] = ()


class LimitRange(Object, kw_only=True, frozen=True):
    """What pods of a namespace get if they ask for nothing, and what they may ask for."""

    KIND: ClassVar[str] = "LimitRange"
    RESOURCE: ClassVar[str] = "limitranges"

    spec: LimitRangeSpec = LimitRangeSpec()


class ServiceAccount(Object, kw_only=True, frozen=True):
    """A service account; only that it exists matters."""

    KIND: ClassVar[str] = "ServiceAccount"
    RESOURCE: ClassVar[str] = "serviceaccounts"


class BudgetSpec(Model, frozen=True):
    """`spec` of a disruption budget with its limits."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""
    selector: LabelSelector | None = None


class BudgetStatus(Model, frozen=True):
    """`status` of a disruption budget as its controller counts."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class Budget(Object, kw_only=True, frozen=True):
    """A disruption budget with the numbers that scheduling does not read but drains do."""

    API_VERSION: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"
    RESOURCE: ClassVar[str] = "poddisruptionbudgets"

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
