"""Which spread constraints a pod has: its own, or the profile's defaults with a derived selector.

A pod that names any constraint has only its own. Defaults apply to pods that a service, replication
controller, replica set or stateful set selects; its selector is then what is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.api import Pod, ReplicaSet, StatefulSet, TopologySpreadConstraint
from bayplan.api.labels import (
    EVERYTHING,
    IN,
    Requirement,
    Selector,
    compile_selector,
    from_map,
    requirement,
)
from bayplan.config import PodTopologySpreadArgs
from bayplan.framework import ClusterObjects, PodQuery, QueryPart

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


class Constraint(msgspec.Struct, frozen=True, gc=False):
    """One constraint, compiled for a pod."""

    max_skew: int
    key: str
    selector: Selector
    query: PodQuery | None
    """What is counted; None counts nothing (an empty selector never counts placed pods)."""
    matches_self: bool
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


class Constraints(msgspec.Struct, frozen=True, gc=False):
    """The constraints of a pod by what happens when they cannot be met."""

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    require_all: bool = True
    """Whether scoring leaves out nodes that lack one of the keys; not so for system defaults."""


class ConstraintSource:
    """Makes the constraints of pods, remembering them while nothing that they hang on changes."""

    def __init__(
        self,
        args: PodTopologySpreadArgs,
        objects: ClusterObjects,
        limit: int,
        *,
        label_keys: bool = True,
    ) -> None:
        """`label_keys`: matchLabelKeys count (MatchLabelKeysInPodTopologySpread)."""
        self._label_keys = label_keys
        self._objects = objects
        self._limit = limit
        self._system = args.defaulting_type != "List"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._known: dict[bytes, tuple[int, Constraints]] = {}

    @property
    def revision(self) -> int:
        """Grows when the constraints of any pod may change."""
        if not self._defaults:
            return 0
        objects = self._objects
        return (
            objects.services.revision
            + objects.replication_controllers.revision
            + objects.replica_sets.revision
            + objects.stateful_sets.revision
        )

    def of(self, pod: Pod, signature: bytes) -> Constraints:
        """The constraints of a pod; raises SelectorError."""
        revision = 0 if pod.spec.topology_spread_constraints else self.revision
        known = self._known.get(signature)
        if known is not None and known[0] == revision:
            return known[1]
        found = self._make(pod)
        if len(self._known) >= self._limit:
            self._known.clear()
        self._known[signature] = (revision, found)
        return found

    def _make(self, pod: Pod) -> Constraints:
        own = pod.spec.topology_spread_constraints
        if own:
            return _split(pod, [(item, self._own_selector(pod, item)) for item in own], True)
        if not self._defaults:
            return Constraints()
        selector = default_selector(pod, self._objects)
        if selector.empty or selector.nothing:
            return Constraints()
        return _split(pod, [(item, selector) for item in self._defaults], not self._system)

    def _own_selector(self, pod: Pod, item: TopologySpreadConstraint) -> Selector:
        selector = compile_selector(item.label_selector)
        labels = pod.metadata.labels
        keys = [key for key in item.match_label_keys if key in labels]
        if not keys or not self._label_keys:
            return selector
        return selector.and_also(requirement(key, IN, (labels[key],)) for key in keys)


def _split(
    pod: Pod, items: Sequence[tuple[TopologySpreadConstraint, Selector]], require_all: bool
) -> Constraints:
    hard = tuple(_compile(pod, c, s) for c, s in items if c.when_unsatisfiable == HARD)
    soft = tuple(_compile(pod, c, s) for c, s in items if c.when_unsatisfiable == SOFT)
    return Constraints(hard, soft, require_all)


def _compile(pod: Pod, item: TopologySpreadConstraint, selector: Selector) -> Constraint:
    part = QueryPart(frozenset((pod.metadata.namespace,)), selector)
    counts = not selector.empty and not selector.nothing
    return Constraint(
        max_skew=item.max_skew,
        key=item.topology_key,
        selector=selector,
        query=PodQuery((part,), skip_terminating=True) if counts else None,
        matches_self=selector.matches(pod.metadata.labels),
        min_domains=1 if item.min_domains is None else item.min_domains,
        honor_affinity=item.node_affinity_policy != "Ignore",
        honor_taints=item.node_taints_policy == "Honor",
    )


def default_selector(pod: Pod, objects: ClusterObjects) -> Selector:
    """What the services and the controller of a pod select, together."""
    labels = pod.metadata.labels
    merged: dict[str, str] = {}
    for service in objects.services.in_namespace(pod.metadata.namespace):
        wanted = service.spec.selector
        if wanted is not None and all(labels.get(k) == v for k, v in wanted.items()):
            merged.update(wanted)
    more: tuple[Requirement, ...] = ()
    owner = pod.controller
    if owner is not None:
        key = f"{pod.metadata.namespace}/{owner.name}"
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = objects.replication_controllers.get(key)
            merged.update((controller.spec.selector or {}) if controller is not None else {})
        elif owner.api_version == "apps/v1":
            item: ReplicaSet | StatefulSet | None = None
            if owner.kind == "ReplicaSet":
                item = objects.replica_sets.get(key)
            elif owner.kind == "StatefulSet":
                item = objects.stateful_sets.get(key)
            if item is not None:
                more = compile_selector(item.spec.selector).requirements
    selector = from_map(merged) if merged else EVERYTHING
    return selector.and_also(more) if more else selector
