"""What was predicted is what happens: drains carried out on a real API server and scheduler.

The test plays the user (cordon, evict), the controllers (make pods again, count budgets) and the
kubelet (let pods go when their grace is over), in the order that the real ones keep. The scheduler
and the eviction call, which decide, are the real ones.
"""

import asyncio
from pathlib import Path

import msgspec
import pytest

from bayplan.client.errors import TooManyRequests
from bayplan.client.resources import (
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from bayplan.inspect import Cluster
from bayplan.testing.servers import start_kube
from tests.kube.world import HOST, World, condition, is_bound, is_unschedulable, node, pod, spread

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube-whatif"),
]
TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
ROOM = (
    ("a", "4", "one"),
    ("b", "3", "two"),
    ("c", "4", "three"),
    ("d", "2", "one"),
    ("e", "3", "two"),
)


def settled(item):
    return is_bound(item) or is_unschedulable(item)


class Play:
    """A world with owners, and hands that do what controllers and kubelets do."""

    def __init__(self, world):
        self.world, self.client = world, world.client
        self.owners = {}
        self.budgets = {}
        self.heirs = {}
        """The name that each pod of the beginning has by now."""

    async def owner(self, resource, name, replicas):
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
        template["spec"].pop("terminationGracePeriodSeconds")
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        if resource is STATEFUL_SETS:
            spec["serviceName"] = name
        body = {"metadata": {"name": name}, "spec": spec}
        made = msgspec.json.decode(await self.client.create(resource, body, self.world.namespace))
        self.owners[name] = {
            "apiVersion": "apps/v1",
            "kind": resource.kind,
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }

    async def start(self, name, owner="", **spec):
        body = pod(name, app=owner or name, grace=30, **spec)
        if owner:
            body["metadata"]["ownerReferences"] = [self.owners[owner]]
        await self.world.pods(body)
        await self.run(await self.world.until(name, settled))

    async def run(self, item):
        """The kubelet: a bound pod becomes ready."""
        if is_bound(item):
            ready = [{"type": "Ready", "status": "True"}]
            status = {"phase": "Running", "conditions": ready}
            await self.client.patch(
                PODS,
                item["metadata"]["name"],
                {"status": status},
                self.world.namespace,
                subresource="status",
                kind="strategic",
            )

    async def budget(self, name, app, desired, healthy):
        selector = {"matchLabels": {"app": app}}
        body = {"metadata": {"name": name}, "spec": {"minAvailable": desired, "selector": selector}}
        await self.client.create(POD_DISRUPTION_BUDGETS, body, self.world.namespace)
        self.budgets[name] = (app, desired, healthy)
        await self.count(name, 0)

    async def count(self, name, change):
        """The disruption controller: write how many may go."""
        app, desired, healthy = self.budgets[name]
        healthy += change
        self.budgets[name] = (app, desired, healthy)
        found = await self.world.get(name, POD_DISRUPTION_BUDGETS)
        status = {
            "observedGeneration": found["metadata"]["generation"],
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": 4,
            "disruptionsAllowed": max(healthy - desired, 0),
            "disruptedPods": None,
        }
        await self.client.patch(
            POD_DISRUPTION_BUDGETS,
            name,
            {"status": status},
            self.world.namespace,
            subresource="status",
        )

    async def cordon(self, name):
        patch = {"spec": {"unschedulable": True, "taints": [TAINT]}}
        await self.client.patch(NODES, name, patch)
        for number in range(20):  # until the scheduler has seen it
            probe = f"probe-{name}-{number}"
            await self.world.pods(pod(probe, cpu="0", nodeSelector={HOST: name}))
            found = await self.world.until(probe, settled)
            await self.world.delete(probe)
            if not is_bound(found):
                return
        raise AssertionError(f"{name} is still used")

    async def drain(self, name):
        """Evict in rounds, make pods again, let the old ones go."""
        left = [
            item
            for item in await self.world.all_pods()
            if item["spec"].get("nodeName") == name
            and not item["metadata"].get("deletionTimestamp")
        ]
        left.sort(key=lambda item: item["metadata"]["name"])
        while left:
            going = [item for item in left if await self.evict(item)]
            if not going:
                return
            left = [item for item in left if item not in going]
            await self.replace([i for i in going if self.kind(i) == "ReplicaSet"], "-x")
            for item in going:
                await self.world.delete(item["metadata"]["name"])
            await self.replace([i for i in going if self.kind(i) == "StatefulSet"], "")

    def kind(self, item):
        owners = item["metadata"].get("ownerReferences") or [{"kind": ""}]
        return owners[0]["kind"]

    async def evict(self, item):
        meta = item["metadata"]
        try:
            await self.client.evict(self.world.namespace, meta["name"])
        except TooManyRequests:
            return False
        self.heirs[meta["name"]] = ""
        for name, (app, _, _) in self.budgets.items():
            if meta["labels"]["app"] == app:
                await self.count(name, -1)
        return True

    async def replace(self, going, suffix):
        going.sort(key=lambda item: -item["spec"].get("priority", 0))
        for item in going:
            name = item["metadata"]["name"] + suffix
            spec = {k: v for k, v in item["spec"].items() if k not in ("nodeName", "priority")}
            meta = {key: item["metadata"][key] for key in ("labels", "ownerReferences")}
            await self.world.pods({"metadata": {"name": name, **meta}, "spec": spec})
            found = await self.world.until(name, settled)
            self.heirs[item["metadata"]["name"]] = name
            await self.run(found)
            if is_bound(found):
                for budget, (app, _, _) in self.budgets.items():
                    if meta["labels"]["app"] == app:
                        await self.count(budget, 1)

    async def outcome(self):
        """Where each pod that was told to go is by now, or the scheduler's word on why not."""
        found = {}
        for first, name in self.heirs.items():
            if not name:
                found[first] = ("lost", "")
                continue
            item = await self.world.until(name, settled)
            word = condition(item).get("message", "")
            found[first] = ("runs", item["spec"]["nodeName"]) if is_bound(item) else ("waits", word)
        return found


def predicted(answer):
    short = lambda key: key.rpartition("/")[2]  # noqa: E731
    found = {short(move.pod): ("runs", move.target) for move in answer.moves}
    for item in answer.stuck:
        if item.state == "pending":
            found[short(item.pod)] = ("waits", item.reason)
        elif item.state == "lost":
            found[short(item.pod)] = ("lost", "")
    return found


async def easy(play):
    """Replica sets, a stateful set, a pod without an owner, spread over zones."""
    for name in ("web", "api"):
        await play.owner(REPLICA_SETS, name, 4)
    await play.owner(STATEFUL_SETS, "db", 3)
    for number in range(4):
        await play.start(f"web-{number}", "web", cpu="600m",
                         topologySpreadConstraints=spread("web"))  # fmt: skip
        await play.start(f"api-{number}", "api", cpu="300m")
    for number in range(3):
        await play.start(f"db-{number}", "db", cpu="500m")
    await play.start("naked", cpu="100m")


async def tight(play):
    """Pods that do not fit any more, and some that are small enough."""
    await play.owner(REPLICA_SETS, "big", 7)
    await play.owner(REPLICA_SETS, "small", 4)
    for number in range(7):
        await play.start(f"big-{number}", "big", cpu="1700m")
    for number in range(4):
        await play.start(f"small-{number}", "small", cpu="200m", priorityClassName="high")


async def budgeted(play):
    """A budget lets them go one after the other; another lets none go."""
    await play.owner(REPLICA_SETS, "web", 4)
    await play.owner(REPLICA_SETS, "held", 4)
    for number in range(4):
        await play.start(f"web-{number}", "web", cpu="400m")
        await play.start(f"held-{number}", "held", cpu="100m")
    await play.budget("web", "web", 3, 4)
    await play.budget("held", "held", 4, 4)


async def carry_out(cluster, folder, name, scene, drained):
    world = World(cluster, f"whatif-{name}", folder)
    await world.start()
    try:
        # Nodes come one by one to a scheduler that runs: those that it lists at its start reach
        # it in random order (client-go keeps the first list in a map), and order decides ties.
        world.scheduler("kube-scheduler", world.config(parallelism=1))
        await world.pods(pod("first", cpu="0", nodeSelector={HOST: ROOM[-1][0]}))
        await world.until("first", is_unschedulable)
        await world.nodes(*(node(n, cpu=cpu, zone=zone) for n, cpu, zone in ROOM))
        await world.bound("first")
        await world.delete("first")
        play = Play(world)
        await scene(play)
        seen = await asyncio.to_thread(Cluster.from_kubeconfig, cluster.kubeconfig)
        answer = seen.what_if(f"drain={','.join(drained)}")
        for item in drained:
            await play.cordon(item)
        for item in drained:
            await play.drain(item)
        stayed = {
            item["metadata"]["name"]
            for item in await world.all_pods()
            if item["spec"].get("nodeName") in drained
        }
        return answer, predicted(answer), await play.outcome(), stayed
    finally:
        await world.stop()


@pytest.mark.parametrize(
    ("scene", "drained", "expected"),
    [
        (easy, ["a"], {"runs"}),
        (easy, ["b", "c"], {"runs"}),
        (tight, ["a"], {"waits"}),
        (budgeted, ["a", "b"], {"runs", "stays"}),
    ],
    ids=("easy", "two-nodes", "tight", "budgeted"),
)
def test_a_drain_ends_as_predicted(kube, tmp_path, scene, drained, expected):
    name = f"{scene.__name__}-{'-'.join(drained)}"
    answer, told, happened, stayed = asyncio.run(
        carry_out(kube, Path(tmp_path), name, scene, drained)
    )

    assert told == happened
    assert told, "the scene must put pods on the nodes that are drained"
    blocked = {item.pod.rpartition("/")[2] for item in answer.stuck if item.state == "blocked"}
    assert blocked == stayed
    fine = not stayed and all(state == "runs" for state, _ in happened.values())
    assert answer.ok == fine
    assert expected <= {state for state, _ in happened.values()} | ({"stays"} if stayed else set())


@pytest.fixture(scope="module")
def kube():
    with start_kube() as cluster:
        yield cluster
