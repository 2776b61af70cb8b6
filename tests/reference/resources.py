"""Ports, resources, balance and images: what the pods of a node leave over."""

import itertools
import math

from bayplan.api import quantity
from bayplan.api.requests import is_extended, pod_requests, pod_resources
from tests.reference.world import SKIP, UU, NodeState, Plugin, U


def host_ports(pod):
    """Every (ip, protocol, port) that a pod takes on its node."""
    containers = (*pod.spec.containers, *(c for c in pod.spec.init_containers if c.restartable))
    return {
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in containers
        for port in container.ports
        if port.host_port > 0
    }


class NodePorts(Plugin):
    name = "NodePorts"

    def prefilter(self):
        self.state = set()  # ports that somebody who left in a dry run held, whoever else does
        return None if host_ports(self.pod) else SKIP

    def add(self, pod, node):
        self.state -= set(host_ports(pod))

    def remove(self, pod, node):
        self.state |= set(host_ports(pod))

    def filter(self, node):
        used = {port for pod in node.pods for port in host_ports(pod)} - self.state
        for ip, protocol, port in host_ports(self.pod):
            for other_ip, other_protocol, other_port in used:
                if (protocol, port) != (other_protocol, other_port):
                    continue
                if ip == other_ip or "0.0.0.0" in (ip, other_ip):
                    return self.fail(
                        U, "node(s) didn't have free ports for the requested pod ports"
                    )
        return None


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    has_score = True

    def filter(self, node):
        reasons, impossible = [], False
        allocatable = node.allocatable
        if len(node.pods) + 1 > allocatable.get("pods", 0):
            reasons.append("Too many pods")
        for name, amount in pod_resources(self.pod).fit.items():
            if amount == 0 or self._ignored(name):
                continue
            offered = allocatable.get(name, 0)
            if amount > offered - node.requested(name):
                reasons.append(f"Insufficient {name}")
                impossible = impossible or amount > offered
        if reasons:
            return self.fail(UU if impossible else U, *reasons)
        return None

    def _ignored(self, name: str) -> bool:
        if not is_extended(name):
            return False
        groups = self.args.get("ignoredResourceGroups") or ()
        return name in (self.args.get("ignoredResources") or ()) or name.split("/")[0] in groups

    def score(self, node):
        strategy = self.args.get("scoringStrategy") or {}
        kind = strategy.get("type") or "LeastAllocated"
        resources = strategy.get("resources") or [{"name": "cpu"}, {"name": "memory"}]
        total = weights = 0
        for item in resources:
            name, weight = item["name"], item.get("weight") or 1
            found = self._use(node, name)
            if found is None:
                continue
            wanted, offered = found
            score = self._resource_score(kind, strategy, wanted, offered)
            if kind == "RequestedToCapacityRatio" and score <= 0:
                continue
            total, weights = total + weight * score, weights + weight
        if weights == 0:
            return 0
        if kind == "RequestedToCapacityRatio":
            return math.floor(total / weights + 0.5)
        return total // weights

    def _use(self, node: NodeState, name: str):
        """Return (used with this pod, offered), or None if the resource does not count here."""
        resources = pod_resources(self.pod)
        offered = node.allocatable.get(name, 0)
        if name == "cpu":
            own, used = resources.scored[0], node.nonzero()[0]
        elif name == "memory":
            own, used = resources.scored[1], node.nonzero()[1]
        else:
            own, used = self._scored(name), node.requested(name)
            if own == 0 and name != "ephemeral-storage":
                return None
        return None if offered == 0 else (used + own, offered)

    def _scored(self, name: str) -> int:
        return quantity.whole(pod_requests(self.pod, pod_level=False).get(name, 0))

    @staticmethod
    def _resource_score(kind, strategy, wanted, offered):
        if kind == "LeastAllocated":
            return 0 if wanted > offered else (offered - wanted) * 100 // offered
        if kind == "MostAllocated":
            return min(wanted, offered) * 100 // offered
        shape = strategy["requestedToCapacityRatio"]["shape"]
        points = [(p["utilization"], p["score"] * 10) for p in shape]
        return shape_value(points, 100 if wanted > offered else wanted * 100 // offered)


def shape_value(points, at):
    """Interpolate between points, truncating toward zero."""
    if at <= points[0][0]:
        return points[0][1]
    for (u0, s0), (u1, s1) in itertools.pairwise(points):
        if at <= u1:
            return s0 + int((s1 - s0) * (at - u0) / (u1 - u0))
    return points[-1][1]


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    has_score = True

    def _names(self):
        return [
            r["name"] for r in self.args.get("resources") or [{"name": "cpu"}, {"name": "memory"}]
        ]

    def _own(self, name):
        return pod_resources(self.pod).used.get(name, 0)

    def prescore(self, feasible):
        return None if any(self._own(name) for name in self._names()) else SKIP

    def score(self, node):
        rows = []
        for name in self._names():
            offered = node.allocatable.get(name, 0)
            scalar = name not in ("cpu", "memory", "ephemeral-storage")
            if offered == 0 or (scalar and self._own(name) == 0):
                continue
            rows.append((node.requested(name), self._own(name), offered))
        before = self._balance([used / offered for used, _, offered in rows])
        after = self._balance([(used + own) / offered for used, own, offered in rows])
        return 50 + (50 + after - before) // 2

    @staticmethod
    def _balance(fractions):
        fractions = [min(f, 1.0) for f in fractions]
        std = 0.0
        if len(fractions) == 2:
            std = abs((fractions[0] - fractions[1]) / 2)
        elif len(fractions) > 2:
            mean = sum(fractions) / len(fractions)
            std = math.sqrt(sum((f - mean) ** 2 for f in fractions) / len(fractions))
        return int((1 - std) * 100)


MB = 1024 * 1024


def normalized_image(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class ImageLocality(Plugin):
    name = "ImageLocality"
    has_score = True

    def score(self, node):
        spec = self.pod.spec
        containers = (*spec.init_containers, *spec.containers)
        wanted = [c.image for c in containers]
        wanted += [v.image.reference for v in spec.volumes if v.image]
        total = sum(self._share(node, normalized_image(name)) for name in wanted)
        least, most = 23 * MB, 1000 * MB * len(containers)
        clamped = max(least, min(total, most))
        return 100 * (clamped - least) // (most - least)

    def _share(self, node, name):
        sizes = [i.size_bytes for i in node.node.status.images if name in i.names]
        if not sizes:
            return 0
        # The recorded snapshots take each node's own size; a live cache keeps the first it saw.
        holders = sum(
            any(name in image.names for image in state.node.status.images)
            for state in self.world.nodes
        )
        return int(float(sizes[-1]) * (holders / len(self.world.nodes)))
