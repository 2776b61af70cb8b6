"""`why` against the real kube-apiserver and kube-scheduler: its sentence, and changes that help.

More than 200 pods of every family wait. Our sentence about each must be the one in its condition,
letter by letter. Then every change that is suggested for one pod of each family is carried out with
the commands that the answer gives, and the real scheduler must bind the pod where it was promised.
"""

import asyncio
import os
import subprocess
from contextlib import suppress

import msgspec
import pytest

from bayplan.client import NotFound
from bayplan.client.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PRIORITY_CLASSES,
    RESOURCE_SLICES,
)
from bayplan.inspect import Cluster
from bayplan.testing.servers import start_kube
from tests.kube.pending_families import VARIANTS, families, nodes, placed, volumes
from tests.kube.world import World, condition, is_bound

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube-why"),
    pytest.mark.timeout(900),
]
NAMESPACE = "why"


@pytest.fixture
def control_plane(tmp_path_factory):
    """A cluster for each test: what one leaves behind would change the other's sentences."""
    cluster = start_kube(tmp_path_factory.mktemp("kube-why"))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
async def world(control_plane, tmp_path):
    made = World(control_plane, NAMESPACE, tmp_path)
    await made.start()
    never = {"metadata": {"name": "high-never"}, "value": 900, "preemptionPolicy": "Never"}
    await made.client.create(PRIORITY_CLASSES, never)
    await made.nodes(*nodes())
    for resource, body in volumes(NAMESPACE):
        await made.create(resource, body)
    for body in placed():  # one after the other: their order on a node is the scheduler's
        await made.pods(body)
    try:
        yield made
    finally:
        await made.stop()


def ask(world):
    """The cluster as a user would read it."""
    found = Cluster.from_kubeconfig(world.cluster.kubeconfig)
    origin = msgspec.structs.replace(found.origin, namespace=NAMESPACE)
    return Cluster(found.objects, origin=origin, settings=found.settings)


async def spoken(world, *names):
    """Wait until the scheduler or the API server has said something about pods."""
    for name in names:
        await world.until(name, lambda item: condition(item).get("message"))


async def test_the_sentence_is_the_schedulers_for_every_pod(world):
    world.scheduler("kube-scheduler")
    bodies = [body for i in range(VARIANTS) for body in families(i).values()]
    names = [body["metadata"]["name"] for body in bodies]
    await world.pods(*bodies)
    await spoken(world, *names)

    found = await asyncio.to_thread(lambda: ask(world).why_pending(NAMESPACE))

    assert len(names) >= 200
    assert len(names) == found.count
    differ = [(a.pod, a.message, a.observed) for a in found.pods if not a.identical]
    assert [] == differ
    assert all(sum(row.nodes for row in a.funnel) == a.nodes for a in found.pods)
    silent = {row.plugin for a in found.pods for row in a.funnel if not row.facts}
    assert set() == silent


class Hand:
    """Carries out suggested changes with kubectl, and takes them back."""

    def __init__(self, world):
        self.world = world
        self._nodes = {body["metadata"]["name"]: body for body in nodes()}
        self._placed = {body["metadata"]["name"]: body for body in placed()}
        self._stored = {body["metadata"]["name"]: body for _, body in volumes(NAMESPACE)}

    async def make(self, fix):
        for body in () if fix.commands else fix.objects:
            if body["kind"] == "Node":
                await self.world.nodes(body)
            else:
                await self.world.create(MADE_WITH_NODES[body["kind"]], body)
        for command in fix.commands:
            await asyncio.to_thread(self._run, command)
        await self.provision()
        await self.bind_volumes()

    async def provision(self):
        """What a provisioner does: make volumes for new claims of a class that is bound at once."""
        for claim in await self._listed(PERSISTENT_VOLUME_CLAIMS):
            name, spec = claim["metadata"]["name"], claim["spec"]
            kind = self._stored.get(spec.get("storageClassName", ""))
            if name in self._stored or kind is None or kind["volumeBindingMode"] != "Immediate":
                continue
            made = {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"],
                "claimRef": {"name": name, "namespace": NAMESPACE},
                "csi": {"driver": kind["provisioner"], "volumeHandle": name},
            }
            body = {"metadata": {"name": f"for-{name}"}, "spec": made}
            await self.world.create(PERSISTENT_VOLUMES, body)

    async def bind_volumes(self):
        """What the volume controller does: bind claims to the volumes that were made for them."""
        client = self.world.client
        for volume in await self._listed(PERSISTENT_VOLUMES):
            ref = volume["spec"].get("claimRef")
            if not volume["metadata"]["name"].startswith("for-") or ref is None:
                continue
            name = volume["metadata"]["name"]
            claim = await self.world.get(ref["name"], PERSISTENT_VOLUME_CLAIMS)
            ref["uid"] = claim["metadata"]["uid"]
            await client.patch(PERSISTENT_VOLUMES, name, {"spec": {"claimRef": ref}})
            patch = {
                "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": name},
            }
            await client.patch(PERSISTENT_VOLUME_CLAIMS, ref["name"], patch, NAMESPACE)

    async def _listed(self, resource):
        namespace = NAMESPACE if resource.namespaced else ""
        return msgspec.json.decode(await self.world.client.list(resource, namespace))["items"]

    async def _renew(self, resource, body):
        """Delete an object whatever protects it, and make it again as it was."""
        await self._remove(resource, body["metadata"]["name"])
        await self.world.create(resource, body)

    async def _remove(self, resource, name):
        namespace = NAMESPACE if resource.namespaced else ""
        client = self.world.client
        await client.delete(resource, name, namespace)
        with suppress(NotFound):
            await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)

    def _run(self, command):
        folder = str(self.world.cluster.assets)
        env = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.world.cluster.kubeconfig),
        }
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert 0 == done.returncode, f"{command}\n{done.stderr}"

    async def pend(self, body):
        """Make a pod that waits; one that met the cluster before it was restored is made again."""
        name = body["metadata"]["name"]
        async with asyncio.timeout(60):
            while True:
                await self.world.pods(body)
                await self.world.until(name, lambda item: condition(item).get("status"))
                if not is_bound(await self.world.get(name)):
                    return
                await self.world._remove_pod(name)

    async def take_back(self, pod):
        world = self.world
        await world._remove_pod(pod)
        known = {item["metadata"]["name"] for item in await world.all_pods()}
        for name, body in self._placed.items():
            if name not in known:
                await world.pods(body)
        await self._take_back_others()
        for item in await self._listed(NODES):
            name = item["metadata"]["name"]
            wanted = self._nodes.get(name)
            if wanted is None:
                await world.delete(name, resource=NODES)
                continue
            same = (
                item["metadata"]["labels"] == wanted["metadata"]["labels"]
                and _taints(item) == _taints(wanted)
                and item["spec"].get("unschedulable") == wanted["spec"].get("unschedulable")
            )
            if not same:
                # in place: a node that comes back would come last in the scheduler's list
                labels = dict.fromkeys(item["metadata"]["labels"])
                patch = {
                    "metadata": {"labels": labels | wanted["metadata"]["labels"]},
                    "spec": {
                        "taints": wanted["spec"].get("taints"),
                        "unschedulable": wanted["spec"].get("unschedulable"),
                    },
                }
                await world.client.patch(NODES, name, patch)

    async def _take_back_others(self):
        """Claims that were bound or allocated, and what was created for a pod or with a node."""
        for resource in (PERSISTENT_VOLUMES, *MADE_WITH_NODES.values()):
            for item in await self._listed(resource):
                name = item["metadata"]["name"]
                if name.startswith(("for-", "new-node")):
                    await self._remove(resource, name)
        for item in await self._listed(PERSISTENT_VOLUME_CLAIMS):
            if item["metadata"]["name"] not in self._stored:
                await self._remove(PERSISTENT_VOLUME_CLAIMS, item["metadata"]["name"])
        for resource, body in volumes(NAMESPACE):
            if body["metadata"]["name"] in ("unbound", "waiting", "devices"):
                await self._renew(resource, body)


def _taints(item):
    listed = item["spec"].get("taints", ())
    return {(t["key"], t.get("value", ""), t["effect"]) for t in listed
            if t["key"] != "node.kubernetes.io/unschedulable"}  # fmt: skip


MADE_WITH_NODES = {"ResourceSlice": RESOURCE_SLICES}
FIXABLE = sorted(families(0))
"""Families that a change can help."""


async def test_every_suggested_change_makes_the_real_scheduler_bind_the_pod(world):
    world.scheduler("kube-scheduler")
    hand = Hand(world)
    problems, made, without = [], 0, []
    for family in FIXABLE:
        body = families(1)[family]
        name = body["metadata"]["name"]
        await hand.pend(body)
        answer = await asyncio.to_thread(lambda name=name: ask(world).why(name))
        if not answer.fixes:
            without.append(family)
        for fix in answer.fixes:
            await hand.make(fix)
            made += 1
            try:
                found = await world.until(name, is_bound, timeout=60)
                # preemption among equal victims hangs on the order of nodes too
                preempts = bool(fix.removes and fix.patch)
                if found["spec"]["nodeName"] not in (fix.node, *fix.equals) and not preempts:
                    problems.append((family, fix, found["spec"]["nodeName"]))
            except AssertionError as problem:
                problems.append((family, fix, str(problem)[-600:]))
            await hand.take_back(name)
            await hand.pend(body)
        await world._remove_pod(name)

    assert not problems, problems
    assert [] == without
    assert made >= 50
