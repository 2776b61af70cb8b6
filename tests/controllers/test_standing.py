"""A cluster with every kind of half-finished object stands still: no write without a cause."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.client import Resource
from bayplan.client.resources import (
    CONFIG_MAPS,
    CUSTOM_KINDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from bayplan.config import FeatureGates
from tests.apiserver.test_certificates import ask
from tests.apiserver.test_version_kinds import authority
from tests.controllers.cluster import Cluster, cluster, pod_spec, template, virtual, workload

HELD = ["example.com/held"]
REQUESTS = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
)
EVERY_KIND = FeatureGates({"GenericWorkload": True, "DRADeviceTaintRules": True}, "1.37")
QUIET = {"kubelet": {"lease-seconds": 0}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "finalizers": HELD}, "spec": pod_spec(**spec)}


def held(body: dict[str, Any]) -> dict[str, Any]:
    body["spec"]["template"]["metadata"]["finalizers"] = HELD
    return body


async def _writes(made: Cluster, after: int) -> list[str]:
    watcher = made.server.store.watch("/", after=after)
    keys = [f"{event.kv.key} {event.kv.value[:300]!r}" for event in watcher.take()]
    watcher.close()
    return keys


@virtual
async def test_a_deleted_pod_with_a_finalizer_is_written_once_and_then_left() -> None:
    async with cluster(options=QUIET) as made:
        await made.create(PODS, pod("held"))
        await made.settle()
        await made.delete(PODS, "held")
        await made.settle(60)
        after = made.server.store.revision

        await made.delete(PODS, "held", grace_period=0)
        await made.settle(3600)

        assert [] == await _writes(made, after)
        assert "Succeeded" == (await made.get(PODS, "held"))["status"]["phase"]
        await made.patch(PODS, "held", {"metadata": {"finalizers": None}})
        assert not await made.exists(PODS, "held")


async def _half_finished_pods(made: Cluster) -> None:
    await made.create(PODS, pod("unbound", nodeSelector={"no": "where"}, schedulerName="none"))
    await made.create(PODS, pod("bound"))
    await made.create(PODS, pod("lost", nodeName="node-9"))
    await made.create(PODS, {"metadata": {"name": "gated"}, "spec": pod_spec(nodeName="gone")})
    await made.settle(5)
    for name in ("unbound", "bound", "lost"):
        await made.delete(PODS, name)


async def _half_finished_workloads(made: Cluster) -> None:
    await made.create(REPLICA_SETS, held(workload("rs", 2)))
    await made.create(DEPLOYMENTS, held(workload("recreate", 2, strategy={"type": "Recreate"})))
    await made.create(DEPLOYMENTS, workload("stuck", 3))
    await made.create(DEPLOYMENTS, workload("paused", 1, paused=True))
    await made.create(PODS, {"metadata": {"name": "taken-0"}, "spec": pod_spec()})
    await made.create(STATEFUL_SETS, workload("taken", 2, serviceName="s"))
    await made.create(STATEFUL_SETS, held(workload("sts", 3, serviceName="s")))
    daemon = held(workload("ds", 1))
    del daemon["spec"]["replicas"]
    await made.create(DAEMON_SETS, daemon)
    fails = template({"app": "j"}, annotations={"bayplan.dev/exit-code": "1"})
    fails["spec"]["restartPolicy"] = "Never"
    job = {"metadata": {"name": "fails"}, "spec": {"template": fails, "backoffLimit": 1}}
    await made.create(JOBS, job)
    waits = {"metadata": {"name": "waits"}, "spec": {"template": fails, "suspend": True}}
    await made.create(JOBS, waits)
    budget = {"selector": {"matchLabels": {"app": "stuck"}}, "minAvailable": 9}
    await made.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b"}, "spec": budget})
    await made.settle(20)
    broken = template({"app": "stuck"}, annotations={"bayplan.dev/ready": "false"})
    await made.patch(DEPLOYMENTS, "stuck", {"spec": {"template": broken}})
    again = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
    for resource, name in ((DEPLOYMENTS, "recreate"), (STATEFUL_SETS, "sts"), (DAEMON_SETS, "ds")):
        await made.patch(resource, name, again)
    await made.patch(REPLICA_SETS, "rs", {"spec": {"replicas": 1}})
    await made.delete(REPLICA_SETS, "rs", propagation="Foreground")


async def _half_finished_volumes(made: Cluster) -> None:
    storage = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    waiting = {"metadata": {"name": "waiting"}, "provisioner": "p"}
    await made.create(STORAGE_CLASSES, {**waiting, "volumeBindingMode": "WaitForFirstConsumer"})
    await made.create(STORAGE_CLASSES, {"metadata": {"name": "now"}, "provisioner": "p"})
    for name in ("waiting", "now", "absent", ""):
        claim = {**storage, "storageClassName": name}
        metadata = {"name": f"claim-{name or 'none'}"}
        await made.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": claim})
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "claimRef": {"namespace": "default", "name": "gone", "uid": "x"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    await made.create(PERSISTENT_VOLUMES, {"metadata": {"name": "released"}, "spec": volume})
    mount = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim-now"}}]
    await made.create(PODS, {"metadata": {"name": "user"}, "spec": pod_spec(volumes=mount)})
    await made.settle(5)
    await made.delete(PERSISTENT_VOLUME_CLAIMS, "claim-now")
    await made.delete(PERSISTENT_VOLUMES, "released")


async def _half_finished_rest(made: Cluster) -> None:
    await made.create(NAMESPACES, {"metadata": {"name": "ending"}})
    kept = {"metadata": {"name": "kept", "finalizers": HELD}}
    await made.create(CONFIG_MAPS, kept, "ending")
    await made.create(PODS, {**pod("kept"), "metadata": kept["metadata"]}, "ending")
    await made.create(NAMESPACES, {"metadata": {"name": "full"}})
    hard = {"hard": {"pods": "1"}}
    await made.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": hard}, "full")
    await made.settle(5)
    await made.create(REPLICA_SETS, workload("over", 3), "full")
    orphan = {"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "gone"}
    await made.create(
        CONFIG_MAPS, {"metadata": {"name": "o", "ownerReferences": [orphan], "finalizers": HELD}}
    )
    await made.node("silent", simulated="false")
    await made.node("cordoned", unschedulable=True)
    await made.delete(NAMESPACES, "ending")
    await made.node("leaves")
    await made.create(PODS, pod("left", nodeName="leaves"))
    await made.settle(5)
    await made.delete(NODES, "leaves")


def _resource(made: Cluster, api_version: str, kind: str) -> Resource:
    group, _, version = api_version.rpartition("/")
    found = next(
        each
        for each in made.server.backend.registry
        if (each.group, each.version, each.kind) == (group, version, kind)
    )
    return Resource(group, version, found.resource, kind, namespaced=found.namespaced)


async def _half_finished_kinds(made: Cluster) -> None:
    """Make what the file beside this one lists; delete what a finalizer holds."""
    manifests = Path(__file__).with_name("half_finished.yaml").read_text("utf-8")
    for body in yaml.safe_load_all(manifests):
        resource = _resource(made, body["apiVersion"], body["kind"])
        await made.create(resource, body)
        if body["metadata"].get("finalizers"):
            await made.delete(resource, body["metadata"]["name"])
    await made.settle(5)
    things = _resource(made, "example.com/v1", "Thing")
    thing = {"apiVersion": "example.com/v1", "kind": "Thing"}
    await made.create(things, {**thing, "metadata": {"name": "held", "finalizers": HELD}})
    await made.delete(CUSTOM_KINDS, "things.example.com")


async def _half_finished_certificates(made: Cluster) -> None:
    """Requests that nobody approves, that were denied, and for a signer that is not here."""
    _, request = ask("somebody")
    for name, signer, verdict in (
        ("waits", "kubernetes.io/kube-apiserver-client", ""),
        ("denied", "kubernetes.io/kube-apiserver-client", "Denied"),
        ("foreign", "example.com/signer", "Approved"),
    ):
        spec = {"request": base64.b64encode(request).decode(), "usages": ["client auth"]}
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": {**spec, "signerName": signer}}
        await made.create(REQUESTS, body)
        if verdict:
            said = {"type": verdict, "status": "True", "reason": "Test", "message": "m"}
            status = {"status": {"conditions": [said]}}
            await made.client.patch(REQUESTS, name, status, subresource="approval")
    bundles = _resource(made, "certificates.k8s.io/v1", "ClusterTrustBundle")
    metadata = {"name": "held", "finalizers": HELD}
    await made.create(bundles, {"metadata": metadata, "spec": {"trustBundle": authority()}})
    await made.delete(bundles, "held")
    wanted = {"signerName": "example.com/signer", "stubPKCS10Request": _der(request)}
    for who in ("pod", "serviceAccount", "node"):
        wanted |= {f"{who}Name": "absent", f"{who}UID": "gone"}
    asked = _resource(made, "certificates.k8s.io/v1", "PodCertificateRequest")
    await made.create(asked, {"metadata": {"name": "waits"}, "spec": wanted})


def _der(pem: bytes) -> str:
    return "".join(line for line in pem.decode().splitlines() if "-----" not in line)


async def _kinds_without_objects(made: Cluster) -> list[str]:
    store, found = made.server.store, []
    for kind in made.server.backend.registry:
        if {"create", "list"} <= set(kind.verbs):
            prefix = made.server.backend.codec(kind).prefix
            found += [] if (await store.range(prefix, limit=1)).items else [kind.kind]
    return sorted(set(found))


@pytest.mark.long
@virtual
async def test_half_finished_objects_are_left_alone_for_an_hour() -> None:
    options = {**QUIET, "pod-groups": "v1beta1"}
    async with cluster(options=options, gates=EVERY_KIND) as made:
        await _half_finished_pods(made)
        await _half_finished_workloads(made)
        await _half_finished_volumes(made)
        await _half_finished_rest(made)
        await _half_finished_kinds(made)
        await _half_finished_certificates(made)
        await made.settle(1800)
        assert [] == await _kinds_without_objects(made)
        after = made.server.store.revision

        await made.settle(3600)

        writes = await _writes(made, after)
        assert [] == [key for key in writes if "/events/" not in key]
        assert len(writes) <= 20  # a controller that is refused says so again, ever more rarely
