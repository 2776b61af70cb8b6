"""Events as people know them from kubectl describe."""

from __future__ import annotations

from bayplan.client.resources import (
    CORE_EVENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from bayplan.controllers.objects import condition
from tests.controllers.cluster import Cluster, Json, cluster, pod_spec, virtual, workload

TOLD = {"events": True}


async def said(made: Cluster, kind: str, name: str) -> list[tuple[str, str, str]]:
    """Return type, reason and message of the events about an object."""
    found = [
        e
        for e in await made.list(CORE_EVENTS)
        if (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == (kind, name)
    ]
    for event in found:
        assert event["firstTimestamp"]
        assert event["lastTimestamp"]
        assert event["count"] >= 1
        assert event["source"]["component"] == event["reportingComponent"]
    return [(e["type"], e["reason"], e["message"]) for e in found]


async def readiness(made: Cluster) -> dict[str, str]:
    """Return the node and whether it is ready of each pod that stays."""
    return {
        pod["spec"]["nodeName"]: condition(pod["status"], "Ready")["status"]
        for pod in await made.list(PODS)
        if "deletionTimestamp" not in pod["metadata"]
    }


@virtual
async def test_a_node_that_falls_silent_and_comes_back_is_told_of() -> None:
    async with cluster(options=TOLD) as made:
        await made.create(REPLICA_SETS, workload("web", 2))
        await made.settle(20)
        pods = {p["spec"]["nodeName"]: p["metadata"]["name"] for p in await made.list(PODS)}
        failed: Json = {"metadata": {"annotations": {"bayplan.dev/failed": "true"}}}
        await made.patch(NODES, "node-0", failed)
        await made.settle(80)

        assert {"node-0": "False", "node-1": "True"} == await readiness(made)
        silent = ("Normal", "NodeNotReady", "Node node-0 status is now: NodeNotReady")
        assert [silent] == await said(made, "Node", "node-0")
        gone = ("Warning", "NodeNotReady", "Node is not ready")
        assert gone in await said(made, "Pod", pods["node-0"])
        assert gone not in await said(made, "Pod", pods["node-1"])

        failed["metadata"]["annotations"]["bayplan.dev/failed"] = None
        await made.patch(NODES, "node-0", failed)
        await made.settle(20)
        back = ("Normal", "NodeReady", "Node node-0 status is now: NodeReady")
        assert [silent, back] == await said(made, "Node", "node-0")
        assert {"node-0": "True", "node-1": "True"} == await readiness(made)

        failed["metadata"]["annotations"]["bayplan.dev/failed"] = "true"
        await made.patch(NODES, "node-0", failed)
        await made.settle(450)
        evicted = f"Marking for deletion Pod default/{pods['node-0']}"
        told = await said(made, "Pod", pods["node-0"])
        assert ("Normal", "TaintManagerEviction", evicted) in told


@virtual
async def test_a_pod_that_comes_to_a_silent_node_has_all_of_its_time() -> None:
    async with cluster(nodes=0, options=TOLD) as made:
        await made.node("silent", simulated="false")
        await made.settle(1000)
        body = {"metadata": {"name": "late"}, "spec": pod_spec(nodeName="silent")}
        await made.create(PODS, body)
        await made.settle(280)
        assert "deletionTimestamp" not in (await made.get(PODS, "late"))["metadata"]
        await made.settle(40)

        assert "deletionTimestamp" in (await made.get(PODS, "late"))["metadata"]


@virtual
async def test_stateful_sets_tell_of_pods_and_claims() -> None:
    async with cluster(options=TOLD) as made:
        await made.create(STORAGE_CLASSES, {"metadata": {"name": "now"}, "provisioner": "p"})
        request = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
        claim = {"metadata": {"name": "v"}, "spec": {**request, "storageClassName": "now"}}
        body = workload("db", 1, serviceName="db", volumeClaimTemplates=[claim])
        await made.create(STATEFUL_SETS, body)
        await made.settle(20)

        assert [
            (
                "Normal",
                "SuccessfulCreate",
                "create Claim v-db-0 Pod db-0 in StatefulSet db success",
            ),
            ("Normal", "SuccessfulCreate", "create Pod db-0 in StatefulSet db successful"),
        ] == await said(made, "StatefulSet", "db")
        told = await said(made, "PersistentVolumeClaim", "v-db-0")
        assert ["ProvisioningSucceeded"] == [reason for _, reason, _ in told]


@virtual
async def test_a_claim_says_once_why_it_waits() -> None:
    async with cluster(options=TOLD) as made:
        late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "p"}
        await made.create(STORAGE_CLASSES, {"metadata": {"name": "late"}, **late})
        request = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
        for name in ("late", "absent", ""):
            spec = {**request, "storageClassName": name}
            metadata = {"name": name or "none"}
            await made.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec})
        await made.settle(10)
        await made.create(STORAGE_CLASSES, {"metadata": {"name": "more"}, **late})  # looks again
        await made.settle(600)

        kind = "PersistentVolumeClaim"
        waits = "waiting for first consumer to be created before binding"
        assert [("Normal", "WaitForFirstConsumer", waits)] == await said(made, kind, "late")
        missing = 'storageclass.storage.k8s.io "absent" not found'
        assert [("Warning", "ProvisioningFailed", missing)] == await said(made, kind, "absent")
        nothing = "no persistent volumes available for this claim and no storage class is set"
        assert [("Normal", "FailedBinding", nothing)] == await said(made, kind, "none")


@virtual
async def test_an_image_that_cannot_be_pulled_is_told_of() -> None:
    async with cluster(options=TOLD) as made:
        metadata = {"name": "p", "annotations": {"bayplan.dev/image-pull": "fail"}}
        containers = [{"name": "c", "image": "My/Image:1"}]
        await made.create(PODS, {"metadata": metadata, "spec": pod_spec(containers=containers)})
        await made.settle(60)

        assert [
            ("Normal", "Pulling", 'Pulling image "My/Image:1"'),
            ("Warning", "Failed", 'Failed to pull image "My/Image:1": it was told to fail'),
            ("Warning", "Failed", "Error: ErrImagePull"),
            ("Normal", "BackOff", 'Back-off pulling image "My/Image:1"'),
            ("Warning", "Failed", "Error: ImagePullBackOff"),
        ] == await said(made, "Pod", "p")
