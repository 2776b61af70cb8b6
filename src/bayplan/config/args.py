"""The arguments of the in-tree plugins (`<Plugin>Args` of kubescheduler.config.k8s.io/v1).

Each struct's defaults are those of kube-scheduler; the few that hang on a feature gate are filled
in by `with_gates`. Arguments of plugins from elsewhere stay the JSON data that the file held.
"""

import enum
from typing import Annotated, Any

import msgspec

from bayplan.api.duration import Duration, seconds
from bayplan.api.pod import NodeAffinity, TopologySpreadConstraint
from bayplan.config.gates import FeatureGates

Int64 = Annotated[int, "int64"]
"""An integer that may use 64 bits in the file; plain ones are 32 bits wide, as upstream."""


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the configuration's structs: immutable, camelCase in the file."""


class ResourceSpec(Model, frozen=True):
    """A resource that is scored, and its weight; a weight of 0 counts as 1."""

    name: str = ""
    weight: Int64 = 0


DEFAULT_RESOURCES = (
    ResourceSpec(name="cpu", weight=1),
    ResourceSpec(name="memory", weight=1),
)


class UtilizationShapePoint(Model, frozen=True):
    """A point of a piecewise-linear function from utilisation (0-100) to score (0-10)."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(Model, frozen=True):
    """The shape of the RequestedToCapacityRatio strategy."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategyType(enum.StrEnum):
    """How NodeResourcesFit scores; the field stays a plain string until it is validated."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ScoringStrategy(Model, frozen=True):
    """How NodeResourcesFit turns allocation into a score."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(Model, frozen=True):
    """How many candidate nodes preemption dry-runs."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class InterPodAffinityArgs(Model, frozen=True):
    """Weight of required affinity in scoring, and whether placed pods' preferences count."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Model, frozen=True):
    """Affinity that is added to every pod of the profile."""

    added_affinity: NodeAffinity | None = None


class NodeResourcesFitArgs(Model, frozen=True):
    """Resources left out of the fit check, and the scoring strategy."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")


class NodeResourcesBalancedAllocationArgs(Model, frozen=True):
    """Resources whose balance is scored."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class PodTopologySpreadArgs(Model, frozen=True):
    """Constraints for pods that name none."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class VolumeBindingArgs(Model, frozen=True):
    """How long to wait for volumes; the shape needs the gate StorageCapacityScoring."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


class DynamicResourcesArgs(Model, frozen=True):
    """Time limits of device allocation; None where the feature gate is off."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


RawArgs = dict[str, Any]
"""Arguments of a plugin that Bayplan does not know: the JSON data of the file."""

PluginArgs = (
    DefaultPreemptionArgs
    | DynamicResourcesArgs
    | InterPodAffinityArgs
    | NodeAffinityArgs
    | NodeResourcesBalancedAllocationArgs
    | NodeResourcesFitArgs
    | PodTopologySpreadArgs
    | VolumeBindingArgs
    | RawArgs
)

ARGS_TYPES: dict[str, type[Model]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}


def default_args(name: str, gates: FeatureGates) -> PluginArgs | None:
    """The arguments an in-tree plugin has when the file gives none, or None if it takes none."""
    kind = ARGS_TYPES.get(name)
    return None if kind is None else fill_in(kind(), gates)  # type: ignore[arg-type]


def fill_in(args: PluginArgs, gates: FeatureGates) -> PluginArgs:
    """Apply the defaults that hang on other values or on feature gates."""
    replace = msgspec.structs.replace
    match args:
        case NodeResourcesFitArgs():
            strategy = args.scoring_strategy
            return replace(
                args,
                scoring_strategy=replace(strategy, resources=_weighted(strategy.resources)),
            )
        case NodeResourcesBalancedAllocationArgs():
            return replace(args, resources=_weighted(args.resources))
        case PodTopologySpreadArgs(defaulting_type=""):
            return replace(args, defaulting_type="System")
        case VolumeBindingArgs():
            if gates["StorageCapacityScoring"] and not args.shape:
                return replace(args, shape=_CAPACITY_SHAPE)
        case DynamicResourcesArgs():
            return _with_timeouts(args, gates)
    return args


_CAPACITY_SHAPE = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    if not resources:
        return DEFAULT_RESOURCES
    return tuple(
        item if item.weight else ResourceSpec(name=item.name, weight=1) for item in resources
    )


def _with_timeouts(args: DynamicResourcesArgs, gates: FeatureGates) -> DynamicResourcesArgs:
    filter_timeout, binding_timeout = args.filter_timeout, args.binding_timeout
    if filter_timeout is None and gates["DRASchedulerFilterTimeout"]:
        filter_timeout = seconds(10)
    conditions = gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
    if binding_timeout is None and conditions:
        binding_timeout = seconds(600)
    return DynamicResourcesArgs(filter_timeout=filter_timeout, binding_timeout=binding_timeout)
