"""The small cluster and the mixed workload of `bayplan demo`, as plain objects.

Six nodes in three zones, one of them with GPUs and a taint. The pods come in waves, because the
last ones must meet a full cluster: services that spread, a cache beside them, databases that repel
each other, batch work that fills the rest; then an urgent pod that must evict somebody, and
one that fits nowhere.
"""

from __future__ import annotations

from bayplan.cli.nodes import SHAPES, Shape, make_node

Object = dict[str, object]

NAMESPACE = "default"
LOW, HIGH = "demo-low", "demo-high"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"


def nodes() -> list[Object]:
    """Return the nodes."""
    shape = SHAPES["medium"]
    plain = [("east-1", "z-east"), ("east-2", "z-east"), ("west-1", "z-west"),
             ("west-2", "z-west"), ("north-1", "z-north")]  # fmt: skip
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    gpu = Shape("8", "32Gi", extra=((GPU, "2"),))
    return [
        *[make_node(name, shape, shape_name="medium", zone=zone) for name, zone in plain],
        make_node("north-gpu", gpu, shape_name="gpu", zone="z-north", taints=[taint]),
    ]


def classes() -> list[Object]:
    """Return the priority classes."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in ((LOW, 0), (HIGH, 1000))
    ]


def waves() -> list[list[Object]]:
    """Return the pods, in groups; each group has been placed before the next comes."""
    selector = {"matchLabels": {"app": "web"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    beside = {"labelSelector": selector, "topologyKey": HOST}
    apart = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return [
        [pod(f"web-{i}", "web", "500m", "1Gi", topologySpreadConstraints=[spread])
         for i in range(1, 7)],
        [pod("cache", "cache", "250m", "2Gi", affinity={"podAffinity": {required: [beside]}})],
        [pod(f"db-{i}", "db", "1", "4Gi", affinity={"podAntiAffinity": {required: [apart]}})
         for i in range(1, 4)],
        [pod("train", "train", "4", "16Gi", extra={GPU: "1"},
             tolerations=[{"key": GPU, "operator": "Exists"}])],
        [pod(f"batch-{i}", "batch", "1500m", "1Gi", priorityClassName=LOW) for i in range(1, 7)],
        [pod("urgent", "urgent", "2500m", "2Gi", priorityClassName=HIGH)],
        [pod("giant", "giant", "64", "8Gi")],
    ]  # fmt: skip


def pod(
    name: str, app: str, cpu: str, memory: str, extra: dict[str, str] | None = None, **spec: object
) -> Object:
    """Return a pod of one container."""
    amounts = {"cpu": cpu, "memory": memory, **(extra or {})}
    resources: dict[str, object] = {"requests": amounts}
    if extra:
        resources["limits"] = extra
    container = {"name": "main", "image": f"demo/{app}", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }
