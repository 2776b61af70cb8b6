"""The real kubectl drives workloads on the embedded API server with its controllers."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from bayplan.apiserver.serving import Settings, running
from bayplan.client import AsgiTransport, Client
from bayplan.controllers.manager import ControllerManager, select
from tests.controllers.cluster import Binder, Cluster

KUBECTL = shutil.which("kubectl")
pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl here"),
]
Kubectl = Callable[..., Awaitable[str]]


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """A function that runs kubectl on a cluster of two simulated nodes."""
    config = tmp_path / "kubeconfig"
    settings = Settings(store="memory", kubeconfig_out=config)
    async with running(settings) as served:
        client = Client(AsgiTransport(served.server, token=served.token))
        manager = ControllerManager(client, select("*"))
        binder = Binder(client)
        work = (binder.pods.run(), binder.nodes.run(), binder.run())
        tasks = [asyncio.create_task(item) for item in work]
        async with manager.running():
            cluster = Cluster(client, served.server, manager)
            for number in range(2):
                await cluster.node(f"node-{number}")
            yield lambda *words: _run(config, *words)
            assert {} == manager.failures
            assert {} == manager.kit.errors
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.transport.close()


async def _run(config: Path, *words: str) -> str:
    assert KUBECTL is not None
    cache = str(config.parent / "cache")
    command = [KUBECTL, "--kubeconfig", str(config), "--cache-dir", cache, *words]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await asyncio.wait_for(process.communicate(), 150)
    assert 0 == process.returncode, f"{words}: {error.decode()}"
    return out.decode()


async def test_a_rollout_from_creation_to_deletion(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=one", "--replicas=3")
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    await kubectl("set", "image", "deployment/web", "one=two")
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    pods = json.loads(await kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert {"two"} == {pod["spec"]["containers"][0]["image"] for pod in live}

    await kubectl("rollout", "undo", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    history = await kubectl("rollout", "history", "deployment/web")
    assert ["2", "3"] == [line.split()[0] for line in history.splitlines()[2:] if line]
    await kubectl("scale", "deployment/web", "--replicas=1")
    await kubectl("wait", "--for=jsonpath={.status.readyReplicas}=1", "deployment/web")
    await kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=120s")
    assert "" == await kubectl("get", "replicasets,pods", "-o", "name")


async def test_drain_moves_pods_and_namespaces_go(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("-n", "team", "create", "deployment", "web", "--image=one", "--replicas=2")
    await kubectl("-n", "team", "create", "pdb", "web", "--selector=app=web", "--min-available=1")
    await kubectl("-n", "team", "rollout", "status", "deployment/web", "--timeout=120s")
    await kubectl("drain", "node-0", "--timeout=120s")
    places = await kubectl("-n", "team", "get", "pods", "-o", "jsonpath={..spec.nodeName}")
    assert {"node-1"} == set(places.split())
    assert "SchedulingDisabled" in await kubectl("get", "nodes")

    await kubectl("create", "job", "sum", "--image=one", "--", "true")
    await kubectl("wait", "--for=condition=complete", "job/sum", "--timeout=120s")
    await kubectl("delete", "namespace", "team", "--timeout=120s")
    assert "" == await kubectl("-n", "team", "get", "all", "-o", "name")
