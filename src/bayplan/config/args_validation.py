"""Finds every problem of a plugin's arguments, worded as kube-scheduler words them.

NodeResourcesFit's arguments are checked here too; upstream leaves that to the plugin's
constructor, so the same mistakes are refused there a moment later.
"""

import re
from collections.abc import Iterable

from bayplan.api.duration import seconds
from bayplan.api.meta import NodeSelectorRequirement, NodeSelectorTerm
from bayplan.api.names import label_value, qualified_name
from bayplan.api.pod import NodeAffinity, TopologySpreadConstraint
from bayplan.config.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from bayplan.config.fields import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from bayplan.config.gates import FeatureGates

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_MAX_SHAPE_SCORE = 10


def validate_args(args: PluginArgs, path: str, gates: FeatureGates) -> list[str]:
    """Return all problems of one plugin's arguments; unknown plugins check their own."""
    match args:
        case DefaultPreemptionArgs():
            return _default_preemption(args, path)
        case InterPodAffinityArgs(hard_pod_affinity_weight=weight):
            if 0 <= weight <= 100:
                return []
            return [invalid(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]")]
        case NodeAffinityArgs(added_affinity=affinity):
            return [] if affinity is None else _node_affinity(affinity, f"{path}.addedAffinity")
        case NodeResourcesFitArgs():
            return _node_resources_fit(args, path)
        case NodeResourcesBalancedAllocationArgs():
            return _balanced_allocation(args, path)
        case PodTopologySpreadArgs():
            return _pod_topology_spread(args, path)
        case VolumeBindingArgs():
            return _volume_binding(args, path, gates)
        case DynamicResourcesArgs():
            return _dynamic_resources(args, path, gates)
    return []


def _default_preemption(args: DefaultPreemptionArgs, path: str) -> list[str]:
    percentage = f"{path}.minCandidateNodesPercentage"
    absolute = f"{path}.minCandidateNodesAbsolute"
    problems = []
    share, number = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if not 0 <= share <= 100:
        problems.append(invalid(percentage, share, "not in valid range [0, 100]"))
    if number < 0:
        problems.append(invalid(absolute, number, "not in valid range [0, inf)"))
    if share == 0 and number == 0:
        also = "cannot be zero at the same time as"
        problems.append(invalid(percentage, share, f"{also} minCandidateNodesAbsolute"))
        problems.append(invalid(absolute, number, f"{also} minCandidateNodesPercentage"))
    return problems


def _label_name(path: str, name: str) -> list[str]:
    return [invalid(path, name, text) for text in qualified_name(name)]


def _node_resources_fit(args: NodeResourcesFitArgs, path: str) -> list[str]:
    problems = []
    for i, name in enumerate(args.ignored_resources):
        problems += _label_name(f"{path}.ignoredResources[{i}]", name)
    for i, group in enumerate(args.ignored_resource_groups):
        its = f"{path}.ignoredResourceGroups[{i}]"
        if "/" in group:
            problems.append(invalid(its, group, "resource group name can't contain '/'"))
        problems += _label_name(its, group)
    strategy, its = args.scoring_strategy, f"{path}.scoringStrategy"
    if strategy.type not in _STRATEGIES:
        problems.append(not_supported(f"{its}.type", strategy.type, _STRATEGIES))
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            text = f"resource weight of {resource.name} not in valid range (0, 100]"
            problems.append(invalid(f"{its}.resources[{i}].weight", resource.weight, text))
    ratio, its = strategy.requested_to_capacity_ratio, f"{its}.requestedToCapacityRatio"
    if strategy.type != "RequestedToCapacityRatio":
        if ratio is not None:
            text = "must be nil when type is not RequestedToCapacityRatio"
            problems.append(forbidden(its, text))
    elif ratio is None:
        text = "must be specified when type is RequestedToCapacityRatio"
        problems.append(required(its, text))
    else:
        problems += _shape(ratio.shape, f"{its}.shape")
    return problems


def _shape(shape: tuple[UtilizationShapePoint, ...], path: str) -> list[str]:
    if not shape:
        return [required(path, "at least one point must be specified")]
    problems = []
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            text = "values must be sorted in increasing order"
            problems.append(invalid(f"{path}[{i}].utilization", shape[i].utilization, text))
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            text = "not in valid range [0, 100]"
            problems.append(invalid(f"{path}[{i}].utilization", point.utilization, text))
        if not 0 <= point.score <= _MAX_SHAPE_SCORE:
            text = f"not in valid range [0, {_MAX_SHAPE_SCORE}]"
            problems.append(invalid(f"{path}[{i}].score", point.score, text))
    return problems


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, path: str) -> list[str]:
    problems = []
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        its = f"{path}.resources[{i}]"
        if resource.name in seen:
            problems.append(duplicate(f"{its}.name", resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            problems.append(invalid(f"{its}.weight", resource.weight, "must be 1"))
    return problems


def _pod_topology_spread(args: PodTopologySpreadArgs, path: str) -> list[str]:
    problems = []
    its = f"{path}.defaultingType"
    if args.defaulting_type not in ("System", "List"):
        problems.append(not_supported(its, args.defaulting_type, ("System", "List")))
    elif args.defaulting_type == "System" and args.default_constraints:
        text = "when .defaultConstraints are not empty"
        problems.append(invalid(its, args.defaulting_type, text))
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        its = f"{path}.defaultConstraints[{i}]"
        problems += _constraint(constraint, its)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            problems.append(duplicate(its, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return problems


def _constraint(constraint: TopologySpreadConstraint, path: str) -> list[str]:
    problems = []
    if constraint.max_skew <= 0:
        text = "not in valid range (0, inf)"
        problems.append(invalid(f"{path}.maxSkew", constraint.max_skew, text))
    if not constraint.topology_key:
        problems.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        problems += _label_name(f"{path}.topologyKey", constraint.topology_key)
    action = constraint.when_unsatisfiable
    if not action:
        problems.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in ("DoNotSchedule", "ScheduleAnyway"):
        supported = ("DoNotSchedule", "ScheduleAnyway")
        problems.append(not_supported(f"{path}.whenUnsatisfiable", action, supported))
    if constraint.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        problems.append(forbidden(f"{path}.labelSelector", text))
    return problems


def _volume_binding(args: VolumeBindingArgs, path: str, gates: FeatureGates) -> list[str]:
    problems = []
    if args.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        problems.append(invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, text))
    if gates["StorageCapacityScoring"]:
        problems += _shape(args.shape or (), f"{path}.shape")
    elif args.shape is not None:
        text = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        shown = [{"Utilization": p.utilization, "Score": p.score} for p in args.shape]
        problems.append(invalid(f"{path}.shape", shown, text))
    return problems


def _dynamic_resources(args: DynamicResourcesArgs, path: str, gates: FeatureGates) -> list[str]:
    problems = []
    its, limit = f"{path}.filterTimeout", args.filter_timeout
    if limit is not None:
        if not gates["DRASchedulerFilterTimeout"]:
            text = "DRASchedulingFilterTimeout feature gate is disabled"
            problems.append(forbidden(its, text))
        elif limit.nanoseconds < 0:
            problems.append(invalid(its, limit, "must be zero or positive"))
    its, limit = f"{path}.bindingTimeout", args.binding_timeout
    if limit is not None:
        if not (gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]):
            text = (
                "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
                "feature gate is disabled"
            )
            problems.append(forbidden(its, text))
        elif limit < seconds(1):
            problems.append(invalid(its, limit, "must be at least 1 second"))
    return problems


def _node_affinity(affinity: NodeAffinity, path: str) -> list[str]:
    problems = []
    if affinity.required is not None:
        its = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for i, term in enumerate(affinity.required.node_selector_terms):
            problems += _term(term, f"{its}[{i}]")
    its = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for i, preferred in enumerate(affinity.preferred or ()):
        if preferred.weight:
            problems += _term(preferred.preference, f"{its}[{i}]")
    return problems


def _term(term: NodeSelectorTerm, path: str) -> list[str]:
    problems = []
    for i, requirement in enumerate(term.match_expressions):
        problems += _expression(requirement, f"{path}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.match_fields):
        its = f"{path}.matchFields[{i}]"
        if requirement.operator not in ("In", "NotIn"):
            problems.append(not_supported(f"{its}.operator", requirement.operator, ("In", "NotIn")))
        elif len(requirement.values) != 1:
            values = list(requirement.values)
            problems.append(invalid(f"{its}.values", values, "must have one element"))
    return problems


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _expression(requirement: NodeSelectorRequirement, path: str) -> list[str]:
    operator, values = requirement.operator, list(requirement.values)
    if operator not in _OPERATORS:
        return [not_supported(f"{path}.operator", operator, _OPERATORS)]
    problems = []
    wrong_key = qualified_name(requirement.key)
    if wrong_key:
        problems.append(invalid(f"{path}.key", requirement.key, "; ".join(wrong_key)))
    its = f"{path}.values"
    if operator in ("In", "NotIn"):
        if not values:
            text = "for 'in', 'notin' operators, values set can't be empty"
            problems.append(invalid(its, None, text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "values set must be empty for exists and does not exist"
            problems.append(invalid(its, values, text))
    else:
        problems += _integer_values(values, its)
    return problems + list(_label_values(requirement.key, values, its))


def _integer_values(values: list[str], path: str) -> list[str]:
    problems = []
    if len(values) != 1:
        text = "for 'Gt', 'Lt' operators, exactly one value is required"
        problems.append(invalid(path, values, text))
    text = "for 'Gt', 'Lt' operators, the value must be an integer"
    for i, value in enumerate(values):
        if not re.fullmatch(r"[+-]?\d+", value, re.ASCII):
            problems.append(invalid(f"{path}[{i}]", value, text))
    return problems


def _label_values(key: str, values: list[str], path: str) -> Iterable[str]:
    for i, value in enumerate(values):
        wrong = label_value(value)
        if wrong:
            yield invalid(f"{path}[{i}][{key}]", value, "; ".join(wrong))
