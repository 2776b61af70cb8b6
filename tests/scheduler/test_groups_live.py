"""Pod groups on the embedded API server: the scheduler reads them and says what came of them."""

import msgspec
import pytest

from bayplan.apiserver.serving import Settings
from bayplan.client import resources as r
from bayplan.config import FeatureGates, default_config
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.cluster import local_cluster
from tests.waiting import until, until_gone

VERSIONS = {
    "1.36": (r.POD_GROUPS, "PodGroupScheduled", {"GangScheduling": True}),
    "1.37": (r.POD_GROUPS_V1BETA1, "PodGroupInitiallyScheduled", {}),
}


def node(cpu):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": "n"}, "status": {"capacity": room, "allocatable": room}}


def member(name, group):
    request = {"requests": {"cpu": "1"}}
    container = {"name": "c", "image": "registry.example/app:1", "resources": request}
    spec = {"containers": [container], "schedulingGroup": {"podGroupName": group}}
    return {"metadata": {"name": name}, "spec": spec | {"terminationGracePeriodSeconds": 0}}


def group(name, count):
    policy = {"gang": {"minCount": count}}
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}


@pytest.mark.parametrize("version", VERSIONS)
async def test_of_two_gangs_one_gets_the_node_and_both_are_told(version, quiet):
    groups, kind, changes = VERSIONS[version]
    gates = FeatureGates({"GenericWorkload": True, **changes}, version)

    def is_told(found):
        return any(each["type"] == kind for each in found.get("status", {}).get("conditions", ()))

    async with local_cluster(
        Settings(store="memory"),
        config=default_config(gates),
        gates=gates,
        registry=in_tree_registry(),
        controllers="podgroup-protection",
    ) as cluster:
        client = cluster.client
        await client.create(r.NODES, node("3"))
        for name in ("a", "b"):
            await client.create(groups, group(name, 2), "default")
            for i in range(2):
                await client.create(r.PODS, member(f"{name}{i}", name), "default")
        told = {name: await until(client, groups, name, is_told) for name in ("a", "b")}
        for i in range(2):
            await until(client, r.PODS, f"a{i}", lambda pod: pod.get("spec", {}).get("nodeName"))
        waiting = [
            msgspec.json.decode(await client.get(r.PODS, f"b{i}", "default")) for i in range(2)
        ]
        await client.delete(groups, "a", "default")
        kept = msgspec.json.decode(await client.get(groups, "a", "default"))
        for i in range(2):
            await client.delete(r.PODS, f"a{i}", "default", grace_period=0)
        await until_gone(client, groups, "a")

    statuses = {name: found["status"]["conditions"][0]["status"] for name, found in told.items()}
    assert {"a": "True", "b": "False"} == statuses
    assert [None, None] == [pod["spec"].get("nodeName") for pod in waiting]
    assert kept["metadata"]["deletionTimestamp"]
