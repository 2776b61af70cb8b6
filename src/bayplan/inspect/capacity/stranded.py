"""Room that is free but of no use to anybody who asks: how much, for lack of what, and by whom.

After the cluster is filled, what is still free on a node cannot be used by any of the templates.
A node strands cpu when its cpu would hold one more pod and another resource would not. Who uses
most of that other resource, more than its part of the cpu, is who strands it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from bayplan.api import Pod
from bayplan.cluster.resources import resource_name
from bayplan.framework import NodeInfo, PodInfo
from bayplan.inspect.capacity.answer import Stranded
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.whatif.rehearsal import Rehearsal

HOLDERS = 3
PODS = "pods"


def stranded(cluster: Cluster, trial: Rehearsal, pods: Sequence[Pod]) -> tuple[Stranded, ...]:
    """What is left over on full nodes, by resource and by what is missing there."""
    wanted = [trial.engine.cache.infos.make(pod) for pod in pods]
    free: dict[tuple[str, str], int] = defaultdict(int)
    nodes: Counter[tuple[str, str]] = Counter()
    holders: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    table = trial.engine.cache.table
    for row in range(table.count):
        if table.unschedulable[row]:
            continue
        node = table.info(row)
        for over, missing in sorted({pair for info in wanted for pair in _pairs(node, info)}):
            key = (over, missing)
            free[key] += node.free(over)
            nodes[key] += 1
            _hold(cluster, node, missing, holders[key])
    found = [
        Stranded(
            resource=over,
            free=free[over, missing],
            nodes=nodes[over, missing],
            because=missing,
            holders=dict(holders[over, missing].most_common(HOLDERS)),
        )
        for over, missing in free
    ]
    return tuple(sorted(found, key=lambda item: (-item.nodes, item.resource, item.because)))


def _pairs(node: NodeInfo, info: PodInfo) -> list[tuple[str, str]]:
    """(has enough of, lacks) for one more such pod."""
    enough: list[str] = []
    lacking: list[str] = []
    for number, amount in info.traits.fit:
        if amount:
            name = resource_name(number)
            (enough if node.free(name) >= amount else lacking).append(name)
    if len(node.pods) >= node.allowed_pods:
        lacking.append(PODS)
    return [(over, missing) for over in enough for missing in lacking]


def _hold(cluster: Cluster, node: NodeInfo, missing: str, holders: Counter[str]) -> None:
    for info in node.pods:
        if info.uid.startswith("more:"):
            continue
        used = 1 if missing == PODS else dict(info.traits.resources.used).get(missing, 0)
        if used:
            holders[title(cluster, info.pod) or info.pod.key] += used
