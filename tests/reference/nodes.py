"""What a node's own object decides: cordon, name, taints, affinity, declared features."""

from bayplan import api
from bayplan.api.labels import from_map
from bayplan.api.node_selectors import compile_node_selector, compile_preferred
from bayplan.api.taints import UNSCHEDULABLE, first_untolerated, tolerated
from tests.reference.world import SKIP, UU, NodeState, Plugin, default_normalize


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"

    def filter(self, node):
        if node.node.spec.unschedulable and not tolerated(self.pod.spec.tolerations, UNSCHEDULABLE):
            return self.fail(UU, "node(s) were unschedulable")
        return None


class NodeName(Plugin):
    name = "NodeName"

    def filter(self, node):
        if self.pod.node_name and self.pod.node_name != node.name:
            return self.fail(UU, "node(s) didn't match the requested node name")
        return None


class TaintToleration(Plugin):
    name = "TaintToleration"
    has_score = True

    def filter(self, node):
        if first_untolerated(node.node.spec.taints, self.pod.spec.tolerations):
            return self.fail(UU, "node(s) had untolerated taint(s)")
        return None

    def score(self, node):
        kept = [t for t in self.pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
        soft = [t for t in node.node.spec.taints if t.effect == "PreferNoSchedule"]
        return sum(not tolerated(kept, taint) for taint in soft)

    def normalize(self, scores):
        return default_normalize(scores, reverse=True)


def matches_node(pod: api.Pod, node: NodeState) -> bool:
    """Whether the pod's node selector and required node affinity allow a node."""
    selector = pod.spec.node_selector
    if selector and not from_map(selector).matches(node.labels):
        return False
    required = required_nodes(pod)
    return required is None or compile_node_selector(required).matches(node.labels, node.name)


def required_nodes(pod: api.Pod) -> api.NodeSelector | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity.required if affinity and affinity.node_affinity else None


class NodeAffinity(Plugin):
    name = "NodeAffinity"
    has_score = True

    def __init__(self, world, pod, args):
        super().__init__(world, pod, args)
        self.added = api.NodeAffinity()
        if args.get("addedAffinity"):
            body = {"spec": {"affinity": {"nodeAffinity": args["addedAffinity"]}}}
            self.added = api.convert(api.Pod, body).spec.affinity.node_affinity

    def prefilter(self):
        required = required_nodes(self.pod)
        if required is None and self.added.required is None and self.pod.spec.node_selector is None:
            return SKIP
        if required is None or not required.node_selector_terms:
            return None
        names = set()
        for term in required.node_selector_terms:
            sets = [
                set(item.values)
                for item in term.match_fields
                if item.key == "metadata.name" and item.operator == "In"
            ]
            if not sets:
                return None
            names |= set.intersection(*sets)
        return names or self.fail(UU, "pod affinity terms conflict")

    def filter(self, node):
        added = self.added.required
        if added and not compile_node_selector(added).matches(node.labels, node.name):
            return self.fail(UU, "node(s) didn't match scheduler-enforced node affinity")
        if not matches_node(self.pod, node):
            return self.fail(UU, "node(s) didn't match Pod's node affinity/selector")
        return None

    def _preferred(self):
        affinity = self.pod.spec.affinity
        own = affinity.node_affinity.preferred if affinity and affinity.node_affinity else None
        return own, self.added.preferred

    def prescore(self, feasible):
        own, added = self._preferred()
        return SKIP if own is None and not added else None

    def score(self, node):
        own, added = self._preferred()
        terms = (*compile_preferred(added or ()), *compile_preferred(own or ()))
        return sum(weight for weight, term in terms if term.matches(node.labels, node.name))

    def normalize(self, scores):
        return default_normalize(scores)


class NodeDeclaredFeatures(Plugin):
    name = "NodeDeclaredFeatures"

    def prefilter(self):
        return None if self._required() else SKIP

    def _required(self) -> set[str]:
        spec = self.pod.spec
        found = set()
        containers = (*spec.containers, *spec.init_containers)
        rules = [rule for container in containers for rule in container.restart_policy_rules]
        if any(rule.action == "RestartAllContainers" for rule in rules):
            found.add("RestartAllContainersOnContainerExits")
        if spec.host_network and spec.host_users is False:
            found.add("UserNamespacesHostNetworkSupport")
        return found

    def filter(self, node):
        if self._required() <= set(node.node.status.declared_features):
            return None
        return self.fail(UU, "node(s) didn't match Pod's required features")
