"""The first scene of `bayplan demo`: a pod that waits, why it does, and a fix that is carried out.

The only node of a zone that the pod may use is cordoned. What is printed is what `bayplan why` says
of the running cluster; its first suggestion is then done, and the scheduler places the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bayplan.cli.demo_workload import NAMESPACE, ZONE, Object, pod
from bayplan.errors import BayplanError

if TYPE_CHECKING:
    from bayplan.inspect.why import Answer
    from bayplan.scheduler.cluster import LocalCluster

NAME = "first"
CORDONED = "north-1"


def cordon(nodes: list[Object]) -> list[Object]:
    """Return the nodes with the one of this scene cordoned."""
    for node in nodes:
        meta, spec = node["metadata"], node["spec"]
        assert isinstance(meta, dict)
        assert isinstance(spec, dict)
        if meta["name"] == CORDONED:
            spec["unschedulable"] = True
    return nodes


def waiting_pod() -> Object:
    """Return the pod that has to wait."""
    return pod(NAME, "first", "500m", "1Gi", nodeSelector={ZONE: "z-north"})


async def explain(cluster: LocalCluster) -> Answer:
    """Ask why the pod waits, as `bayplan why` would."""
    from bayplan.inspect import Cluster, Settings
    from bayplan.inspect.sources.live import read_client

    core = cluster.scheduler.core
    objects, origin = await read_client(cluster.client, "the demo's cluster", NAMESPACE)
    settings = Settings(core.config, core.gates, core.registry, "the running scheduler")
    seen = Cluster(objects, origin=origin, settings=settings)
    return seen.why(seen.pod(NAME))


async def do_first_fix(cluster: LocalCluster, answer: Answer) -> str:
    """Do what is suggested first; return where the pod is expected then."""
    from bayplan.client.resources import NODES

    fix = answer.fixes[0]
    if fix.change != f"uncordon {CORDONED}":
        raise BayplanError(f'the demo does not know how to "{fix.change}"')
    patch = msgspec.json.encode({"spec": {"unschedulable": None}})
    await cluster.client.patch(NODES, CORDONED, patch)
    return fix.node
