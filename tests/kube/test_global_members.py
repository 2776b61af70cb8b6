"""Three real kube-apiservers as members of one global scheduler, whose objects are on a fourth."""

import asyncio
import json
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from bayplan.api import yaml
from bayplan.client import NotFound, connect, load_kubeconfig
from bayplan.client.resources import CUSTOM_KINDS, NODES, PODS
from bayplan.global_scheduler.kinds import ALLOCATIONS
from bayplan.global_scheduler.run import Options, running
from bayplan.testing.servers import start_kube
from tests.global_scheduler.test_members import FLAVORS, node

FOLDER = Path(str(files("bayplan.global_scheduler")))
CORES = (4, 8, 6)

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
]


def configure(conf, kubeconfigs):
    conf.mkdir()
    for name in ("conf.yaml", "edgecloud_policy.yaml"):
        (conf / name).write_bytes((FOLDER / "sample" / name).read_bytes())
    (conf / "sites.json").write_text('{"sites": []}')
    (conf / "site_nodes.json").write_text('{"site_nodes": []}')
    (conf / "flavors.json").write_text(json.dumps(FLAVORS))
    members = [
        {
            "name": f"m{number}",
            "region": "east",
            "availability_zone": f"z{number}",
            "kubeconfig": str(kubeconfig),
        }
        for number, kubeconfig in enumerate(kubeconfigs)
    ]
    (conf / "members.yaml").write_text(yaml.dump({"members": members}))


def allocation(name):
    """A pod, since no controller runs in the members."""
    resource = {"name": "r", "flavors": [{"flavor_id": "k2"}]}
    requests = {"requests": {"cpu": "2", "memory": "512Mi"}}
    container = {"name": "c", "image": "pause", "resources": requests}
    template = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }
    return {
        "apiVersion": ALLOCATIONS.api_version,
        "kind": ALLOCATIONS.kind,
        "metadata": {"name": name},
        "spec": {"resource_group": {"resources": [resource]}, "template": template},
    }


async def create(client, body):
    while True:
        try:
            return await client.create(ALLOCATIONS, body, "default")
        except NotFound:  # the definition is not served yet
            await asyncio.sleep(0.2)


async def until(client, name, done):
    while True:
        found = msgspec.json.decode(await client.get(ALLOCATIONS, name, "default"))
        members = found.get("status", {}).get("members", [])
        if members and done(members[0]):
            return members[0]
        await asyncio.sleep(0.1)


async def test_allocations_are_dispatched_to_real_members_reported_and_taken_back(tmp_path):
    with ExitStack() as stack:
        hub, *others = [stack.enter_context(start_kube()) for _ in range(4)]
        configure(tmp_path / "conf", [kube.kubeconfig for kube in others])
        client = connect(load_kubeconfig(hub.kubeconfig))
        members = [connect(load_kubeconfig(kube.kubeconfig)) for kube in others]
        try:
            for number, (member, cores) in enumerate(zip(members, CORES, strict=True)):
                await member.create(NODES, node(f"n{number}", cores))
                # a new node is tainted and not ready until a kubelet says so
                ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
                await member.patch_status(NODES, f"n{number}", ready)
            for crd in yaml.load_all((FOLDER / "crds.yaml").read_bytes()):
                await client.create(CUSTOM_KINDS, crd)
            options = Options(tmp_path / "conf", host="127.0.0.1", port=0, store="memory")
            async with running(options, client) as scheduler, asyncio.timeout(120):
                while not all(member.online for member in scheduler.members.by_name.values()):
                    await asyncio.sleep(0.1)
                await create(client, allocation("one"))
                placed = await until(client, "one", lambda member: member["pods"] == 1)
                assert "m1" == placed["name"]  # the one with most room

                await members[1].bind("default", "one-0", await uid(members[1], "one-0"), "n1")
                await until(client, "one", lambda member: member["scheduled"] == 1)

                await create(client, allocation("two"))
                again = await until(client, "two", lambda member: member["pods"] == 1)
                assert again["name"] in ("m1", "m2")  # six cores each are left

                await client.delete(ALLOCATIONS, "two", "default")
                where = members[int(again["name"][1:])]
                while True:
                    try:
                        await where.get(PODS, "two-0", "default")
                    except NotFound:
                        break
                    await asyncio.sleep(0.1)
        finally:
            for one in (client, *members):
                await one.close()


async def uid(member, name):
    found = msgspec.json.decode(await member.get(PODS, name, "default"))
    return found["metadata"]["uid"]
