"""`bayplan scheduler` on a real kube-apiserver: what a cluster's day brings."""

import asyncio
import random
from collections import Counter

import msgspec
import pytest

from bayplan.client.resources import (
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_CLASSES,
)
from bayplan.testing.servers import start_kube
from tests.kube.world import (
    HOST,
    UnreliableProxy,
    World,
    condition,
    freeze,
    is_bound,
    is_unschedulable,
    node,
    pod,
    spread,
    thaw,
)

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube-live"),
]
ELECTION = {
    "leaderElect": True,
    "leaseDuration": "3s",
    "renewDeadline": "2s",
    "retryPeriod": "500ms",
    "resourceName": "bayplan-test",
}
WEB = spread("web")
_serial = iter(range(10_000))


@pytest.fixture(scope="module")
def kube():
    with start_kube() as cluster:
        yield cluster


@pytest.fixture
async def world(kube, tmp_path):
    world = World(kube, f"live-{next(_serial)}", tmp_path)
    await world.start()
    try:
        yield world
    finally:
        await world.stop()


async def test_pods_are_bound_with_condition_and_event(world):
    await world.nodes(*(node(name) for name in "abc"))
    world.scheduler()
    await world.pods(*(pod(f"p{i}", cpu="1") for i in range(12)))
    pods = await world.all_bound(12)
    assert {"a": 4, "b": 4, "c": 4} == Counter(item["spec"]["nodeName"] for item in pods)
    assert {"True"} == {condition(item).get("status") for item in pods}
    where = (await world.get("p0"))["spec"]["nodeName"]
    note = await world.event("p0", "Scheduled")
    assert f"Successfully assigned <ns>/p0 to {where}" == note


async def test_preemption_spares_what_a_budget_protects(world):
    await world.nodes(node("a"), node("b"))
    low = {"cpu": "4", "grace": 30, "priorityClassName": "low"}
    await world.pods(pod("guarded", **low, nodeName="a"), pod("free", **low, nodeName="b"))
    await world.create(
        POD_DISRUPTION_BUDGETS,
        {
            "metadata": {"name": "budget"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
            "status": {
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
                "observedGeneration": 1,
            },
        },
    )
    world.scheduler()
    await world.pods(pod("urgent", cpu="4", priorityClassName="high"))
    found = await world.until("urgent", lambda p: p["status"].get("nominatedNodeName"))
    assert "b" == found["status"]["nominatedNodeName"]
    victim = await world.until("free", lambda p: p["metadata"].get("deletionTimestamp"))
    assert "PreemptionByScheduler" == condition(victim, "DisruptionTarget")["reason"]
    assert (await world.event("free", "Preempted")).startswith("Preempted by pod ")
    assert "deletionTimestamp" not in (await world.get("guarded"))["metadata"]
    assert not is_bound(await world.get("urgent"))
    await world.delete("free")  # as the kubelet would
    assert ["b"] == await world.bound("urgent")


async def test_a_gated_pod_waits_for_its_gates(world):
    await world.nodes(node("a"))
    world.scheduler()
    await world.pods(pod("gated", schedulingGates=[{"name": "example.com/wait"}]), pod("other"))
    await world.bound("other")
    found = await world.get("gated")
    assert "SchedulingGated" == condition(found)["reason"]
    assert not is_bound(found)
    body = {"spec": {"schedulingGates": None}}
    await world.client.patch(PODS, "gated", body, world.namespace)
    assert ["a"] == await world.bound("gated")


async def test_a_node_added_later_takes_the_pod_that_waits(world):
    await world.nodes(node("small", cpu="1"))
    world.scheduler()
    await world.pods(pod("large", cpu="8"))
    found = await world.until("large", is_unschedulable)
    assert condition(found)["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    await world.nodes(node("large", cpu="16"))
    assert ["large"] == await world.bound("large")


async def test_a_removed_taint_lets_the_pod_in(world):
    taint = {"key": "example.com/closed", "effect": "NoSchedule", "value": "yes"}
    await world.nodes(node("a", taints=[taint]))
    world.scheduler()
    await world.pods(pod("p"))
    found = await world.until("p", is_unschedulable)
    assert "1 node(s) had untolerated taint(s)" in condition(found)["message"]
    await world.client.patch(NODES, "a", {"spec": {"taints": None}})
    assert ["a"] == await world.bound("p")


async def test_delayed_volumes_are_bound_where_the_pod_goes(world):
    await world.nodes(node("a"), node("b"))
    await world.create(
        STORAGE_CLASSES,
        {
            "metadata": {"name": "late"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["b"]}]}
    await world.create(
        PERSISTENT_VOLUMES,
        {
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
            "status": {"phase": "Available"},
        },
    )
    await world.create(
        PERSISTENT_VOLUME_CLAIMS,
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "resources": {"requests": {"storage": "5Gi"}},
            },
            "status": {"phase": "Pending"},
        },
    )
    world.scheduler()
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await world.pods(pod("p", volumes=volumes))
    disk = await world.until("disk", lambda v: v["spec"].get("claimRef"), PERSISTENT_VOLUMES)
    assert "data" == disk["spec"]["claimRef"]["name"]
    assert not is_bound(await world.get("p"))
    await complete_binding(world, "data", "disk")
    assert ["b"] == await world.bound("p")


async def complete_binding(world, claim, volume):
    """What the volume controller does once the scheduler has chosen a volume."""
    client, completed = world.client, {"pv.kubernetes.io/bind-completed": "yes"}
    body = {"metadata": {"annotations": completed}, "spec": {"volumeName": volume}}
    await client.patch(PERSISTENT_VOLUME_CLAIMS, claim, body, world.namespace)
    phase = {"status": {"phase": "Bound"}}
    await client.patch(PERSISTENT_VOLUMES, volume, phase, subresource="status")
    await client.patch(
        PERSISTENT_VOLUME_CLAIMS, claim, phase, world.namespace, subresource="status"
    )


async def test_spread_stays_even_while_pods_come_and_go(world):
    zones = ("one", "two", "three")
    await world.nodes(*(node(f"{zone}-{i}", zone=zone) for zone in zones for i in range(2)))
    world.scheduler()
    draw = random.Random(4)
    names = [f"p{i}" for i in range(30)]
    await world.pods(*(pod(name, app="web", topologySpreadConstraints=WEB) for name in names))
    for turn in range(4):
        pods = await world.all_bound(30)
        placed = Counter(item["spec"]["nodeName"].split("-")[0] for item in pods)
        assert dict.fromkeys(zones, 10) == placed
        gone = draw.sample(names, 9)
        await world.delete(*gone)
        names = [name for name in names if name not in gone] + [f"t{turn}-{i}" for i in range(9)]
        await world.pods(
            *(pod(name, app="web", topologySpreadConstraints=WEB) for name in names[-9:])
        )


async def test_a_pods_profile_decides_and_unknown_ones_are_left_alone(world):
    fit = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}}
    config = world.config(
        profiles=[
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "packer",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}],
                "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
            },
        ]
    )
    await world.nodes(node("a"), node("b"))
    world.scheduler(config=config)
    await world.pods(pod("first", cpu="2", nodeName="a"))
    await world.pods(
        pod("elsewhere", schedulerName="somebody-else"),
        pod("packed", cpu="500m", schedulerName="packer"),
    )
    assert ["a"] == await world.bound("packed")
    await world.pods(pod("spread", cpu="500m"))
    assert ["b"] == await world.bound("spread")
    left = await world.get("elsewhere")
    assert not is_bound(left)
    assert {} == condition(left)
    assert [] == await world.events("elsewhere")


async def holder(world):
    return (await lease(world)).get("holderIdentity", "")


async def lease(world):
    found = msgspec.json.decode(await world.client.get(LEASES, "bayplan-test", "kube-system"))
    return found["spec"]


async def renewed(world, times):
    """Wait until the lease has been renewed so often."""
    seen = {(await lease(world)).get("renewTime")}
    async with asyncio.timeout(60):
        while len(seen) <= times:
            seen.add((await lease(world)).get("renewTime"))
            await asyncio.sleep(0.05)


async def test_the_standby_takes_over_from_a_leader_that_died(world):
    await world.nodes(node("a"))
    config = world.config(election=ELECTION)
    leader = world.scheduler(config=config)
    await world.pods(pod("one"))
    await world.bound("one")
    before = await holder(world)
    standby = world.scheduler(config=config)
    async with asyncio.timeout(60):
        while "attempting to acquire" not in standby.log.read_text():
            await asyncio.sleep(0.05)
    await renewed(world, 3)  # each time the standby could have taken it
    assert before == await holder(world)
    leader.kill()
    await world.pods(pod("two"))
    assert ["a"] == await world.bound("two")
    assert before != await holder(world)
    assert standby.running


async def test_a_leader_that_was_paused_gives_up_instead_of_binding_too(world):
    await world.nodes(node("a"))
    config = world.config(election=ELECTION)
    leader = world.scheduler(config=config)
    await world.pods(pod("one"))
    await world.bound("one")
    world.scheduler(config=config)
    freeze(leader)
    try:
        await world.pods(pod("two"))
        await world.bound("two")
    finally:
        thaw(leader)
    assert 1 == await asyncio.to_thread(leader.wait, 15)
    await world.pods(pod("three"))
    await world.bound("three")


async def test_nothing_is_lost_when_the_api_server_restarts(world):
    await world.nodes(*(node(f"n{i}") for i in range(20)))
    await world.pods(*(pod(f"p{i}") for i in range(400)))
    scheduler = world.scheduler()
    while sum(map(is_bound, await world.all_pods())) < 20:
        await asyncio.sleep(0.02)
    await asyncio.to_thread(world.cluster.restart_apiserver, kill=True)
    await world.all_bound(400, timeout=60)
    await world.nodes(node("new", cpu="64"))
    await world.pods(pod("after", cpu="32"))
    assert ["new"] == await world.bound("after")
    assert scheduler.running


async def replace_some(world, draw, names, turn):
    """Delete 15 of the pods and a node without pods; create as many pods and a node."""
    used = {item["spec"].get("nodeName") for item in await world.all_pods()}
    there = msgspec.json.decode(await world.client.list(NODES))["items"]
    free = sorted({item["metadata"]["name"] for item in there} - used)
    if free:
        await world.delete(free[-1], resource=NODES)
    gone = draw.sample(sorted(names), 15)
    await world.delete(*gone)
    fresh = [f"x{turn}-{i}" for i in range(15)]
    await world.pods(*(pod(name, app="storm") for name in fresh))
    await world.nodes(node(f"late{turn}", cpu="1"))
    return (names - set(gone)) | set(fresh)


@pytest.mark.timeout(600)
async def test_two_thousand_pods_through_random_faults(world):
    """A network that breaks, schedulers that die, nodes and pods that vanish."""
    draw = random.Random(7)
    await world.nodes(*(node(f"n{i}", cpu="1") for i in range(210)))
    names = {f"p{i}" for i in range(2000)}
    await world.pods(*(pod(name, app="storm") for name in sorted(names)))
    async with UnreliableProxy(world.cluster.server, seed=7) as proxy:
        config = world.config(server=proxy.url)
        scheduler = world.scheduler(config=config)
        for turn in range(6):
            await proxy.used_by(8)
            await asyncio.sleep(draw.uniform(0.5, 2.0))
            proxy.cut(0.3)
            names = await replace_some(world, draw, names, turn)
            proxy.cut(0.3)
            if turn in (1, 4):
                scheduler.kill()
                scheduler = world.scheduler(config=config)
        proxy.calm()
        pods = await world.all_bound(2000, timeout=300)
        assert proxy.broken > 10
    assert names == {item["metadata"]["name"] for item in pods}
    assert max(Counter(item["spec"]["nodeName"] for item in pods).values()) <= 10
