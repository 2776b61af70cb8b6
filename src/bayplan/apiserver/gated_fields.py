"""Fields behind a feature gate of kinds that every server has: dropped while the gate is off.

As in upstream's strategies, what a client sends in such a field is dropped before it is judged,
unless the stored object uses the feature. The table has the gates that can be switched, or are off
in one version, and the fields that the schema has. The fields of `version_kinds` say their gates
themselves; rules of validation that depend on a gate are not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from bayplan.config import FeatureGates

Path = tuple[str, ...]
Tree = dict[str, Any]
"""Names and what is below them (`*`: every item), down to a `Leaf`."""

_LISTS = {
    "CONTAINERS": ("containers", "initContainers", "ephemeralContainers"),
    "STATUSES": ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"),
}
_SHARED = {
    "POD": """
GenericWorkload schedulingGroup
PodLevelResources resources
HostnameOverride hostnameOverride
ClusterTrustBundleProjection volumes.*.projected.sources.*.clusterTrustBundle
PodCertificateRequest volumes.*.projected.sources.*.podCertificate
MatchLabelKeysInPodTopologySpread topologySpreadConstraints.*.matchLabelKeys
ContainerStopSignals CONTAINERS.*.lifecycle.stopSignal
EnvFiles CONTAINERS.*.env.*.valueFrom.fileKeyRef
""",
    "CLAIM": """
DRADeviceTaints devices.requests.*.exactly.tolerations \
  devices.requests.*.firstAvailable.*.tolerations
DRAConsumableCapacity devices.constraints.*.distinctAttribute devices.requests.*.exactly.capacity \
  devices.requests.*.firstAvailable.*.capacity
""",
}
"""What several kinds have: gate and paths, below where it stands in the kind."""
_TABLE = """
pods spec POD
podtemplates template.spec POD
replicationcontrollers spec.template.spec POD
daemonsets.apps spec.template.spec POD
deployments.apps spec.template.spec POD
replicasets.apps spec.template.spec POD
statefulsets.apps spec.template.spec POD
jobs.batch spec.template.spec POD
cronjobs.batch spec.jobTemplate.spec.template.spec POD
resourceclaims.resource.k8s.io spec CLAIM
resourceclaimtemplates.resource.k8s.io spec.spec CLAIM
pods status InPlacePodLevelResourcesVerticalScaling resources allocatedResources
pods status DRAExtendedResource extendedResourceClaimStatus
pods status DRANodeAllocatableResources nodeAllocatableResourceClaimStatuses
pods status ResourceHealthStatus STATUSES.*.allocatedResourcesStatus
pods status ImageVolumeWithDigest STATUSES.*.volumeMounts.*.volumeStatus
nodes status NodeDeclaredFeatures declaredFeatures
persistentvolumeclaims spec CrossNamespaceVolumeDataSource dataSourceRef?namespace
deployments.apps status DeploymentReplicaSetTerminatingReplicas terminatingReplicas
replicasets.apps status DeploymentReplicaSetTerminatingReplicas terminatingReplicas
statefulsets.apps spec MaxUnavailableStatefulSet updateStrategy.rollingUpdate.maxUnavailable
leases.coordination.k8s.io spec CoordinatedLeaderElection strategy
leases.coordination.k8s.io spec CoordinatedLeaderElection preferredHolder
csidrivers.storage.k8s.io spec VolumeLimitScaling preventPodSchedulingIfMissing
csinodes.storage.k8s.io status CSIVolumeHealth storageHealth
deviceclasses.resource.k8s.io spec DRAExtendedResource extendedResourceName
resourceslices.resource.k8s.io spec.devices.* DRADeviceTaints taints
resourceslices.resource.k8s.io spec.devices.* DRANodeAllocatableResources \
  nodeAllocatableResourceMappings
resourceslices.resource.k8s.io spec.devices.* DRAConsumableCapacity allowMultipleAllocations \
  capacity.*.requestPolicy
resourceslices.resource.k8s.io spec.devices.* DRADeviceBindingConditions bindingConditions \
  bindingFailureConditions bindsToNode
resourceslices.resource.k8s.io spec.devices.*.attributes.* DRAListTypeAttributes \
  bools ints strings versions
resourceslices.resource.k8s.io spec DRAPartitionableDevices sharedCounters perDeviceNodeSelection \
  devices.*.consumesCounters devices.*.nodeName devices.*.nodeSelector devices.*.allNodes
"""
"""Resource, where, and a gate with its paths, or the name of shared ones.

`a?b` is dropped if it has `b`. A feature whose paths stand in one line is used as a whole.
"""


class Leaf(NamedTuple):
    """The end of a path: the part that makes it count, and all paths of the feature."""

    part: str
    paths: tuple[Path, ...]

    def is_used(self, old: Any) -> bool:
        return any(_has(old, path) for path in self.paths)


def _has(obj: Any, path: Path) -> bool:
    if not path or not obj:
        return not path and obj is not None and obj != []
    if path[0] == "*":
        return any(_has(item, path[1:]) for item in _items(obj))
    return _has(obj.get(path[0]), path[1:])


def _items(obj: Any) -> Iterable[Any]:
    return obj.values() if isinstance(obj, dict) else obj


def gated(group: str, resource: str, gates: FeatureGates) -> Iterator[tuple[Path, ...]]:
    """The fields of a kind whose gate is off, those of a feature together."""
    named = f"{resource}.{group}" if group else resource
    for gate, paths in _features().get(named, ()):
        if not gates[gate]:
            yield paths


@cache
def _features() -> dict[str, list[tuple[str, tuple[Path, ...]]]]:
    found: dict[str, list[tuple[str, tuple[Path, ...]]]] = {}
    for resource, where, gate, *paths in _rows(_TABLE):
        for name, *below in [[gate, *paths]] if paths else _rows(_SHARED[gate]):
            whole = tuple(path for each in below for path in _paths(f"{where}.{each}"))
            found.setdefault(resource, []).append((name, whole))
    return found


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def _paths(text: str) -> list[Path]:
    for word, names in _LISTS.items():
        if word in text:
            return [tuple(text.replace(word, name).split(".")) for name in names]
    return [tuple(text.split("."))]


def tree_of(features: Iterable[tuple[Path, ...]]) -> Tree:
    """Put paths into a tree, so that one walk over an object finds all that it has."""
    tree: Tree = {}
    for paths in features:
        for *above, last in paths:
            at = tree
            for name in above:
                at = at.setdefault(name, {})
            name, _, part = last.partition("?")
            at[name] = Leaf(part, tuple((*path[:-1], path[-1].partition("?")[0]) for path in paths))
    return tree


def drop(tree: Tree, obj: Any, old: Any) -> None:
    """Drop what the tree has from a new or changed object, unless the old one uses the feature."""
    for name, below in tree.items():
        if name == "*":
            for item in _items(obj):
                drop(below, item, old)
        elif name not in obj:
            continue
        elif isinstance(below, dict):
            if value := obj[name]:
                drop(below, value, old)
                if name == "lifecycle" and not value:  # upstream leaves no empty one either
                    del obj[name]
        elif (not below.part or obj[name].get(below.part)) and not below.is_used(old):
            del obj[name]
