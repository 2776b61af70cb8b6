"""`bayplan explain pod NAME`, asked through the API server of a local cluster."""

import asyncio
import json

import msgspec
from click.testing import CliRunner

from bayplan.apiserver.serving import Settings
from bayplan.cli.explain import command
from bayplan.client.resources import NODES, PODS
from bayplan.config.gates import DEFAULT_GATES
from bayplan.config.load import default_config
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.cluster import local_cluster


def node(name, cpu, **spec):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"capacity": room}}


def pod(name, cpu):
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def until(client, name, condition):
    async with asyncio.timeout(20):
        while not condition(msgspec.json.decode(await client.get(PODS, name, "default"))):
            await asyncio.sleep(0.05)


async def test_a_pending_and_a_placed_pod_are_explained(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    settings = Settings(store="memory", kubeconfig_out=kubeconfig)

    async def explain(*words):
        arguments = ["pod", *words, "--kubeconfig", str(kubeconfig)]
        return await asyncio.to_thread(CliRunner().invoke, command, arguments)

    async with local_cluster(
        settings,
        config=default_config(),
        gates=DEFAULT_GATES,
        registry=in_tree_registry(),
        controllers="",
    ) as cluster:
        client = cluster.client
        for name, cpu in (("small", "1"), ("smaller", "1"), ("closed", "64")):
            await client.create(NODES, node(name, cpu, unschedulable=name == "closed"))
        await client.create(PODS, pod("fits", "500m"), "default")
        await client.create(PODS, pod("big", "4"), "default")
        await until(client, "fits", lambda p: p["spec"].get("nodeName"))
        await until(client, "big", lambda p: p["status"].get("conditions"))
        pending = await explain("big")
        placed = await explain("fits", "-o", "json")
        wide = await explain("fits", "-o", "wide")
        as_yaml = await explain("big", "-o", "yaml")
        unknown = await explain("nobody", "--scheduler", "https://127.0.0.1:1")

    assert 0 == pending.exit_code, pending.output
    assert "2  Insufficient cpu (NodeResourcesFit)" in pending.output
    assert "1  node(s) were unschedulable (NodeUnschedulable)" in pending.output
    assert "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu." in (
        pending.output
    )
    found = json.loads(placed.output)
    assert found["node"] in ("small", "smaller")
    assert 3 == sum(verdict["nodes"] for verdict in found["attempt"]["verdicts"])
    assert f"{found['node']} *" in wide.output
    assert "History:" in wide.output
    assert "pod: default/big" in as_yaml.output
    assert "does not know it" in str(unknown.exception)
