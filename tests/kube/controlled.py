"""A real cluster with real controllers and scheduler, and what tests of answers do with it."""

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager

import msgspec
import pytest

from bayplan.inspect import Cluster
from bayplan.testing.servers import kube_assets, start_kube
from tests.kube.world import World, is_bound, pod

NAMESPACE = "made"
PATIENCE = 90


def marks(group, seconds=300):
    """The marks of a module whose tests need it."""
    assets = kube_assets()
    missing = assets is None or not (assets / "kube-controller-manager").exists()
    return [
        pytest.mark.kube,
        pytest.mark.skipif(missing, reason="not built"),
        pytest.mark.xdist_group(group),
        pytest.mark.timeout(seconds),
    ]


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


async def bound_of(world, name):
    pods = [p for p in await world.all_pods() if p["metadata"]["labels"]["app"] == name]
    return [p["spec"]["nodeName"] for p in pods if is_bound(p)]


async def has_account(world):
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    return msgspec.json.decode(await world.client.request("GET", path))["items"]
