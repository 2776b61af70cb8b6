"""Builders for the smaller kinds: services, controllers, budgets, namespaces, groups."""

from __future__ import annotations

from bayplan.api import (
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from bayplan.testing.bodies import label_selector
from bayplan.testing.builders import Builder


def make_namespace(name: str, labels: dict[str, str] | None = None) -> Builder[Namespace]:
    """Start a namespace."""
    return Builder(Namespace, name).label(labels or {})


def make_service(
    name: str, selector: dict[str, str] | None, namespace: str = "default"
) -> Builder[Service]:
    """Start a service; without a selector it selects nothing."""
    builder = Builder(Service, name, namespace)
    return builder if selector is None else builder.with_spec(selector=selector)


def make_replication_controller(
    name: str, selector: dict[str, str], namespace: str = "default"
) -> Builder[ReplicationController]:
    """Start a replication controller."""
    return Builder(ReplicationController, name, namespace).with_spec(selector=selector)


def make_replica_set(name: str, selector: str, namespace: str = "default") -> Builder[ReplicaSet]:
    """Start a replica set; the selector is in query form."""
    return Builder(ReplicaSet, name, namespace).with_spec(selector=label_selector(selector))


def make_stateful_set(name: str, selector: str, namespace: str = "default") -> Builder[StatefulSet]:
    """Start a stateful set; the selector is in query form."""
    return Builder(StatefulSet, name, namespace).with_spec(selector=label_selector(selector))


def make_budget(
    name: str, selector: str | None, allowed: int = 0, namespace: str = "default"
) -> Builder[PodDisruptionBudget]:
    """Start a pod disruption budget that allows so many disruptions now."""
    builder = Builder(PodDisruptionBudget, name, namespace)
    if selector is not None:
        builder.with_spec(selector=label_selector(selector))
    return builder.with_status(disruptionsAllowed=allowed)


def make_priority_class(name: str, value: int) -> Builder[PriorityClass]:
    """Start a priority class."""
    builder = Builder(PriorityClass, name)
    builder.data["value"] = value
    return builder


def make_pod_group(
    name: str, min_count: int | None = None, namespace: str = "default"
) -> Builder[PodGroup]:
    """Start a pod group: a gang of at least `min_count`, or pod by pod."""
    policy: dict[str, object] = {"basic": {}}
    if min_count is not None:
        policy = {"gang": {"minCount": min_count}}
    return Builder(PodGroup, name, namespace).with_spec(schedulingPolicy=policy)
