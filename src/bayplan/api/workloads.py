# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""Services and controllers (whose selectors give default spreading), budgets and priorities."""

from typing import ClassVar

from bayplan.api.meta import Condition, LabelSelector, Model, Object


class MapSelectorSpec(Model, frozen=True):
    """`spec` of kinds that select by a plain map; a missing map selects nothing."""

    selector: dict[str, str] | None = None


class SelectorSpec(Model, frozen=True):
    """`spec` of kinds that select by a label selector."""

    selector: LabelSelector | None = None


class Service(Object, kw_only=True, frozen=True):
    """A service."""

    KIND: ClassVar[str] = "Service"
    RESOURCE: ClassVar[str] = "services"

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicationController(Object, kw_only=True, frozen=True):
    """A replication controller."""

    KIND: ClassVar[str] = "ReplicationController"
    RESOURCE: ClassVar[str] = "replicationcontrollers"

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicaSet(Object, kw_only=True, frozen=True):
    """A replica set."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "ReplicaSet"
    RESOURCE: ClassVar[str] = "replicasets"

    spec: SelectorSpec = SelectorSpec()


class StatefulSet(Object, kw_only=True, frozen=True):
    """A stateful set."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "StatefulSet"
    RESOURCE: ClassVar[str] = "statefulsets"

    spec: SelectorSpec = SelectorSpec()


class PodDisruptionBudgetStatus(Model, frozen=True):
    """`status` of a budget: what may still be disrupted, and what already is."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, kw_only=True, frozen=True):
    """How many of a set of pods may be taken away at once."""

    API_VERSION: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"
    RESOURCE: ClassVar[str] = "poddisruptionbudgets"

    spec: SelectorSpec = SelectorSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Object, kw_only=True, frozen=True):
    """A name for a priority."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    KIND: ClassVar[str] = "PriorityClass"
    RESOURCE: ClassVar[str] = "priorityclasses"

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class GangPolicy(Model, frozen=True):
    """All or nothing: so many pods of the group at once."""

    min_count: int = 0


class BasicPolicy(Model, frozen=True):
    """Pod by pod, as without a group."""


class SchedulingPolicy(Model, frozen=True):
    """How the pods of a group are scheduled: one of the two."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Model, frozen=True):
    """The pods of a group must share one value of this node label."""

    key: str = ""


class SchedulingConstraints(Model, frozen=True):
    """Where the pods of a group may go together."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(Model, frozen=True):
    """`spec` of a pod group."""

    parent_composite_pod_group_name: str | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: dict[str, object] | str | None = None
    """1.37: `{"all": {}}` or `{"single": {}}`; 1.36: `PodGroup` or `Pod`."""
    priority: int | None = None
    preemption_policy: str = ""

    @property
    def leaves_as_one(self) -> bool:
        """Whether all pods of the group are preempted if one is."""
        mode = self.disruption_mode
        return mode == "PodGroup" or (isinstance(mode, dict) and mode.get("all") is not None)


class PodGroupStatus(Model, frozen=True):
    """`status` of a pod group."""

    conditions: tuple[Condition, ...] = ()


class PodGroup(Object, kw_only=True, frozen=True):
    """Pods that are scheduled together."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    KIND: ClassVar[str] = "PodGroup"
    RESOURCE: ClassVar[str] = "podgroups"

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CompositeGangPolicy(Model, frozen=True):
    """All or nothing: so many groups at once."""

    min_group_count: int = 0


class CompositeSchedulingPolicy(Model, frozen=True):
    """How the groups of a composite one are scheduled: one of the two."""

    basic: BasicPolicy | None = None
    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(Model, frozen=True):
    """`spec` of a composite pod group."""

    parent_composite_pod_group_name: str | None = None
    scheduling_policy: CompositeSchedulingPolicy = CompositeSchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: dict[str, object] | None = None
    """`{"all": {}}` or `{"single": {}}`."""
    priority: int | None = None
    preemption_policy: str = ""

    @property
    def leaves_as_one(self) -> bool:
        """Whether all pods of all its groups are preempted if one is."""
        return (self.disruption_mode or {}).get("all") is not None


class CompositePodGroup(Object, kw_only=True, frozen=True):
    """Pod groups, and other composite ones, that are scheduled together."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha3"
    KIND: ClassVar[str] = "CompositePodGroup"
    RESOURCE: ClassVar[str] = "compositepodgroups"

    spec: CompositePodGroupSpec = CompositePodGroupSpec()


class PodGroupTemplate(Model, frozen=True):
    """A kind of pod group that a workload makes."""

    name: str = ""
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    priority: int | None = None


class WorkloadSpec(Model, frozen=True):
    """`spec` of a workload."""

    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Object, kw_only=True, frozen=True):
    """An application made of pod groups."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    KIND: ClassVar[str] = "Workload"
    RESOURCE: ClassVar[str] = "workloads"

    spec: WorkloadSpec = WorkloadSpec()
