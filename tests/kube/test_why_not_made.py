"""`why` where pods are not made, or nobody places them, beside the real controllers.

kube-apiserver refuses pods for want of quota, of a service account or of a priority class; the real
replica set controller says so in events. Those words must be in the answer, and the change that it
suggests, made with its own commands, must end with a pod that the real scheduler binds.
"""

import asyncio

import msgspec
import pytest

from bayplan.client.resources import CORE_EVENTS, DEPLOYMENTS, RESOURCE_QUOTAS
from bayplan.inspect.why import why_owner
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
from tests.kube.world import node, pod

pytestmark = marks("kube-why")
CONTROLLERS = "deployment-controller,replicaset-controller,resourcequota-controller"


# each asks for exactly what it needs, so the one that needs least comes first
OWNERS = {
    "half-quota": (
        deployment("half-quota", cpu="600m", replicas=2),
        "exceeded quota: small",
        "raise the quota",
    ),
    "over-quota": (deployment("over-quota", cpu="2"), "exceeded quota: small", "raise the quota"),
    "no-account": (
        deployment("no-account", serviceAccountName="robot"),
        'serviceaccount "robot" not found',
        'create the service account "robot"',
    ),
    "no-class": (
        deployment("no-class", priorityClassName="hihg"),
        "no PriorityClass with name hihg was found",
        'use the priority class "high"',
    ),
}


@pytest.fixture
async def world(tmp_path):
    async with controlled(tmp_path, CONTROLLERS, node("a", cpu="8"), node("b", cpu="8")) as made:
        yield made


async def refusals(world):
    """Owners of which a FailedCreate event was written."""
    listed = msgspec.json.decode(await world.client.list(CORE_EVENTS, NAMESPACE))["items"]
    names = {e["involvedObject"]["name"] for e in listed if e["reason"] == "FailedCreate"}
    return {name for name in OWNERS if any(found.startswith(name) for found in names)}


async def test_owners_without_pods_say_what_the_controllers_say_and_what_helps(world):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "1"}}}
    await world.client.create(RESOURCE_QUOTAS, quota, NAMESPACE)

    async def counted():
        return (await world.get("small", RESOURCE_QUOTAS))["status"].get("hard")

    await eventually(counted, "the quota is not counted")
    for body, _, _ in OWNERS.values():
        await world.client.create(DEPLOYMENTS, body, NAMESPACE)

    async def all_refused():
        return await refusals(world) == set(OWNERS)

    await eventually(all_refused, "not every owner was refused")

    for name, (_, said, helps) in OWNERS.items():
        before = len(await bound_of(world, name))
        cluster = await asyncio.to_thread(ask, world)
        found = why_owner(cluster, cluster.owner("deployment", name))
        assert any("could not make a pod" in note and said in note for note in found.notes), found
        (fix, *_) = [f for f in found.pods[-1].fixes if helps in f.change]
        assert fix.node in ("a", "b")
        for command in fix.commands:
            await asyncio.to_thread(run, world, command)

        async def one_more(name=name, before=before):
            return len(await bound_of(world, name)) > before

        await eventually(one_more, f"{name}: {fix.change} did not help")


async def test_a_scheduler_that_nobody_runs_is_named_and_another_takes_the_pod(world):
    await eventually(lambda: has_account(world), "there is no default account")
    await world.pods(pod("orphan", schedulerName="nobodys-scheduler"))

    answer = (await asyncio.to_thread(ask, world)).why("orphan")

    assert "otherScheduler" == answer.state
    assert 'the scheduler "nobodys-scheduler"; nothing was heard of it' in answer.summary
    (fix,) = answer.fixes
    for command in fix.commands:
        await asyncio.to_thread(run, world, command)
    (where,) = await world.bound("orphan")
    assert where in (fix.node, *fix.equals)
