"""VirtualMachines on a stock kube-apiserver, where pods know no such field."""

import asyncio
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from bayplan.api import yaml
from bayplan.client import NotFound, connect, load_kubeconfig
from bayplan.client.resources import CUSTOM_KINDS
from bayplan.global_scheduler.kinds import VIRTUAL_MACHINES
from bayplan.global_scheduler.run import Options, running
from bayplan.testing.servers import start_kube

FOLDER = Path(str(files("bayplan.global_scheduler")))

pytestmark = pytest.mark.kube


async def test_the_same_template_is_placed_as_a_custom_resource(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    for source in (FOLDER / "sample").iterdir():
        (conf / source.name).write_bytes(source.read_bytes())
    template = yaml.load((FOLDER / "sample" / "vm.yaml").read_bytes())["spec"]["virtualMachine"]
    with start_kube() as kube:
        client = connect(load_kubeconfig(kube.kubeconfig))
        try:
            for crd in yaml.load_all((FOLDER / "crds.yaml").read_bytes()):
                await client.create(CUSTOM_KINDS, crd)
            options = Options(conf, host="127.0.0.1", port=0, store="memory")
            async with running(options, client), asyncio.timeout(60):
                await create(client, template)
                placed = await until_bound(client)
        finally:
            await client.close()

    assert ("Bound", "az1") == (placed["status"]["phase"], placed["status"]["node"])


async def create(client, template):
    body = {
        "apiVersion": VIRTUAL_MACHINES.api_version,
        "kind": VIRTUAL_MACHINES.kind,
        "metadata": {"name": "demovm"},
        "spec": template,
    }
    while True:
        try:
            await client.create(VIRTUAL_MACHINES, body, "default")
            return
        except NotFound:  # the definition is not served yet
            await asyncio.sleep(0.2)


async def until_bound(client):
    while True:
        found = msgspec.json.decode(await client.get(VIRTUAL_MACHINES, "demovm", "default"))
        if found.get("status", {}).get("phase") == "Bound":
            return found
        await asyncio.sleep(0.2)
