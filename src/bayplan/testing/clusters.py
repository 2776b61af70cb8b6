"""A made-up cluster of any size that looks like one: zones, racks, pools, taints, owners, a queue.

The same arguments give the same objects. What cannot be placed stays pending with a message as a
scheduler would write it; nothing is decided here.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

from bayplan.api import Node, Object, Pod, convert

ZONES = ("europe-north1-a", "europe-north1-b", "europe-north1-c")
POOLS = (("general", "16", "64Gi", 0), ("memory", "16", "128Gi", 0), ("compute", "32", "64Gi", 0),
         ("gpu", "48", "192Gi", 8))  # fmt: skip
APPS = ("web", "api", "cart", "search", "ledger", "ingest", "cache", "mailer", "audit", "render",
        "train", "batch", "proxy", "queue-worker", "metrics", "geo")  # fmt: skip
SPACES = ("default", "shop", "payments", "data", "ml", "platform")
CPUS = ("50m", "100m", "250m", "500m", "1")
MEMORIES = ("128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
CREATED = "2026-11-01T08:00:00Z"
MESSAGES = (
    "0/{n} nodes are available: {a} Insufficient cpu, {b} Insufficient memory. preemption: 0/{n} "
    "nodes are available: {n} No preemption victims found for incoming pod.",
    "0/{n} nodes are available: {n} node(s) didn't match Pod's node affinity/selector.",
    "0/{n} nodes are available: {a} Insufficient nvidia.com/gpu, {b} node(s) had untolerated "
    "taint(s).",
)


def cluster_objects(nodes: int, pods: int, *, pending: int = 0, seed: int = 1) -> Iterator[Object]:
    """Yield nodes, then pods: `pods` on nodes and `pending` that wait."""
    rng = random.Random(seed)
    for number in range(nodes):
        yield make_cluster_node(number, nodes, rng)
    for number in range(pods):
        yield make_cluster_pod(number, rng, node=node_name(rng.randrange(nodes)))
    for number in range(pods, pods + pending):
        yield make_cluster_pod(number, rng, waits=(number, nodes))


def node_name(number: int) -> str:
    return f"node-{number:04d}"


def make_cluster_node(number: int, nodes: int, rng: random.Random) -> Node:
    """Return node `number` of so many."""
    pool, cpu, memory, gpu = POOLS[3 if number % 12 == 0 else number % 3]
    racks = max(1, nodes // 40)
    name = node_name(number)
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if gpu else []
    ready = "False" if nodes > 20 and rng.random() < 0.004 else "True"
    body = {
        "metadata": {
            "name": name,
            "creationTimestamp": CREATED,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": ZONES[number % 3],
                "rack": f"{ZONES[number % 3][-1]}-{number % racks:03d}",
                "pool": pool,
            },
        },
        "spec": {"taints": taints, "unschedulable": nodes > 20 and rng.random() < 0.01},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}
            | ({"nvidia.com/gpu": str(gpu)} if gpu else {}),
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}],
        },
    }
    return convert(Node, body)


def make_cluster_pod(
    number: int, rng: random.Random, *, node: str = "", waits: tuple[int, int] | None = None
) -> Pod:
    """Return a pod on a node, or one that waits."""
    app = APPS[min(int(rng.expovariate(0.25)), len(APPS) - 1)]
    space = SPACES[rng.randrange(len(SPACES))]
    template = f"{app}-{(hash_of(app + space)):08x}"
    name = f"{template}-{''.join(rng.choices(LETTERS, k=5))}{number % 100:02d}"
    body = {
        "metadata": {
            "name": name,
            "namespace": space,
            "uid": f"pod-{number}",
            "creationTimestamp": CREATED,
            "labels": {"app": app, "tier": "front" if number % 3 else "back"},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": template, "uid": template, "controller": True}
            ],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {
                "cpu": CPUS[rng.randrange(len(CPUS))],
                "memory": MEMORIES[rng.randrange(len(MEMORIES))],
            }}}],
        },
        "status": {"phase": "Running" if node else "Pending", "conditions": _conditions(waits)},
    }  # fmt: skip
    return convert(Pod, body)


def hash_of(text: str) -> int:
    return zlib.crc32(text.encode())


def _conditions(waits: tuple[int, int] | None) -> list[dict[str, str]]:
    if waits is None or waits[0] % 7 == 0:
        return []
    number, nodes = waits
    some = nodes // 3
    text = MESSAGES[number % len(MESSAGES)].format(n=nodes, a=some, b=nodes - some)
    return [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}]
