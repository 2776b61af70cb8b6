# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""Pods, as far as scheduling reads them."""

from typing import ClassVar

import msgspec

from bayplan.api.meta import (
    Condition,
    LabelSelector,
    Model,
    NodeSelector,
    NodeSelectorTerm,
    Object,
    Resources,
)
from bayplan.api.volumes import Volume

DEFAULT_SCHEDULER = "default-scheduler"


class ResourceRequirements(Model, frozen=True):
    """`resources` of a container or a pod."""

    requests: Resources = {}
    limits: Resources = {}


class ContainerPort(Model, frozen=True):
    """A port of a container; only those with a host port matter here."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(Model, frozen=True):
    """One of a container's `restartPolicyRules`."""

    action: str = ""


class Container(Model, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()

    @property
    def restartable(self) -> bool:
        """Whether an init container keeps running beside the others (a sidecar)."""
        return self.restart_policy == "Always"


class Toleration(Model, frozen=True):
    """A taint that the pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PreferredSchedulingTerm(Model, frozen=True):
    """A node selector term with a weight."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model, frozen=True):
    """`affinity.nodeAffinity`; a missing preferred list skips scoring, an empty one does not."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Model, frozen=True):
    """Pods that this one wants near or far, and what counts as near."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model, frozen=True):
    """A pod affinity term with a weight."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Model, frozen=True):
    """`affinity.podAffinity` and, as it has the same shape, `affinity.podAntiAffinity`."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Model, frozen=True):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Model, frozen=True):
    """One of `spec.topologySpreadConstraints`."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Model, frozen=True):
    """A reason to wait before the pod may be scheduled at all."""

    name: str = ""


class PodResourceClaim(Model, frozen=True):
    """One of `spec.resourceClaims`."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class SchedulingGroup(Model, frozen=True):
    """`spec.schedulingGroup`: the pod group that the pod belongs to."""

    pod_group_name: str = ""


class PodSpec(Model, frozen=True):
    """`spec` of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduler_name: str = DEFAULT_SCHEDULER
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Resources = {}
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None
    restart_policy: str = ""
    scheduling_group: SchedulingGroup | None = None


class ContainerStatus(Model, frozen=True):
    """What the kubelet gave a container, as far as resources go."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}


class PodResourceClaimStatus(Model, frozen=True):
    """The claim that was made from a template; without a name none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Model, frozen=True):
    """Which device request of the generated claim serves which container's resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Model, frozen=True):
    """The claim that was made for extended resources served by device drivers."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class PodStatus(Model, frozen=True):
    """`status` of a pod."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}


class Pod(Object, kw_only=True, frozen=True):
    """A pod."""

    KIND: ClassVar[str] = "Pod"
    RESOURCE: ClassVar[str] = "pods"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def node_name(self) -> str:
        return self.spec.node_name

    @property
    def finished(self) -> bool:
        """Whether the pod has stopped for good and uses nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")
