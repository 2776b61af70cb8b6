"""Namespaces, garbage collection, volumes and budgets on a simulated cluster."""

from __future__ import annotations

import pytest

from bayplan.client.errors import TooManyRequests
from bayplan.client.resources import (
    CONFIG_MAPS,
    CUSTOM_KINDS,
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    SECRETS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
    Resource,
)
from bayplan.controllers.ephemeral import TEMPLATES
from bayplan.controllers.protection import ATTRIBUTE_CLASSES
from tests.controllers.cluster import Cluster, Json, cluster, pod_spec, virtual, workload
from tests.definitions import definition

CUSTOM = Resource("example.com", "v1", "widgets", "Widget")


async def count(made: Cluster, resource: Resource, wanted: int) -> bool:
    return len(await made.list(resource)) == wanted


def owned_by(resource: Resource, *owners: Json, block: bool = False) -> Json:
    return {
        "ownerReferences": [
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": block,
            }
            for owner in owners
        ]
    }


async def config_map(made: Cluster, name: str, *owners: Json, block: bool = False) -> Json:
    metadata = {"name": name, **(owned_by(CONFIG_MAPS, *owners, block=block) if owners else {})}
    return await made.create(CONFIG_MAPS, {"metadata": metadata})


async def names(made: Cluster) -> list[str]:
    found = await made.list(CONFIG_MAPS)
    return [
        item["metadata"]["name"] for item in found if item["metadata"]["namespace"] == "default"
    ]


@virtual
async def test_a_deleted_namespace_takes_everything_with_it() -> None:
    async with cluster() as made:
        await made.create(NAMESPACES, {"metadata": {"name": "team"}})
        await made.create(DEPLOYMENTS, workload("web", 2), "team")
        await made.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "team")
        await made.until(lambda: count(made, PODS, 2))
        await made.settle()
        assert await made.exists(SERVICE_ACCOUNTS, "default", "team")
        await made.client.delete(NAMESPACES, "team")

        async def gone() -> bool:
            return not await made.exists(NAMESPACES, "team")

        await made.until(gone)
        assert [] == await made.list(PODS)
        assert [] == await made.list(REPLICA_SETS)
        with pytest.raises(AssertionError):
            await made.until(lambda: made.exists(NAMESPACES, "team"), 1)


@virtual
async def test_dependents_go_with_their_last_owner() -> None:
    async with cluster("garbagecollector", nodes=0) as made:
        one, two = await config_map(made, "one"), await config_map(made, "two")
        child = await config_map(made, "child", one, two)
        await config_map(made, "grandchild", child)
        await made.delete(CONFIG_MAPS, "one")
        await made.settle()

        left = (await made.get(CONFIG_MAPS, "child"))["metadata"]["ownerReferences"]
        assert ["two"] == [owner["name"] for owner in left]
        await made.delete(CONFIG_MAPS, "two")
        await made.settle()
        assert [] == await names(made)


@virtual
async def test_only_chosen_resources_are_followed() -> None:
    options = {"garbagecollector": {"resources": ("secrets",)}}
    async with cluster("garbagecollector", nodes=0, options=options) as made:
        owner = await config_map(made, "owner")
        await config_map(made, "child", owner)
        secret = {"metadata": {"name": "sealed", **owned_by(CONFIG_MAPS, owner)}}
        await made.create(SECRETS, secret)
        await made.delete(CONFIG_MAPS, "owner")
        await made.settle()

        assert ["child"] == await names(made)
        assert await count(made, SECRETS, 0)


@virtual
async def test_an_owner_that_never_existed_is_no_owner() -> None:
    async with cluster("garbagecollector", nodes=0) as made:
        ghost = {"metadata": {"name": "ghost", "uid": "1-2-3"}}
        await config_map(made, "child", ghost)
        await made.settle()

        assert [] == await names(made)


@virtual
async def test_orphan_deletion_keeps_dependents() -> None:
    async with cluster("garbagecollector", nodes=0) as made:
        owner = await config_map(made, "owner")
        await config_map(made, "child", owner)
        await made.settle(1)
        await made.delete(CONFIG_MAPS, "owner", propagation="Orphan")
        await made.settle()

        assert ["child"] == await names(made)
        assert "ownerReferences" not in (await made.get(CONFIG_MAPS, "child"))["metadata"]


@virtual
async def test_foreground_deletion_removes_the_owner_last() -> None:
    async with cluster("garbagecollector", nodes=0) as made:
        owner = await config_map(made, "owner")
        child = await config_map(made, "child", owner, block=True)
        await config_map(made, "grandchild", child, block=True)
        await made.patch(CONFIG_MAPS, "grandchild", {"metadata": {"finalizers": ["x.io/hold"]}})
        await made.settle(1)
        await made.delete(CONFIG_MAPS, "owner", propagation="Foreground")
        await made.settle()

        assert ["child", "grandchild", "owner"] == await names(made)
        await made.patch(CONFIG_MAPS, "grandchild", {"metadata": {"finalizers": None}})
        await made.settle()
        assert [] == await names(made)


@virtual
async def test_custom_objects_are_collected_too() -> None:
    async with cluster("garbagecollector", nodes=0) as made:
        await made.create(CUSTOM_KINDS, definition("widgets"))
        await made.settle(1)
        owner = await config_map(made, "owner")
        metadata = {"name": "w", **owned_by(CONFIG_MAPS, owner)}
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
        await made.create(CUSTOM, body)
        await made.settle(1)
        await made.delete(CONFIG_MAPS, "owner")
        await made.settle()

        assert [] == await made.list(CUSTOM)


def claim(name: str, class_name: str = "fast", size: str = "1Gi", **more: object) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": class_name,
            **more,
        },
    }


def volume(name: str, size: str, class_name: str = "fast", **more: object) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/x"},
            **more,
        },
    }


async def storage_class(made: Cluster, name: str, provisioner: str, mode: str) -> None:
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    await made.create(STORAGE_CLASSES, body)


async def phase(made: Cluster, name: str) -> str:
    found: str = (await made.get(PERSISTENT_VOLUME_CLAIMS, name))["status"]["phase"]
    return found


@virtual
async def test_an_immediate_claim_takes_the_smallest_volume_that_fits() -> None:
    async with cluster(nodes=0) as made:
        await storage_class(made, "fast", "kubernetes.io/no-provisioner", "Immediate")
        for name, size in (("big", "10Gi"), ("fit", "2Gi"), ("small", "500Mi")):
            await made.create(PERSISTENT_VOLUMES, volume(name, size))
        await made.create(PERSISTENT_VOLUMES, volume("other", "2Gi", "slow"))
        await made.create(PERSISTENT_VOLUME_CLAIMS, claim("data"))
        await made.settle()

        bound = await made.get(PERSISTENT_VOLUME_CLAIMS, "data")
        assert ("fit", "Bound") == (bound["spec"]["volumeName"], bound["status"]["phase"])
        assert {"storage": "2Gi"} == bound["status"]["capacity"]
        phases = {
            v["metadata"]["name"]: v["status"]["phase"] for v in await made.list(PERSISTENT_VOLUMES)
        }
        assert {
            "big": "Available",
            "fit": "Bound",
            "other": "Available",
            "small": "Available",
        } == phases
        await made.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await made.settle()
        assert "Released" == (await made.get(PERSISTENT_VOLUMES, "fit"))["status"]["phase"]


@virtual
async def test_an_immediate_claim_is_provisioned_and_its_volume_deleted_with_it() -> None:
    async with cluster(nodes=0) as made:
        await storage_class(made, "fast", "csi.example.com", "Immediate")
        await made.create(PERSISTENT_VOLUME_CLAIMS, claim("data"))
        await made.settle()

        assert "Bound" == await phase(made, "data")
        made_volume = (await made.list(PERSISTENT_VOLUMES))[0]
        assert "csi.example.com" == made_volume["spec"]["csi"]["driver"]
        await made.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await made.settle()
        assert [] == await made.list(PERSISTENT_VOLUMES)


@virtual
async def test_a_delayed_claim_waits_for_the_schedulers_node() -> None:
    async with cluster() as made:
        await storage_class(made, "fast", "csi.example.com", "WaitForFirstConsumer")
        await made.create(PERSISTENT_VOLUME_CLAIMS, claim("data"))
        await made.settle()
        assert "Pending" == await phase(made, "data")

        note = {"volume.kubernetes.io/selected-node": "node-1"}
        await made.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"annotations": note}})
        await made.settle()
        assert "Bound" == await phase(made, "data")
        found = (await made.list(PERSISTENT_VOLUMES))[0]
        terms = found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}] == terms[
            0
        ]["matchExpressions"]


@virtual
async def test_a_volume_that_the_scheduler_points_at_a_claim_is_bound() -> None:
    async with cluster() as made:
        await storage_class(made, "fast", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        await made.create(PERSISTENT_VOLUMES, volume("local", "5Gi"))
        wanted = await made.create(PERSISTENT_VOLUME_CLAIMS, claim("data"))
        await made.settle()
        assert "Pending" == await phase(made, "data")

        meta = wanted["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "data",
            "uid": meta["uid"],
        }
        await made.patch(PERSISTENT_VOLUMES, "local", {"spec": {"claimRef": reference}})
        await made.settle()
        assert "Bound" == await phase(made, "data")
        found = await made.get(PERSISTENT_VOLUME_CLAIMS, "data")
        assert "local" == found["spec"]["volumeName"]


@virtual
async def test_a_claim_in_use_stays_until_its_pod_is_gone() -> None:
    async with cluster() as made:
        await storage_class(made, "fast", "csi.example.com", "Immediate")
        await made.create(PERSISTENT_VOLUME_CLAIMS, claim("data"))
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        await made.create(PODS, {"metadata": {"name": "p"}, "spec": pod_spec(volumes=volumes)})
        await made.settle()
        await made.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await made.settle()
        assert await made.exists(PERSISTENT_VOLUME_CLAIMS, "data")

        await made.delete(PODS, "p")
        await made.settle()
        assert not await made.exists(PERSISTENT_VOLUME_CLAIMS, "data")
        assert [] == await made.list(PERSISTENT_VOLUMES)


@virtual
async def test_a_pods_own_volume_lives_as_long_as_the_pod() -> None:
    async with cluster() as made:
        await storage_class(made, "fast", "csi.example.com", "Immediate")
        spec = claim("x")["spec"]
        volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
        await made.create(PODS, {"metadata": {"name": "p"}, "spec": pod_spec(volumes=volumes)})
        await made.settle()
        assert "Bound" == await phase(made, "p-v")

        await made.delete(PODS, "p")
        await made.settle()
        assert [] == await made.list(PERSISTENT_VOLUME_CLAIMS)
        assert [] == await made.list(PERSISTENT_VOLUMES)


@virtual
async def test_a_pods_device_claim_is_made_noted_and_given_back() -> None:
    async with cluster() as made:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        template = {
            "metadata": {"name": "t"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await made.create(TEMPLATES, template)
        claims = [{"name": "dev", "resourceClaimTemplateName": "t"}]
        body = {
            "metadata": {"name": "p", "annotations": {"bayplan.dev/run-seconds": "100"}},
            "spec": pod_spec(resourceClaims=claims, restartPolicy="Never"),
        }
        await made.create(PODS, body)
        await made.settle()
        noted = (await made.get(PODS, "p"))["status"]["resourceClaimStatuses"]
        name = noted[0]["resourceClaimName"]
        assert "dev" == noted[0]["name"]
        assert name.startswith("p-dev-")
        pod = await made.get(PODS, "p")
        holder = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
        status = {"status": {"reservedFor": [holder], "allocation": {}}}
        await made.client.patch(RESOURCE_CLAIMS, name, status, "default", subresource="status")
        await made.settle(120)

        assert {} == (await made.get(RESOURCE_CLAIMS, name)).get("status", {})
        await made.delete(PODS, "p")
        await made.settle()
        assert [] == await made.list(RESOURCE_CLAIMS)


async def evict(made: Cluster, name: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
    }
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    await made.client.request("POST", path, body=body)


@pytest.mark.parametrize(
    ("spec", "desired"),
    [
        pytest.param({"minAvailable": 3}, 3, id="a number that must be available"),
        pytest.param({"minAvailable": "70%"}, 3, id="a share, rounded up"),
        pytest.param({"maxUnavailable": 1}, 3, id="a number that may be missing"),
        pytest.param({"maxUnavailable": "25%"}, 3, id="a share that may be missing"),
    ],
)
def test_a_budget_says_how_many_pods_may_go(spec: Json, desired: int) -> None:
    @virtual
    async def scenario() -> None:
        async with cluster() as made:
            await made.create(DEPLOYMENTS, workload("web", 4))
            selector = {"matchLabels": {"app": "web"}}
            budget = {"metadata": {"name": "b"}, "spec": {"selector": selector, **spec}}
            await made.create(POD_DISRUPTION_BUDGETS, budget)
            await made.settle()

            status = (await made.get(POD_DISRUPTION_BUDGETS, "b"))["status"]
            assert (4, 4, desired, 4 - desired) == (
                status["expectedPods"],
                status["currentHealthy"],
                status["desiredHealthy"],
                status["disruptionsAllowed"],
            )
            pods = [pod["metadata"]["name"] for pod in await made.list(PODS)]
            await evict(made, pods[0])
            with pytest.raises(TooManyRequests):
                await evict(made, pods[1])
            await made.settle(60)  # the deployment has made a new one by then
            await evict(made, pods[1])

    scenario()


@virtual
async def test_a_claim_made_before_there_was_a_default_class_gets_it() -> None:
    async with cluster() as made:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await made.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "early"}, "spec": spec})
        await made.settle()
        assert "Pending" == (await made.get(PERSISTENT_VOLUME_CLAIMS, "early"))["status"]["phase"]
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        body = {"metadata": {"name": "late", "annotations": default}, "provisioner": "x/y"}
        await made.create(STORAGE_CLASSES, body)
        await made.settle()

        found = await made.get(PERSISTENT_VOLUME_CLAIMS, "early")
        assert ("late", "Bound") == (found["spec"]["storageClassName"], found["status"]["phase"])


@virtual
async def test_owners_in_a_circle_go_in_the_foreground_too() -> None:
    async with cluster(nodes=0) as made:
        names = ("a", "b", "c")
        uids = {}
        for name in names:
            body = await made.create(CONFIG_MAPS, {"metadata": {"name": name}})
            uids[name] = body["metadata"]["uid"]
        for name, owner in zip(names, ("c", "a", "b"), strict=True):
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner}
            reference |= {"uid": uids[owner], "controller": True, "blockOwnerDeletion": True}
            await made.patch(CONFIG_MAPS, name, {"metadata": {"ownerReferences": [reference]}})
        await made.settle()
        await made.delete(CONFIG_MAPS, "a", propagation="Foreground")
        await made.settle(60)

        left = {item["metadata"]["name"] for item in await made.list(CONFIG_MAPS)}
        assert not left & set(names)


@virtual
async def test_an_attributes_class_goes_once_no_claim_names_it() -> None:
    async with cluster() as made:
        await made.create(
            ATTRIBUTE_CLASSES,
            {"metadata": {"name": "gold"}, "driverName": "d.io", "parameters": {"a": "b"}},
        )
        await made.create(PERSISTENT_VOLUME_CLAIMS, claim("c", volumeAttributesClassName="gold"))
        await made.delete(ATTRIBUTE_CLASSES, "gold")
        await made.settle()
        assert await made.exists(ATTRIBUTE_CLASSES, "gold")
        await made.delete(PERSISTENT_VOLUME_CLAIMS, "c")
        await made.settle()

        assert not await made.exists(ATTRIBUTE_CLASSES, "gold")
