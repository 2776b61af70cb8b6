"""Simulated kubelets, node lifecycle and the pods of lost nodes; and how controllers are run."""

from __future__ import annotations

import asyncio
import json

import pytest

from bayplan.cli.nodes import SHAPES, add_nodes, make_node
from bayplan.client import Resource
from bayplan.client.errors import ServerFault
from bayplan.client.resources import LEASES, NODES, PODS, REPLICA_SETS
from bayplan.controllers import manager as manager_module
from bayplan.controllers.manager import CONTROLLERS, ControllerManager, select
from bayplan.controllers.objects import seconds_of
from bayplan.controllers.runtime import Kit, Worker, WorkQueue
from bayplan.errors import ConfigError
from bayplan.store import StoreError
from tests.controllers.cluster import (
    EPOCH,
    Cluster,
    Json,
    cluster,
    pod_spec,
    virtual,
    workload,
)

ADMISSION = "admissionregistration.k8s.io"
POLICIES = Resource(
    ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = Resource(
    ADMISSION,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)


async def pod(made: Cluster, name: str, annotations: Json | None = None, **spec: object) -> None:
    metadata: Json = {"name": name, "annotations": annotations or {}}
    await made.create(PODS, {"metadata": metadata, "spec": pod_spec(**spec)})


def conditions(obj: Json) -> Json:
    return {c["type"]: c["status"] for c in obj["status"].get("conditions") or []}


@virtual
async def test_a_bound_pod_runs_with_address_and_conditions() -> None:
    async with cluster() as made:
        await pod(made, "p")
        await made.settle(5)

        found = await made.get(PODS, "p")
        status = found["status"]
        assert "Running" == status["phase"]
        assert status["podIP"].startswith("10.")
        assert status["startTime"]
        assert {
            "PodScheduled": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
            "PodReadyToStartContainers": "True",
        } == conditions(found)
        assert [("c", True)] == [(c["name"], c["ready"]) for c in status["containerStatuses"]]


@virtual
async def test_a_pod_ends_as_its_annotations_say() -> None:
    async with cluster() as made:
        runs = {"bayplan.dev/run-seconds": "20"}
        await pod(made, "good", runs, restartPolicy="Never")
        await pod(made, "bad", {**runs, "bayplan.dev/exit-code": "2"}, restartPolicy="Never")
        await pod(made, "again", {**runs, "bayplan.dev/exit-code": "2"}, restartPolicy="Always")
        await pod(made, "never-ready", {"bayplan.dev/ready": "false"})
        await made.settle(10)
        assert "Running" == (await made.get(PODS, "good"))["status"]["phase"]
        await made.settle(15)

        phases = {p["metadata"]["name"]: p["status"]["phase"] for p in await made.list(PODS)}
        assert {
            "good": "Succeeded",
            "bad": "Failed",
            "again": "Running",
            "never-ready": "Running",
        } == phases
        code = (await made.get(PODS, "bad"))["status"]["containerStatuses"][0]["state"]
        assert 2 == code["terminated"]["exitCode"]
        assert (await made.get(PODS, "again"))["status"]["containerStatuses"][0]["restartCount"]
        assert "False" == conditions(await made.get(PODS, "never-ready"))["Ready"]


@virtual
async def test_a_deleted_pod_goes_when_it_has_stopped() -> None:
    async with cluster(options={"kubelet": {"stop-seconds": 10}}) as made:
        await pod(made, "p")
        await made.settle(5)
        await made.delete(PODS, "p")
        await made.settle(5)
        assert await made.exists(PODS, "p")
        await made.settle(10)

        assert not await made.exists(PODS, "p")


@virtual
async def test_only_simulated_nodes_run_pods() -> None:
    async with cluster(nodes=0) as made:
        await made.node("real", simulated="false")
        await pod(made, "p")
        await made.settle(30)

        found = await made.get(PODS, "p")
        assert ("real", "Pending") == (found["spec"]["nodeName"], found["status"]["phase"])
        assert not await made.exists(LEASES, "real", "kube-node-lease")


ATTACHED = pytest.mark.parametrize("attached", [True, False], ids=["attached", "by requests"])


@ATTACHED
@virtual
async def test_simulated_nodes_are_ready_and_renew_their_leases(attached: bool) -> None:
    async with cluster(attached=attached) as made:
        await made.settle(5)
        assert "True" == conditions(await made.get(NODES, "node-0"))["Ready"]
        info = (await made.get(NODES, "node-0"))["status"]["nodeInfo"]
        assert info["kubeletVersion"].startswith("v1.")
        first = (await made.get(LEASES, "node-0", "kube-node-lease"))["spec"]["renewTime"]
        await made.settle(1000)

        last = (await made.get(LEASES, "node-0", "kube-node-lease"))["spec"]["renewTime"]
        assert last > first
        assert "True" == conditions(await made.get(NODES, "node-0"))["Ready"]
        assert "taints" not in (await made.get(NODES, "node-0"))["spec"]
        await made.delete(NODES, "node-0")
        await made.settle(5)
        assert not await made.exists(LEASES, "node-0", "kube-node-lease")


@virtual
async def test_a_node_that_was_made_ready_says_since_when() -> None:
    async with cluster(nodes=0, options={"kubelet": {"lease-seconds": 10}}) as made:
        await add_nodes(made.client, [make_node("made", SHAPES["small"])])
        await made.settle(5)

        said = (await made.get(NODES, "made"))["status"]["conditions"]
        assert "Ready" in {each["type"] for each in said}
        assert all(each["lastTransitionTime"] for each in said)


async def lease(made: Cluster, node: str) -> Json:
    spec: Json = (await made.get(LEASES, node, "kube-node-lease"))["spec"]
    return spec


def moment(text: str) -> float:
    return seconds_of(text) - EPOCH


@virtual
async def test_signs_of_life_come_as_often_as_a_kubelet_gives_them() -> None:
    async with cluster(nodes=20, options={"kubelet": {"lease-seconds": 10}}) as made:
        await made.settle(700)

        now = asyncio.get_running_loop().time()
        revision = made.server.store.revision
        for number in range(20):
            spec = await lease(made, f"node-{number}")
            assert now - moment(spec["renewTime"]) <= 12
            node = await made.get(NODES, f"node-{number}")
            beats = {moment(c["lastHeartbeatTime"]) for c in node["status"]["conditions"]}
            assert now - 312 <= min(beats) == max(beats)
        await made.settle(20)  # between two heartbeats: nothing but leases, each twice
        assert 38 <= made.server.store.revision - revision <= 42


@virtual
async def test_a_lease_that_is_lost_or_taken_is_made_again() -> None:
    async with cluster() as made:
        await made.settle(30)
        await made.client.delete(LEASES, "node-0", "kube-node-lease")
        taken = {"spec": {"holderIdentity": "somebody else"}}
        await made.client.patch(LEASES, "node-1", taken, "kube-node-lease")
        await made.settle(15)

        for name in ("node-0", "node-1"):
            spec = await lease(made, name)
            assert name == spec["holderIdentity"]
            assert asyncio.get_running_loop().time() - moment(spec["renewTime"]) <= 12
        await made.delete(NODES, "node-0")
        await made.settle(5)
        await made.node("node-0")
        await made.settle(5)
        owner = (await made.get(LEASES, "node-0", "kube-node-lease"))["metadata"]["ownerReferences"]
        assert [(await made.get(NODES, "node-0"))["metadata"]["uid"]] == [o["uid"] for o in owner]


@virtual
async def test_a_policy_judges_the_renewals_of_leases_too() -> None:
    async with cluster() as made:
        await made.settle(30)
        rule = {"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"]}
        rule |= {"operations": ["UPDATE"], "resources": ["leases"]}
        spec = {"matchConstraints": {"resourceRules": [rule]}}
        spec |= {"validations": [{"expression": "object.metadata.name != 'node-0'"}]}
        await made.create(POLICIES, {"metadata": {"name": "no"}, "spec": spec})
        bound = {"policyName": "no", "validationActions": ["Deny"]}
        await made.create(BINDINGS, {"metadata": {"name": "no"}, "spec": bound})
        since = asyncio.get_running_loop().time()
        await made.settle(100)

        assert moment((await lease(made, "node-0"))["renewTime"]) < since
        assert moment((await lease(made, "node-1"))["renewTime"]) > since + 80


@ATTACHED
@virtual
async def test_a_silent_node_becomes_unreachable_and_its_pods_move(attached: bool) -> None:
    async with cluster(attached=attached) as made:
        await made.create(REPLICA_SETS, workload("web", 4))
        await made.settle(20)
        quiet = {"metadata": {"annotations": {"bayplan.dev/simulated": "false"}}}
        await made.patch(NODES, "node-0", quiet)  # its kubelet stops
        await made.settle(80)

        node = await made.get(NODES, "node-0")
        assert "Unknown" == conditions(node)["Ready"]
        taints = {(t["key"], t["effect"]) for t in node["spec"]["taints"]}
        unreachable = "node.kubernetes.io/unreachable"
        assert {(unreachable, "NoSchedule"), (unreachable, "NoExecute")} == taints

        await made.settle(330)  # pods tolerate that for five minutes
        places = [
            p["spec"]["nodeName"]
            for p in await made.list(PODS)
            if "deletionTimestamp" not in p["metadata"]
        ]
        assert ["node-1"] * 4 == places

        loud = {"metadata": {"annotations": {"bayplan.dev/simulated": "true"}}}
        await made.patch(NODES, "node-0", loud)
        await made.settle(30)
        node = await made.get(NODES, "node-0")
        assert "True" == conditions(node)["Ready"]
        assert "taints" not in node["spec"]
        assert 4 == len(await made.list(PODS))


@virtual
async def test_cordon_and_pressure_become_taints_and_go_again() -> None:
    async with cluster("nodelifecycle") as made:
        taint = {"key": "mine", "effect": "NoSchedule"}
        await made.patch(NODES, "node-0", {"spec": {"unschedulable": True, "taints": [taint]}})
        pressure = {"type": "MemoryPressure", "status": "True"}
        ready = {"type": "Ready", "status": "True"}
        body = {"status": {"conditions": [pressure, ready]}}
        await made.client.patch(NODES, "node-0", body, subresource="status")
        await made.settle(5)

        keys = sorted(t["key"] for t in (await made.get(NODES, "node-0"))["spec"]["taints"])
        assert [
            "mine",
            "node.kubernetes.io/memory-pressure",
            "node.kubernetes.io/unschedulable",
        ] == keys
        await made.patch(NODES, "node-0", {"spec": {"unschedulable": None}})
        body = {"status": {"conditions": [{**pressure, "status": "False"}, ready]}}
        await made.client.patch(NODES, "node-0", body, subresource="status")
        await made.settle(5)
        assert [taint] == (await made.get(NODES, "node-0"))["spec"]["taints"]


@virtual
async def test_pods_of_a_deleted_node_are_replaced() -> None:
    async with cluster() as made:
        await made.create(REPLICA_SETS, workload("web", 4))
        await made.settle(20)
        await made.delete(NODES, "node-0")
        await made.settle(100)

        places = [p["spec"]["nodeName"] for p in await made.list(PODS)]
        assert ["node-1"] * 4 == places


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param("", [], id="nothing, none"),
        pytest.param("*", list(CONTROLLERS), id="all"),
        pytest.param("job, kubelet", ["job", "kubelet"], id="some by name"),
        pytest.param("*,-kubelet,-job", [n for n in CONTROLLERS if n not in ("kubelet", "job")]),
        pytest.param("-kubelet", [n for n in CONTROLLERS if n != "kubelet"], id="all but one"),
    ],
)
def test_controllers_are_selected_by_name(spec: str, wanted: list[str]) -> None:
    assert wanted == select(spec)


def test_an_unknown_controller_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r'"jobs" is not known; use .*replicaset'):
        select("jobs")


@virtual
async def test_a_failing_controller_is_restarted_and_disturbs_nobody() -> None:
    runs: list[float] = []

    class Broken:
        def __init__(self, kit: Kit) -> None:
            pass

        async def run(self) -> None:
            runs.append(asyncio.get_running_loop().time())
            raise RuntimeError("broken")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CONTROLLERS, "broken", Broken)
        async with cluster("broken,kubelet") as made:
            manager: ControllerManager = made.manager
            await pod(made, "p")
            await made.settle(10)

            assert "Running" == (await made.get(PODS, "p"))["status"]["phase"]
            assert 4 == manager.failures.pop("broken")
            assert [0, 1, 3, 7] == [int(run) for run in runs]
    assert manager_module.CONTROLLERS is CONTROLLERS


@virtual
async def test_a_key_that_fails_is_retried_alone() -> None:
    kit = Kit(None, clock=lambda: EPOCH)  # type: ignore[arg-type]
    seen: list[str] = []

    async def reconcile(key: str) -> float | None:
        seen.append(key)
        if key == "bad" and seen.count("bad") < 3:
            raise ValueError(key)
        return None

    worker = Worker(kit, "test", reconcile)
    task = asyncio.create_task(worker.run())
    for key in ("bad", "good", "bad"):
        worker.queue.add(key)
    await asyncio.sleep(10)
    task.cancel()

    assert ["bad", "good", "bad", "bad"] == seen
    assert {"test": 2} == kit.errors


@virtual
async def test_a_key_added_while_at_work_is_looked_at_again() -> None:
    queue = WorkQueue()
    queue.add("a")
    assert "a" == await queue.get()
    queue.add("a")
    queue.add("a")
    assert 0 == len(queue)
    queue.done("a")

    assert "a" == await queue.get()
    queue.done("a")
    assert 0 == len(queue)
    queue.add_after("b", 5)
    queue.add_after("b", 2)
    start = asyncio.get_running_loop().time()
    assert "b" == await queue.get()
    assert 2 == asyncio.get_running_loop().time() - start


@virtual
async def test_a_node_that_never_says_anything_becomes_unknown() -> None:
    async with cluster() as made:
        await made.node("mute", simulated="false")
        await made.settle(50)
        assert "conditions" not in (await made.get(NODES, "mute"))["status"]
        await made.settle(20)

        found = await made.get(NODES, "mute")
        told = {c["type"]: (c["status"], c["reason"]) for c in found["status"]["conditions"]}
        unknown = ("Unknown", "NodeStatusNeverUpdated")
        types = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
        assert dict.fromkeys(types, unknown) == told
        assert {"NoSchedule", "NoExecute"} == {t["effect"] for t in found["spec"]["taints"]}


@virtual
async def test_a_pod_on_no_node_whose_deletion_failed_halfway_goes_in_the_end():
    """It was marked, and then the store failed: there is no kubelet to finish it."""
    async with cluster("podgc", nodes=0) as world:
        await pod(world, "p")
        store = world.server.store
        delete = store.delete

        async def fail(key, *, expect=None):
            raise StoreError("disk I/O error")

        store.delete = fail
        with pytest.raises(ServerFault):
            await world.client.delete(PODS, "p", "default")
        store.delete = delete
        left = await world.get(PODS, "p")
        await asyncio.sleep(60)

        assert left["metadata"]["deletionTimestamp"]
        assert [] == await world.list(PODS)


@virtual
async def test_a_machine_on_a_site_stays_and_goes_when_it_is_deleted() -> None:
    async with cluster("podgc", nodes=0) as world:
        machine = {"flavors": [{"flavorID": "small"}]}
        body = {"metadata": {"name": "vm"}, "spec": {"virtualMachine": machine}}
        made = json.loads(await world.client.create(PODS, body, "default"))
        await world.client.bind("default", "vm", made["metadata"]["uid"], "zone-1")
        await asyncio.sleep(120)
        assert ["vm"] == [pod["metadata"]["name"] for pod in await world.list(PODS)]

        await world.client.delete(PODS, "vm", "default")
        await asyncio.sleep(60)

        assert [] == await world.list(PODS)


@virtual
async def test_a_resource_that_a_node_gets_later_is_offered_to_pods() -> None:
    async with cluster() as made:
        await made.settle(5)
        name = (await made.list(NODES))[0]["metadata"]["name"]
        body = {"status": {"capacity": {"example.com/thing": "3"}}}
        await made.client.patch(NODES, name, body, "", subresource="status")
        await made.settle(5)

        assert "3" == (await made.get(NODES, name))["status"]["allocatable"]["example.com/thing"]
