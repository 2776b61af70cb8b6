"""Pods that cannot be placed, of every family, and the cluster that cannot take them.

Everything is plain data for a real API server. `CLUSTER` is made first, then the pods: none of them
fits, none preempts, so the scheduler says its sentence about each and nothing else happens.
"""

from __future__ import annotations

from typing import Any

from bayplan.client.resources import (
    CSI_NODES,
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from tests.kube.world import HOST, ZONE

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
VARIANTS = 9
DRIVER = "csi.example.com"
DISKS = 7
"""Volumes of a driver that allows one a node; one for each node that is not tainted."""


def node(name: str, number: int, *, room: Json | None = None, **spec: Any) -> Json:
    labels = {HOST: name, ZONE: f"z{number % 3}", "disk": "ssd" if number % 2 else "hdd"}
    offered = {"cpu": "4", "memory": "8Gi", "pods": "10", "ephemeral-storage": "50Gi"}
    offered |= room or {}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": offered, "allocatable": offered},
    }


def pod(name: str, app: str, requests: Json | None = None, **spec: Any) -> Json:
    container: Json = {"name": "app", "image": "pause:3.10", "resources": {}}
    container["resources"]["requests"] = requests or {"cpu": "10m"}
    ports = spec.pop("ports", None)
    if ports:
        container["ports"] = ports
    extended = {key: value for key, value in (requests or {}).items() if "/" in key}
    if extended:
        container["resources"]["limits"] = extended
    return {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def nodes() -> list[Json]:
    gpu = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    down = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    plain = [node(f"node-{i}", i) for i in range(6)]
    special = [node(f"node-g{i}", i, room={"nvidia.com/gpu": "4"}, taints=gpu) for i in range(2)]
    for item in special:
        item["metadata"]["labels"]["pool"] = "gpu"
    few = node("node-few", 1, room={"pods": "2"})
    few["metadata"]["labels"]["few"] = "yes"
    return [
        few,
        *special,
        *plain,
        node("node-x0", 0, unschedulable=True),
        node("node-x1", 1, taints=down),
    ]


def placed() -> list[Json]:
    refuses = {"podAntiAffinity": {REQUIRED: [_term("loner", HOST)]}}
    found = []
    for i in range(6):
        cpu = ("3", "2500m", "2")[i % 3]
        ports = [{"containerPort": 80, "hostPort": 8080}]
        asks = {"cpu": cpu, "memory": "2Gi", "ephemeral-storage": "10Gi"}
        disk = _claim(f"disk-{i}")
        found.append(pod(f"web-{i}", "web", asks, nodeName=f"node-{i}", ports=ports, **disk))
        found.append(pod(f"cache-{i}", "cache", nodeName=f"node-{i}", affinity=refuses))
    refused = {"nodeName": "node-few", "affinity": refuses}
    disk = _claim(f"disk-{DISKS - 1}")
    found.append(pod("few-0", "web", {"cpu": "3"}, ports=ports, **refused, **disk))
    alone = _claim("alone")
    return [*found, pod("few-1", "few", {"cpu": "500m"}, nodeName="node-few", **alone)]


def _term(app: str, key: str) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _node_affinity(key: str, operator: str, *values: str) -> Json:
    expression = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)  # type: ignore[assignment]
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def _claim(name: str) -> Json:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def _spread(app: str, key: str, skew: int = 1, **more: Any) -> Json:
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    return {"topologySpreadConstraints": [{**constraint, **selector, **more}]}


def volumes(namespace: str) -> list[tuple[Resource, Json]]:
    """Storage classes, volumes and claims in every unhappy state."""
    in_z9 = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z9"]}]}
    volume = {
        "metadata": {"name": f"pv-{namespace}"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "storageClassName": "by-hand",
            "claimRef": {"name": "far", "namespace": namespace},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [in_z9]}},
        },
    }
    return [
        (STORAGE_CLASSES, _class("now", "slow.example.com", "Immediate")),
        (STORAGE_CLASSES, _class("later", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")),
        (PERSISTENT_VOLUMES, volume),
        (PERSISTENT_VOLUME_CLAIMS, _pvc("far", "by-hand", volumeName=f"pv-{namespace}")),
        (PERSISTENT_VOLUME_CLAIMS, _pvc("unbound", "now")),
        (PERSISTENT_VOLUME_CLAIMS, _pvc("waiting", "later")),
        (DEVICE_CLASSES, {"metadata": {"name": "gpus"}, "spec": {}}),
        (RESOURCE_CLAIMS, _devices("devices", "gpus")),
        (RESOURCE_CLAIMS, _devices("classless", "gpuz")),
        *_disks(namespace),
        *_bound(namespace, "alone", {"hostPath": {"path": "/x"}}, "ReadWriteOncePod"),
        *_bound(namespace, "shared", {"hostPath": {"path": "/x"}}, "ReadWriteMany"),
        (RESOURCE_SLICES, _slice("node-g0")),
    ]


def _disks(namespace: str) -> list[tuple[Resource, Json]]:
    """Volumes of a driver that allows one a node, and one more that is one too many."""
    found: list[tuple[Resource, Json]] = []
    for item in nodes():
        name = item["metadata"]["name"]
        driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": 1}}
        found.append((CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": [driver]}}))
    for name in (*(f"disk-{i}" for i in range(DISKS)), "extra"):
        found += _bound(namespace, name, {"csi": {"driver": DRIVER, "volumeHandle": name}})
    return found


def _bound(
    namespace: str, name: str, source: Json, mode: str = "ReadWriteOnce"
) -> list[tuple[Resource, Json]]:
    """A volume and the claim that has it."""
    volume = f"pv-{namespace}-{name}"
    body = {
        "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": [mode],
            "storageClassName": "by-hand",
            "claimRef": {"name": name, "namespace": namespace},
            **source,
        },
    }
    claim = _pvc(name, "by-hand", volumeName=volume, accessModes=[mode])
    return [(PERSISTENT_VOLUMES, body), (PERSISTENT_VOLUME_CLAIMS, claim)]


def _slice(node: str) -> Json:
    """The only device that there is, on a node that is tainted."""
    device = {"name": "gpu-0"}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node, "devices": [device]}
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


def _class(name: str, provisioner: str, mode: str) -> Json:
    meta = {"metadata": {"name": name}}
    return {**meta, "provisioner": provisioner, "volumeBindingMode": mode}


def _pvc(name: str, storage_class: str, **spec: Any) -> Json:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if spec else {}
    size = {"requests": {"storage": "10Gi"}}
    own = {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], "resources": size}
    return {"metadata": {"name": name, "annotations": bound}, "spec": {**own, **spec}}


def _devices(name: str, device_class: str) -> Json:
    request = {"name": "one", "exactly": {"deviceClassName": device_class}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def families(i: int) -> dict[str, Json]:
    """One pod of every family; `i` varies it."""
    ports = [{"containerPort": 80, "hostPort": 8080}]
    far = {"podAntiAffinity": {REQUIRED: [_term("web", ZONE)]}}
    near = {"podAffinity": {REQUIRED: [_term(f"wep{i}", HOST)]}}
    gone = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"gone-{i}"]}]}
    named = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [gone]}}}
    return {
        "cpu": pod(f"cpu-{i}", "a", {"cpu": f"{3000 + 100 * i}m"}),
        "cpu-huge": pod(f"huge-{i}", "a", {"cpu": str(20 + i)}),
        "memory": pod(f"memory-{i}", "a", {"memory": f"{6500 + 100 * i}Mi"}),
        "cpu-and-memory": pod(f"both-{i}", "a", {"cpu": "3900m", "memory": f"{7000 + i}Mi"}),
        "ephemeral": pod(f"disk-{i}", "a", {"ephemeral-storage": f"{45 + i}Gi"}),
        "extended": pod(f"gpu-{i}", "a", {"nvidia.com/gpu": str(1 + i % 3)}),
        "pods": pod(f"crowd-{i}", "few", nodeSelector={"few": "yes"}, ports=ports[:0]),
        "taint": pod(f"pool-{i}", "a", {"cpu": f"{100 + i}m"}, nodeSelector={"pool": "gpu"}),
        "selector": pod(f"sel-{i}", "a", nodeSelector={"disk": f"ssd{i}"}),
        "selector-key": pod(f"key-{i}", "a", nodeSelector={f"disk{i}": "ssd"}),
        "affinity": pod(f"aff-{i}", "a", affinity=_node_affinity(ZONE, "In", f"z{8 + i}")),
        "affinity-gt": pod(f"gt-{i}", "a", affinity=_node_affinity("generation", "Gt", str(i))),
        "affinity-name": pod(f"name-{i}", "a", affinity=named),
        "ports": pod(f"port-{i}", "a", {"cpu": f"{10 + i}m"}, ports=ports),
        "anti-existing": pod(f"loner-{i}", "loner", {"cpu": f"{10 + i}m"}),
        "anti": pod(f"far-{i}", "a", {"cpu": f"{10 + i}m"}, affinity=far),
        "near": pod(f"near-{i}", "a", affinity=near),
        "spread-label": pod(f"sprl-{i}", "web", {"cpu": f"{10 + i}m"}, **_spread("web", "rack")),
        "spread": pod(
            f"spread-{i}",
            "few",
            {"cpu": f"{10 + i}m"},
            **_spread("few", ZONE),
            nodeSelector={"few": "yes"},
        ),
        "claim-missing": pod(f"lost-{i}", "a", **_claim(f"nothing-{i}")),
        "claim-unbound": pod(f"unbound-{i}", "a", {"cpu": f"{10 + i}m"}, **_claim("unbound")),
        "claim-far": pod(f"zonal-{i}", "a", {"cpu": f"{10 + i}m"}, **_claim("far")),
        "claim-waiting": pod(f"wait-{i}", "a", {"cpu": f"{10 + i}m"}, **_claim("waiting")),
        "devices": pod(
            f"dev-{i}",
            "a",
            {"cpu": f"{10 + i}m"},
            resourceClaims=[{"name": "g", "resourceClaimName": "devices"}],
        ),
        "claim-single": pod(f"single-{i}", "a", {"cpu": f"{10 + i}m"}, **_claim("alone")),
        "claim-near": pod(f"shore-{i}", "a", {"cpu": f"{10 + i}m"}, **_claim(f"shard{i}")),
        "volume-limit": pod(f"extra-{i}", "a", {"cpu": f"{10 + i}m"}, **_claim("extra")),
        "min-domains": pod(
            f"domains-{i}", "web", {"cpu": f"{10 + i}m"}, **_spread("web", ZONE, minDomains=4 + i)
        ),
        "gate": pod(f"gate-{i}", "a", schedulingGates=[{"name": f"acme.io/gate-{i}"}]),
        "never": pod(
            f"never-{i}",
            "a",
            {"cpu": f"{3000 + 100 * i}m"},
            priorityClassName="high-never",
        ),
    }
