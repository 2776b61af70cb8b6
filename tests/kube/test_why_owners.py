"""Changes of owned pods, and moves, made with the commands of the answer beside real controllers.

Whatever owns the pod that waits, the suggested commands must end with a pod of that owner that the
real scheduler binds; a pod that is moved must not come straight back.
"""

import asyncio

import pytest

from bayplan.client.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from tests.kube.controlled import (
    NAMESPACE,
    ask,
    bound_of,
    controlled,
    deployment,
    eventually,
    has_account,
    marks,
    run,
)
from tests.kube.world import is_bound, is_unschedulable, node, pod

pytestmark = marks("kube-why", 400)
CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in (
        "deployment",
        "replicaset",
        "replicationcontroller",
        "statefulset",
        "daemonset",
        "job",
        "garbage-collector",
    )
)


def body(name, **changes):
    """An owner whose pods ask for more than a node has."""
    made = deployment(name, cpu="9")
    made["spec"] |= changes
    return made


def job(name):
    made = body(name, completions=1)
    del made["spec"]["replicas"], made["spec"]["selector"]
    made["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return made


def daemons(name, **update):
    made = body(name, updateStrategy=update)
    del made["spec"]["replicas"]
    return made


PARTITION = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
OWNERS = {
    "dep": (DEPLOYMENTS, body("dep")),
    "paused": (DEPLOYMENTS, body("paused")),
    "set": (REPLICA_SETS, body("set")),
    "rc": (REPLICATION_CONTROLLERS, body("rc", selector={"app": "rc"})),
    "db": (STATEFUL_SETS, body("db", serviceName="db")),
    "part": (STATEFUL_SETS, body("part", serviceName="part", updateStrategy=PARTITION)),
    "night": (JOBS, job("night")),
    "log": (DAEMON_SETS, daemons("log", type="RollingUpdate")),
    "kept": (DAEMON_SETS, daemons("kept", type="OnDelete")),
}


@pytest.fixture
async def world(tmp_path):
    async with controlled(tmp_path, CONTROLLERS, node("a", cpu="8"), node("b", cpu="4")) as made:
        await eventually(lambda: has_account(made), "there is no default account")
        yield made


async def pods_of(world, name):
    return [p for p in await world.all_pods() if p["metadata"]["labels"].get("app") == name]


async def waiting(world, name):
    """A pod of an owner that waits, for node a if it is for one."""
    for found in await pods_of(world, name):
        pinned = "matchFields" in str(found["spec"].get("affinity"))
        if is_unschedulable(found) and (not pinned or "['a']" in str(found["spec"]["affinity"])):
            return found
    return None


async def test_the_owner_makes_a_pod_that_the_scheduler_binds(world):
    for name, (resource, made) in OWNERS.items():
        await world.client.create(resource, made, NAMESPACE)
        found = await eventually(lambda n=name: waiting(world, n), f"{name}: nothing waits")
        if name == "paused":
            await world.client.patch(resource, name, {"spec": {"paused": True}}, NAMESPACE)
        cluster = await asyncio.to_thread(ask, world)
        answer = cluster.why(found["metadata"]["name"])
        assert answer.identical, (name, answer)
        (fix,) = [f for f in answer.fixes if f.change.startswith("lower the cpu request")]
        assert "a" == fix.node
        for command in fix.commands:
            await asyncio.to_thread(run, world, command)

        placed = await eventually(lambda n=name: bound_of(world, n), f"{name}: {fix} did not help")

        assert ["a"] == placed, name
        kind = resource.kind.lower()
        await asyncio.to_thread(run, world, f"kubectl delete {kind} -n {NAMESPACE} {name}")

        async def gone(name=name):
            return not await pods_of(world, name)

        await eventually(gone, f"pods of {name} stay")


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
async def test_a_moved_pod_does_not_come_back(kind, world):
    """The one that is moved is the more important: it is made again first."""
    high = {"priorityClassName": "high", "terminationGracePeriodSeconds": 0}
    made = deployment("web", cpu="3", **high)
    if kind == "StatefulSet":
        made["spec"]["serviceName"] = "web"
    await world.client.patch(NODES, "b", {"spec": {"unschedulable": True}})
    resource = STATEFUL_SETS if kind == "StatefulSet" else REPLICA_SETS
    await world.client.create(resource, made, NAMESPACE)
    await eventually(lambda: bound_of(world, "web"), "web has no node")
    await world.client.patch(NODES, "b", {"spec": {"unschedulable": None}})
    await world.pods(pod("waits", cpu="6"))
    await world.until("waits", is_unschedulable)

    answer = (await asyncio.to_thread(ask, world)).why("waits")
    (fix,) = [f for f in answer.fixes if f.removes]
    for command in fix.commands:
        await asyncio.to_thread(run, world, command)

    assert f"move {fix.removes[0]} to b, off a; a is cordoned meanwhile" == fix.change
    assert ["a"] == await world.bound("waits")
    (web,) = [p for p in await pods_of(world, "web") if is_bound(p)]
    assert "b" == web["spec"]["nodeName"]
