"""What a cluster has before anyone creates anything.

Namespaces, the two system priority classes, the `kubernetes` service and the ConfigMap from which
kube-scheduler learns how to authenticate its own callers. Written at start where missing; what a
user has changed stays.
"""

from __future__ import annotations

import asyncio
import contextlib

from bayplan.api.defaults import apply_defaults
from bayplan.apiserver import validation
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Object
from bayplan.apiserver.dynamic import COLLECTIONS
from bayplan.apiserver.fairness.suggested import GROUP as FLOWS
from bayplan.apiserver.fairness.suggested import LEVELS, SCHEMAS
from bayplan.store import Conflict

PUBLIC_PATHS = frozenset(("/healthz", "/livez", "/readyz", "/version"))
SERVICE_RANGE = "10.96.0.0/16"
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")

# Collections that admission and subresources read without waiting; mirrored where the store is
# not in memory.
MIRRORED = (
    ("", "namespaces"),
    ("", "nodes"),
    ("", "pods"),
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("", "persistentvolumeclaims"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("policy", "poddisruptionbudgets"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("node.k8s.io", "runtimeclasses"),
    *COLLECTIONS,
    ("discovery.k8s.io", "endpointslices"),
    ("", "configmaps"),
    (FLOWS, SCHEMAS),
    (FLOWS, LEVELS),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
)


def _priority_class(name: str, value: int, description: str) -> Object:
    return {
        "metadata": {"name": name},
        "value": value,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def system_objects() -> list[tuple[str, str, str, Object]]:
    """Return (group, resource, namespace, object) of everything to be written."""
    found: list[tuple[str, str, str, Object]] = [
        ("", "namespaces", "", {"metadata": {"name": name}}) for name in NAMESPACES
    ]
    classes = [
        _priority_class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, "
            "but can be moved to another node if necessary.",
        ),
        _priority_class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
    found += [("scheduling.k8s.io", "priorityclasses", "", item) for item in classes]
    authentication: Object = {
        "metadata": {"name": "extension-apiserver-authentication"},
        "data": {
            "requestheader-allowed-names": "[]",
            "requestheader-extra-headers-prefix": "[]",
            "requestheader-group-headers": "[]",
            "requestheader-username-headers": "[]",
        },
    }
    found.append(("", "configmaps", "kube-system", authentication))
    labels = {"component": "apiserver", "provider": "kubernetes"}
    service: Object = {
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "clusterIPs": ["10.96.0.1"],
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    }
    found.append(("", "services", "default", service))
    return found


def service_range() -> tuple[str, str, str, Object]:
    """Return the range of the addresses of services, as an object."""
    ready: Object = {"type": "Ready", "status": "True", "reason": "", "message": ""}
    ready["message"] = "Kubernetes Service CIDR is ready"
    body: Object = {
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [SERVICE_RANGE]},
        "status": {"conditions": [ready]},
    }
    return "networking.k8s.io", "servicecidrs", "", body


async def write(backend: Backend, objects: list[tuple[str, str, str, Object]]) -> None:
    """Create what is missing, all at once: a store that writes to disk then does so once."""
    await asyncio.gather(*(_write(backend, *entry) for entry in objects))


async def _write(backend: Backend, group: str, resource: str, namespace: str, obj: Object) -> None:
    codec = backend.codec_of(group, resource)
    assert codec is not None
    metadata = obj["metadata"]
    key = codec.key(namespace, metadata["name"])
    if await backend.store.get(key) is not None:
        return
    if namespace:
        metadata["namespace"] = namespace
    apply_defaults(group, resource, obj)
    status = obj.get("status")
    metadata["uid"] = backend.new_uid()
    metadata["creationTimestamp"] = backend.now()
    validation.prepare_for_create(group, resource, obj)
    validation.canonicalize(group, resource, obj)
    for item in (status or {}).get("conditions") or ():
        item["lastTransitionTime"] = backend.now()
        obj["status"] = status
    with contextlib.suppress(Conflict):  # another server on the same store was faster
        await backend.store.put(key, codec.encode(obj), expect=0)


def _own_endpoints(host: str, port: int) -> list[tuple[str, str, Object]]:
    where = {"name": "https", "port": port, "protocol": "TCP"}
    endpoints: Object = {
        "metadata": {
            "name": "kubernetes",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": host}], "ports": [where]}],
    }
    piece: Object = {
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [where],
    }
    return [("", "endpoints", endpoints), ("discovery.k8s.io", "endpointslices", piece)]


async def write_endpoints(backend: Backend, host: str, port: int) -> None:
    """Say where the `kubernetes` service is: here, since this start."""
    for group, resource, obj in _own_endpoints(host, port):
        codec = backend.codec_of(group, resource)
        assert codec is not None
        key = codec.key("default", "kubernetes")
        found = await backend.store.get(key)
        known = codec.decode(found)["metadata"] if found is not None else {}
        obj["metadata"] |= {
            "namespace": "default",
            "uid": known.get("uid") or backend.new_uid(),
            "creationTimestamp": known.get("creationTimestamp") or backend.now(),
        }
        if resource == "endpointslices":
            obj["metadata"]["generation"] = known.get("generation", 0) + 1
        try:
            await backend.store.put(
                key, codec.encode(obj), expect=found.mod_revision if found is not None else 0
            )
        except Conflict:
            continue  # another server on the same store was faster
