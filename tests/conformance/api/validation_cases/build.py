"""Short ways to write steps and bodies."""

from __future__ import annotations

import copy
from typing import Any

Body = dict[str, Any]
Step = dict[str, Any]

GROUPS = {
    "Pod": ("v1", "pods"),
    "Node": ("v1", "nodes"),
    "Namespace": ("v1", "namespaces"),
    "Service": ("v1", "services"),
    "Endpoints": ("v1", "endpoints"),
    "ConfigMap": ("v1", "configmaps"),
    "Secret": ("v1", "secrets"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "Event": ("v1", "events"),
    "PersistentVolume": ("v1", "persistentvolumes"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "LimitRange": ("v1", "limitranges"),
    "ResourceQuota": ("v1", "resourcequotas"),
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Job": ("batch/v1", "jobs"),
    "CronJob": ("batch/v1", "cronjobs"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses"),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses"),
    "CSINode": ("storage.k8s.io/v1", "csinodes"),
    "CSIDriver": ("storage.k8s.io/v1", "csidrivers"),
    "CSIStorageCapacity": ("storage.k8s.io/v1", "csistoragecapacities"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
    "IngressClass": ("networking.k8s.io/v1", "ingressclasses"),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices"),
    "RuntimeClass": ("node.k8s.io/v1", "runtimeclasses"),
    "VolumeAttributesClass": ("storage.k8s.io/v1", "volumeattributesclasses"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
    "ResourceClaim": ("resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": ("resource.k8s.io/v1", "resourceclaimtemplates"),
    "DeviceClass": ("resource.k8s.io/v1", "deviceclasses"),
    "ResourceSlice": ("resource.k8s.io/v1", "resourceslices"),
    "Role": ("rbac.authorization.k8s.io/v1", "roles"),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
}
# Kinds that bound what others may do live apart.
ELSEWHERE = {"LimitRange": "limits", "ResourceQuota": "limits"}
CLUSTER = {
    "Node",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "IngressClass",
    "RuntimeClass",
    "VolumeAttributesClass",
    "DeviceClass",
    "ResourceSlice",
    "ClusterRole",
    "ClusterRoleBinding",
}


def path_of(kind: str, namespace: str, name: str = "") -> str:
    version, resource = GROUPS[kind]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    namespace = ELSEWHERE.get(kind, namespace)
    where = "" if kind in CLUSTER else f"/namespaces/{namespace}"
    return f"{root}{where}/{resource}" + (f"/{name}" if name else "")


def post(kind: str, case: str, body: Body, namespace: str, **more: Any) -> Step:
    """Create an object named after the case, unless the body names it."""
    version, _ = GROUPS[kind]
    body = {"apiVersion": version, "kind": kind, **copy.deepcopy(body)}
    metadata = body.setdefault("metadata", {})
    if "name" not in metadata and "generateName" not in metadata:
        metadata["name"] = f"{kind.lower()}-{case}"
    step = {
        "id": f"{kind.lower()}/{case}",
        "method": "POST",
        "path": path_of(kind, namespace),
        "body": body,
    }
    return {**step, **more}


def patch(kind: str, case: str, name: str, body: Any, namespace: str, sub: str = "") -> Step:
    """Change an object by merge patch."""
    path = path_of(kind, namespace, name) + (f"/{sub}" if sub else "")
    return {
        "id": f"{kind.lower()}-update/{case}",
        "method": "PATCH",
        "path": path,
        "headers": {"Content-Type": "application/merge-patch+json"},
        "body": body,
    }


def pod(container: Body | None = None, **spec: Any) -> Body:
    """Return a pod body: `container` is merged into its only container."""
    main = {"name": "main", "image": "registry.example/app:1", **(container or {})}
    return {"spec": {"containers": [main], **spec}}


def template(labels: dict[str, str] | None = None, **spec: Any) -> Body:
    containers = [{"name": "c", "image": "registry.example/app:1"}]
    chosen = {"app": "x"} if labels is None else labels
    metadata = {"labels": chosen} if chosen else {}
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


def workload(template_body: Body | None = None, **spec: Any) -> Body:
    base = {"selector": {"matchLabels": {"app": "x"}}, "template": template_body or template()}
    return {"spec": {**base, **spec}}
