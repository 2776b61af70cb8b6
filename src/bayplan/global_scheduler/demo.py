"""The two demos of the global scheduler, end to end on this machine.

First an allocation over HTTP with curl, then a VM pod applied with kubectl to the embedded API
server, placed and bound by the global scheduler. Everything lives in a temporary directory.
Where curl or kubectl is missing, the same requests are made from here and it is said so.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import aiohttp
import msgspec

from bayplan.api import yaml
from bayplan.apiserver.local import LocalTransport
from bayplan.apiserver.serving import Settings
from bayplan.apiserver.serving import running as api_server
from bayplan.client import Client
from bayplan.client.resources import PODS
from bayplan.global_scheduler.run import Options, running

Say = Callable[[str], object]
DEADLINE = 15.0


async def run(say: Say) -> None:
    """Run both demos."""
    with tempfile.TemporaryDirectory(prefix="bayplan-global-") as folder:
        conf = Path(folder) / "conf"
        conf.mkdir()
        for source in (files("bayplan.global_scheduler") / "sample").iterdir():
            (conf / source.name).write_bytes(source.read_bytes())
        kubeconfig = Path(folder) / "kubeconfig"
        settings = Settings(store="memory", kubeconfig_out=kubeconfig)
        options = Options(conf, host="127.0.0.1", port=0, store="memory")
        async with api_server(settings) as served:
            client = Client(LocalTransport(served.server, token=served.token))
            async with running(options, client) as scheduler:
                await allocation_demo(say, conf, scheduler.port)
                await machine_demo(say, conf, kubeconfig, client)


async def allocation_demo(say: Say, conf: Path, port: int) -> None:
    """POST the sample request."""
    body = conf / "sample_allocation_req_body.json"
    url = f"http://127.0.0.1:{port}/v1/allocations"
    say(
        '$ curl -H "Content-Type:application/json" -X POST '
        f"-T conf/sample_allocation_req_body.json {url}"
    )
    curl = shutil.which("curl")
    if curl:
        header = "Content-Type:application/json"
        say(await _output(curl, "-s", "-H", header, "-X", "POST", "-T", str(body), url))
        return
    say("(curl is not installed; the same request from Python)")
    headers = {"Content-Type": "application/json"}
    data = await asyncio.to_thread(body.read_bytes)
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=data, headers=headers) as answer,
    ):
        say(await answer.text())


async def machine_demo(say: Say, conf: Path, kubeconfig: Path, client: Client) -> None:
    """Apply the VM pod and show where it went."""
    kubectl = shutil.which("kubectl")
    manifest = conf / "vm.yaml"
    say("$ kubectl apply -f vm.yaml")
    if kubectl:
        say(await _output(kubectl, "--kubeconfig", str(kubeconfig), "apply", "-f", str(manifest)))
    else:
        say("(kubectl is not installed; the same request from Python)")
        body = yaml.load(await asyncio.to_thread(manifest.read_bytes))
        await client.create(PODS, msgspec.json.encode(body), "default")
    pod = await _until_bound(client)
    say("$ kubectl describe pods demovm")
    if kubectl:
        arguments = ("--kubeconfig", str(kubeconfig), "describe", "pods", "demovm")
        say(await _output(kubectl, *arguments))
    else:
        say(f"Name:  demovm\nNode:  {pod['spec']['nodeName']}/")


async def _until_bound(client: Client) -> dict[str, dict[str, str]]:
    async with asyncio.timeout(DEADLINE):
        while True:
            pod = msgspec.json.decode(await client.get(PODS, "demovm", "default"))
            if pod["spec"].get("nodeName"):
                return pod  # type: ignore[no-any-return]
            await asyncio.sleep(0.05)


async def _output(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return output.decode()
