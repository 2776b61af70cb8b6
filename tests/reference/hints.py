"""Whether an event is worth another try, as upstream has it: plain rules, a function a plugin.

`old` and `new` are the object before and after; None where it was not there, or is not any more.
Only events that the plugin registers are asked about.
"""

from bayplan.api import Node, Pod
from bayplan.api.node_selectors import compile_node_selector
from bayplan.api.taints import UNSCHEDULABLE, first_untolerated, tolerated
from bayplan.cluster.info import host_ports, ports_conflict
from tests.reference.interpod import required
from tests.reference.nodes import matches_node
from tests.reference.spread import PodTopologySpread
from tests.reference.world import NodeState, World


def placed(pod: Pod) -> bool:
    """On a node, or meant for one."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def node_unschedulable(pod, old, new, added=None):
    if isinstance(new, Pod):
        return new.uid == pod.uid and tolerated(new.spec.tolerations, UNSCHEDULABLE)
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)


def taint_toleration(pod, old, new, added=None):
    if isinstance(new, Pod):
        return new.uid == pod.uid

    def repels(node):
        return first_untolerated(node.spec.taints, pod.spec.tolerations) is not None

    return not repels(new) and (old is None or repels(old))


def node_affinity(pod, old, new, added=None):
    """`added`: what the profile asks of nodes on top."""

    def matches(node):
        labels, name = node.metadata.labels, node.metadata.name
        if added is not None and not compile_node_selector(added).matches(labels, name):
            return False
        return matches_node(pod, NodeState(node))

    return matches(new) and (old is None or not matches(old))


def node_ports(pod, old, new, added=None):
    if isinstance(new, Node):
        return True
    theirs = host_ports(old)
    return placed(old) and any(ports_conflict(a, b) for a in host_ports(pod) for b in theirs)


def pod_topology_spread(pod, old, new, added=None):
    hard = PodTopologySpread(World([], []), pod, {}).constraints("DoNotSchedule")
    if isinstance(old or new, Node):
        keys = [item.topology_key for item, _ in hard]
        had = old is not None and all(key in old.metadata.labels for key in keys)
        has = new is not None and all(key in new.metadata.labels for key in keys)
        if old is None or new is None or had != has:
            return had or has
        moved = any(old.metadata.labels[key] != new.metadata.labels[key] for key in keys if has)
        return has and (moved or old.spec.taints != new.spec.taints)

    def counts_with_us(other):
        return placed(other) and other.namespace == pod.namespace

    seen = [other for other in (old, new) if other is not None]
    if not any(other.uid == pod.uid or counts_with_us(other) for other in seen):
        return False
    if old is None or new is None:
        return any(selector.matches(seen[0].labels) for _, selector in hard)
    honors = any(item.node_taints_policy == "Honor" for item, _ in hard)
    if new.uid == pod.uid and honors and old.spec.tolerations != new.spec.tolerations:
        return True
    return any(selector.matches(old.labels) != selector.matches(new.labels) for _, selector in hard)


def inter_pod_affinity(pod, old, new, added=None, *, modern=True):
    """`modern`: 1.37; earlier ones ask whether all terms against a pod mean it, for any."""
    near, apart = required(pod, "pod_affinity"), required(pod, "pod_anti_affinity")
    if isinstance(old or new, Node):
        before, after = {} if old is None else old.metadata.labels, new.metadata.labels
        for term in near:
            if term.key in after and before.get(term.key) != after[term.key]:
                return True
        for term in apart:
            if old is None or (term.key in before and before[term.key] != after.get(term.key)):
                return True
        return False

    def all_mean(terms, other):
        return bool(terms) and all(term.matches(other, {}) for term in terms)

    def broken(terms, other):
        if modern:
            return any(term.matches(other, {}) for term in terms)
        return all_mean(terms, other)

    if old is not None and new is not None and new.uid == pod.uid:
        return True
    if not placed(new if new is not None else old):
        return False
    if old is None:
        return all_mean(near, new)
    if new is None:
        return broken(apart, old) or broken(required(old, "pod_anti_affinity"), pod)
    comes = all_mean(near, new) and not all_mean(near, old)
    return comes or (broken(apart, old) and not broken(apart, new))


HINTS = {
    "NodeUnschedulable": node_unschedulable,
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    "NodePorts": node_ports,
    "PodTopologySpread": pod_topology_spread,
    "InterPodAffinity": inter_pod_affinity,
}
