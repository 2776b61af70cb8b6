"""A made-up cluster of any size that looks like one: zones, racks, pools, taints, owners, a queue.

The same arguments give the same objects. Pods go where there is room, those that need a GPU to
nodes that have one. What waits cannot be placed, and says so in the words of a scheduler; nothing
is decided here.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.api import Node, Object, Pod, convert

ZONES = ("europe-north1-a", "europe-north1-b", "europe-north1-c")
POOLS = (("general", 16, "64Gi", 0), ("memory", 16, "128Gi", 0), ("compute", 32, "64Gi", 0),
         ("gpu", 48, "192Gi", 8))  # fmt: skip
GPU = "nvidia.com/gpu"
APPS = ("web", "api", "cart", "search", "ledger", "ingest", "cache", "mailer", "audit", "render",
        "train", "batch", "proxy", "queue-worker", "metrics", "geo")  # fmt: skip
ON_GPU = ("train",)
SPACES = ("default", "shop", "payments", "data", "ml", "platform")
CPUS = (50, 100, 250, 500, 1000, 2000)
MEMORIES = ("128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
CREATED = "2026-11-01T08:00:00Z"
TRIES = 12
GPU_EVERY = 13

Json = dict[str, Any]


def cluster_objects(nodes: int, pods: int, *, pending: int = 0, seed: int = 1) -> Iterator[Object]:
    """Yield nodes, then pods: `pods` on nodes and `pending` that wait."""
    rng = random.Random(seed)
    made = [make_cluster_node(number, nodes, rng) for number in range(nodes)]
    yield from made
    pools = [POOLS[_pool(number)] for number in range(nodes)]
    free = [[1000 * cpu, gpu] for _, cpu, _, gpu in pools]
    for number in range(pods):
        body = _pod(number, rng)
        at = _roomy(body, free, rng)
        body["spec"]["nodeName"] = node_name(at)
        body["status"]["phase"] = "Running"
        yield convert(Pod, body)
    for number in range(pods, pods + pending):
        body = _pod(number, rng)
        _stuck(number, body, made)
        yield convert(Pod, body)


def node_name(number: int) -> str:
    return f"node-{number:04d}"


def _pool(number: int) -> int:
    return 3 if number % GPU_EVERY == 0 else number // 3 % 3


def make_cluster_node(number: int, nodes: int, rng: random.Random) -> Node:
    """Return node `number` of so many."""
    pool, cpu, memory, gpu = POOLS[_pool(number)]
    racks = max(1, nodes // 40)
    name = node_name(number)
    taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}] if gpu else []
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
            "allocatable": {"cpu": str(cpu), "memory": memory, "pods": "110"}
            | ({GPU: str(gpu)} if gpu else {}),
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}],
        },
    }
    return convert(Node, body)


def make_cluster_pod(number: int, rng: random.Random, *, node: str) -> Pod:
    """Return a pod on a node, whether it has room or not."""
    body = _pod(number, rng)
    body["spec"]["nodeName"] = node
    body["status"]["phase"] = "Running"
    return convert(Pod, body)


def _pod(number: int, rng: random.Random) -> Json:
    """Return a pod that has no node."""
    app = APPS[min(int(rng.expovariate(0.25)), len(APPS) - 1)]
    space = SPACES[rng.randrange(len(SPACES))]
    template = f"{app}-{zlib.crc32((app + space).encode()):08x}"
    name = f"{template}-{''.join(rng.choices(LETTERS, k=5))}{number % 100:02d}"
    requests = {"cpu": f"{rng.choice(CPUS)}m", "memory": rng.choice(MEMORIES)}
    spec: Json = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if app in ON_GPU:
        requests[GPU] = "1"
        spec["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    return {
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
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _roomy(body: Json, free: list[list[int]], rng: random.Random) -> int:
    """Take what a pod asks for from a node that has it, if one is soon found; return the node."""
    requests = body["spec"]["containers"][0]["resources"]["requests"]
    cpu, gpu = int(requests["cpu"][:-1]), int(GPU in requests)
    with_gpu = -(-len(free) // GPU_EVERY)
    for _ in range(TRIES):
        at = GPU_EVERY * rng.randrange(with_gpu) if gpu else rng.randrange(len(free))
        if bool(gpu) == (at % GPU_EVERY == 0) and free[at][0] >= cpu and free[at][1] >= gpu:
            break
    free[at][0] -= cpu
    free[at][1] -= gpu
    return at


def _stuck(number: int, body: Json, nodes: Sequence[Node]) -> None:
    """Let a pod wait: a few are new or gated, for the others no node will do."""
    spec = body["spec"]
    requests = spec["containers"][0]["resources"]["requests"]
    if number % 7 == 0:
        return
    if number % 7 == 1:
        spec["schedulingGates"] = [{"name": "example.com/quota"}]
        return
    tolerates = number % 3 == 2
    if not tolerates:
        requests.pop(GPU, None)
        spec.pop("tolerations", None)
    if number % 3 == 0:
        reason = "Insufficient cpu"
        requests["cpu"] = "60"
    elif number % 3 == 1:
        reason = "node(s) didn't match Pod's node affinity/selector"
        spec["nodeSelector"] = {"pool": "spot"}
    else:
        reason = f"Insufficient {GPU}"
        del requests["cpu"]  # a full node lacks nothing else
        requests[GPU] = "16"
        spec["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    text = _message(nodes, reason, tolerates)
    body["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    ]


def _message(nodes: Sequence[Node], reason: str, tolerates: bool) -> str:
    """Return what a scheduler says of nodes that are cordoned, tainted, or lack something."""
    counts = {"node(s) were unschedulable": 0, "node(s) had untolerated taint(s)": 0, reason: 0}
    for node in nodes:
        cordoned, tainted = node.spec.unschedulable, bool(node.spec.taints) and not tolerates
        words = list(counts)
        counts[words[0] if cordoned else words[1] if tainted else words[2]] += 1
    told = ", ".join(sorted(f"{count} {text}" for text, count in counts.items() if count))
    head = f"0/{len(nodes)} nodes are available:"
    return (
        f"{head} {told}. preemption: {head} {len(nodes)} Preemption is not helpful for scheduling."
    )
