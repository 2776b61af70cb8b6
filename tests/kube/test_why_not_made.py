"""`why` where pods are not made, or nobody places them, beside the real controllers.

kube-apiserver refuses pods for want of quota, of a service account or of a priority class; the real
replica set controller says so in events. Those words must be in the answer, and the change that it
suggests, made with its own commands, must end with a pod that the real scheduler binds.
"""

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager

import msgspec
import pytest

from bayplan.client.resources import CORE_EVENTS, DEPLOYMENTS, Resource
from bayplan.inspect import Cluster
from bayplan.inspect.why import why_owner
from bayplan.testing.servers import kube_assets, start_kube
from tests.kube.world import World, is_bound, node, pod

ASSETS = kube_assets()
pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(
        ASSETS is None or not (ASSETS / "kube-controller-manager").exists(), reason="not built"
    ),
    pytest.mark.xdist_group("kube-why"),
    pytest.mark.timeout(300),
]
NAMESPACE = "made"
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CONTROLLERS = "deployment-controller,replicaset-controller,resourcequota-controller"
PATIENCE = 90


def deployment(name, cpu="100m", replicas=1, **spec):
    labels = {"app": name}
    template = pod(name, cpu=cpu, **spec)
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


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


@asynccontextmanager
async def controlled(folder, controllers, *nodes):
    """A real cluster with real controllers and scheduler."""
    with start_kube(folder, accounts=True) as cluster:
        made = World(cluster, NAMESPACE, folder)
        cluster.start(
            [
                str(cluster.assets / "kube-controller-manager"),
                f"--kubeconfig={cluster.kubeconfig}",
                f"--controllers={controllers},serviceaccount-controller",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            "controller-manager.log",
        )
        await made.start()
        await made.nodes(*nodes)
        made.scheduler("kube-scheduler")
        try:
            yield made
        finally:
            await made.stop()


@pytest.fixture
async def world(tmp_path):
    async with controlled(tmp_path, CONTROLLERS, node("a", cpu="8"), node("b", cpu="8")) as made:
        yield made


async def eventually(found, what):
    try:
        async with asyncio.timeout(PATIENCE):
            while not (value := await found()):
                await asyncio.sleep(0.2)
            return value
    except TimeoutError:
        raise AssertionError(what) from None


def ask(world):
    found = Cluster.from_kubeconfig(world.cluster.kubeconfig)
    origin = msgspec.structs.replace(found.origin, namespace=NAMESPACE)
    return Cluster(found.objects, origin=origin, settings=found.settings)


def run(world, command):
    env = {**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig)}
    env["PATH"] = f"{world.cluster.assets}:{env['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, f"{command}\n{done.stderr}"


async def refusals(world):
    """Owners of which a FailedCreate event was written."""
    listed = msgspec.json.decode(await world.client.list(CORE_EVENTS, NAMESPACE))["items"]
    names = {e["involvedObject"]["name"] for e in listed if e["reason"] == "FailedCreate"}
    return {name for name in OWNERS if any(found.startswith(name) for found in names)}


async def bound_of(world, name):
    pods = [p for p in await world.all_pods() if p["metadata"]["labels"]["app"] == name]
    return [p["spec"]["nodeName"] for p in pods if is_bound(p)]


async def test_owners_without_pods_say_what_the_controllers_say_and_what_helps(world):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "1"}}}
    await world.client.create(QUOTAS, quota, NAMESPACE)

    async def counted():
        return (await world.get("small", QUOTAS))["status"].get("hard")

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
    await eventually(lambda: _has_account(world), "there is no default account")
    await world.pods(pod("orphan", schedulerName="nobodys-scheduler"))

    answer = (await asyncio.to_thread(ask, world)).why("orphan")

    assert "otherScheduler" == answer.state
    assert 'the scheduler "nobodys-scheduler"; nothing was heard of it' in answer.summary
    (fix,) = answer.fixes
    for command in fix.commands:
        await asyncio.to_thread(run, world, command)
    (where,) = await world.bound("orphan")
    assert where in (fix.node, *fix.equals)


async def _has_account(world):
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    return msgspec.json.decode(await world.client.request("GET", path))["items"]
