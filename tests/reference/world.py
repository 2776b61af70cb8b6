"""The cluster as the reference sees it: nodes with their pods, and lists of other objects."""

import copy
from dataclasses import dataclass, field

from bayplan import api
from bayplan.api.requests import node_allocatable, pod_resources

U = "Unschedulable"
UU = "UnschedulableAndUnresolvable"
SKIP = "Skip"

KEYS = {
    "services": api.Service,
    "namespaces": api.Namespace,
    "replicationControllers": api.ReplicationController,
    "replicaSets": api.ReplicaSet,
    "statefulSets": api.StatefulSet,
    "persistentVolumes": api.PersistentVolume,
    "persistentVolumeClaims": api.PersistentVolumeClaim,
    "storageClasses": api.StorageClass,
    "csiNodes": api.CSINode,
    "csiDrivers": api.CSIDriver,
    "csiStorageCapacities": api.CSIStorageCapacity,
    "volumeAttachments": api.VolumeAttachment,
    "podDisruptionBudgets": api.PodDisruptionBudget,
}


@dataclass(frozen=True)
class Status:
    """A refusal: the code, who refuses, and why."""

    code: str
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    def body(self) -> dict:
        body = {"code": self.code}
        if self.plugin:
            body["plugin"] = self.plugin
        # Recorded nodes that a PreFilter left out carry no reasons.
        if self.reasons and self.plugin != "PreFilterResult":
            body["reasons"] = sorted(self.reasons)
        return body


@dataclass
class NodeState:
    """A node and the pods on it."""

    node: api.Node
    pods: list[api.Pod] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def labels(self) -> dict[str, str]:
        return self.node.labels

    @property
    def allocatable(self) -> dict[str, int]:
        return node_allocatable(self.node.status.allocatable)

    def requested(self, name: str) -> int:
        return sum(pod_resources(pod).used.get(name, 0) for pod in self.pods)

    def nonzero(self) -> tuple[int, int]:
        pairs = [pod_resources(pod).nonzero for pod in self.pods]
        return sum(p[0] for p in pairs), sum(p[1] for p in pairs)

    def clone(self) -> "NodeState":
        return NodeState(self.node, list(self.pods))


class World:
    """All objects of a cluster."""

    def __init__(self, nodes, pods, others=()):
        self.nodes = [NodeState(node) for node in nodes]
        by_name = {state.name: state for state in self.nodes}
        for pod in pods:
            if pod.node_name in by_name:
                by_name[pod.node_name].pods.append(pod)
        self.others: dict[str, dict[str, api.Object]] = {}
        for item in others:
            self.others.setdefault(item.KIND, {})[item.key] = item

    @classmethod
    def from_objects(cls, objects: dict) -> "World":
        """Build from the `objects` of a recorded decision."""
        nodes = [api.convert(api.Node, body) for body in objects.get("nodes") or ()]
        pods = [api.convert(api.Pod, body) for body in objects.get("pods") or ()]
        others = [
            api.convert(kind, body) for key, kind in KEYS.items() for body in objects.get(key) or ()
        ]
        return cls(nodes, pods, others)

    def node(self, name: str) -> NodeState:
        return next(state for state in self.nodes if state.name == name)

    def get(self, kind: str, key: str):
        return self.others.get(kind, {}).get(key)

    def all(self, kind: str) -> list:
        return list(self.others.get(kind, {}).values())

    def namespace_labels(self, name: str) -> dict[str, str]:
        found = self.get("Namespace", name)
        return found.labels if found else {}

    def placed(self):
        """Every (pod, node) pair."""
        return [(pod, state) for state in self.nodes for pod in state.pods]


class Plugin:
    """One plugin's work in one attempt for one pod; `state` is all that a dry run may change."""

    name = ""
    has_score = False

    def __init__(self, world: World, pod: api.Pod, args: dict):
        self.world, self.pod, self.args = world, pod, args
        self.state: object = None

    def fail(self, code: str, *reasons: str) -> Status:
        return Status(code, self.name, reasons)

    def prefilter(self):
        """None, SKIP, a Status, or a set of node names."""
        return None

    def filter(self, node: NodeState) -> Status | None:
        return None

    def add(self, pod: api.Pod, node: NodeState) -> None:
        """A pod was put on a node in a dry run."""

    def remove(self, pod: api.Pod, node: NodeState) -> None:
        """A pod was taken off a node in a dry run."""

    def prescore(self, feasible: list[NodeState]):
        """None or SKIP."""
        return None

    def score(self, node: NodeState) -> int:
        return 0

    def normalize(self, scores: dict[str, int]) -> dict[str, int]:
        return scores

    def clone(self) -> "Plugin":
        twin = copy.copy(self)
        twin.state = copy.deepcopy(self.state)
        return twin


def default_normalize(scores: dict[str, int], reverse: bool = False) -> dict[str, int]:
    """Scale to 0..100 by the highest."""
    most = max([0, *scores.values()])
    if most == 0:
        return dict.fromkeys(scores, 100) if reverse else dict(scores)
    scaled = {name: 100 * score // most for name, score in scores.items()}
    return {name: 100 - score for name, score in scaled.items()} if reverse else scaled
