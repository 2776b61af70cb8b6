"""A rolling update ends as predicted: carried out by the real controllers and scheduler.

The test plays the kubelet: a pod with a node becomes ready.
"""

import asyncio

import pytest

from bayplan.client.resources import DEPLOYMENTS, PODS
from tests.kube.controlled import (
    NAMESPACE,
    ask,
    controlled,
    deployment,
    eventually,
    has_account,
    marks,
    run,
)
from tests.kube.world import condition, is_bound, is_unschedulable, node

pytestmark = marks("kube-whatif")
CONTROLLERS = "deployment-controller,replicaset-controller"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def kubelet(world):
    """Make every pod with a node ready."""
    while True:
        for item in await world.all_pods():
            if is_bound(item) and not condition(item, "Ready"):
                name, body = item["metadata"]["name"], {"status": READY}
                await world.client.patch(
                    PODS, name, body, NAMESPACE, subresource="status", kind="strategic"
                )
        await asyncio.sleep(0.1)


async def counts(world):
    pods = [p for p in await world.all_pods() if not p["metadata"].get("deletionTimestamp")]
    bound = sum(map(is_bound, pods))
    return bound, len(pods) - bound


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        {"type": "RollingUpdate"},
        {"type": "Recreate"},
    ],
    ids=["unavailable", "surge", "defaults", "recreate"],
)
async def test_an_update_ends_as_predicted(strategy, tmp_path):
    async with controlled(tmp_path, CONTROLLERS, node("a", cpu="4")) as world:
        await eventually(lambda: has_account(world), "there is no default account")
        body = deployment("web", cpu="1", replicas=4)
        body["spec"]["strategy"] = strategy
        await world.client.create(DEPLOYMENTS, body, NAMESPACE)
        playing = asyncio.create_task(kubelet(world))

        async def four():
            held = await world.get("web", DEPLOYMENTS)
            return held["status"].get("availableReplicas") == 4

        try:
            await eventually(four, "the deployment does not come up")
            found = (await asyncio.to_thread(ask, world)).what_if("request=deployment/web=cpu=3")
            for command in found.commands:
                await asyncio.to_thread(run, world, command)
            expected = (found.after.running, found.after.pending)

            async def rests():
                held = await world.get("web", DEPLOYMENTS)
                seen = held["status"].get("observedGeneration") == held["metadata"]["generation"]
                pods = await world.all_pods()
                decided = all(is_bound(item) or is_unschedulable(item) for item in pods)
                return seen and decided and expected == await counts(world)

            await eventually(rests, f"predicted {expected}, and it is {await counts(world)}")
        finally:
            playing.cancel()
