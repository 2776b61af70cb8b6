"""Everything that runs ends when it is told to, also while its API server hangs.

The API server is stopped (SIGSTOP): connections stay open and nothing is ever answered. An orderly
end is 0; what is not orderly in time is ended by force, and none waits for its peers.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from importlib.resources import files

import pytest

from bayplan.client import connect, leaderelection, load_kubeconfig
from bayplan.client.errors import ClientError, ServerFault
from bayplan.client.resources import CONFIG_MAPS
from bayplan.scheduler import live, process
from bayplan.stopping import GRACE_SECONDS, KILLED, STORE_GRACE
from bayplan.testing.etcd import find_etcd, start_etcd

FORCED = KILLED + signal.SIGTERM
EXTENDER = """
from bayplan.extender import Extender

app = Extender()


@app.filter
def keep(names):
    return names
"""
PROGRAMS = {
    "scheduler": (["scheduler", "--kubeconfig={config}", "--secure-port=0"], "caches are synced"),
    "global": (
        [
            "global",
            "serve",
            "--config-base={folder}/conf",
            "--store=memory",
            "--bind=127.0.0.1:0",
            "--kubeconfig={config}",
        ],
        "placing VM pods",
    ),
    "extender": (
        ["extender", "{folder}/own.py", "--bind=127.0.0.1:0", "--kubeconfig={config}"],
        "/filter on http",
    ),
    "ui": (["ui", "--kubeconfig={config}"], "Ctrl-C stops it"),
    "inspect": (["inspect", "serve", "--kubeconfig={config}"], "Ctrl-C stops it"),
}


async def start(words, said):
    """Start a program and return it when it has said so."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bayplan", *words,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    lines = []
    while said not in (line := (await process.stderr.readline()).decode()):
        lines.append(line)
        assert line, f"{words[0]} has ended: {''.join(lines)}"
    return process


async def read(process, ending):
    """Read what it says, so that it never waits for a reader."""
    while line := await process.stderr.readline():
        if b"ending" in line:
            ending.set()


@pytest.mark.slow
async def test_all_end_while_their_api_server_hangs(tmp_path):
    shutil.copytree(files("bayplan.global_scheduler") / "sample", tmp_path / "conf")
    (tmp_path / "own.py").write_text(EXTENDER)
    config = tmp_path / "kubeconfig"
    started = []
    served = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bayplan", "apiserver", "--store=memory", "--bind=127.0.0.1:0"),
        f"--kubeconfig-out={config}",
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(120):
            await served.stdout.readline()
            for words, said in PROGRAMS.values():
                given = [word.format(config=config, folder=tmp_path) for word in words]
                started.append(await start(given, said))
            ending = asyncio.Event()
            reading = [asyncio.create_task(read(process, ending)) for process in started]
            served.send_signal(signal.SIGSTOP)
            for process in started:
                process.send_signal(signal.SIGTERM)
            await ending.wait()  # it cannot give up its Lease, and is told a second time
            started[0].send_signal(signal.SIGTERM)
            codes = await asyncio.gather(*(process.wait() for process in started))
            await asyncio.gather(*reading)
    finally:
        served.send_signal(signal.SIGCONT)
        for process in (served, *started):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    found = dict(zip(PROGRAMS, codes, strict=True))
    wanted = {"scheduler": FORCED, "extender": 0, "ui": 0, "inspect": 0}
    assert found in ({**wanted, "global": 0}, {**wanted, "global": FORCED})


async def until_not_ready(client):
    while True:  # what it said last holds for a second
        await client.request("GET", "/readyz")


@pytest.mark.slow
@pytest.mark.skipif(find_etcd() is None, reason="no etcd")
async def test_an_api_server_ends_and_says_that_it_is_not_ready_while_its_etcd_hangs(tmp_path):
    config = tmp_path / "kubeconfig"
    with start_etcd(tmp_path / "etcd") as etcd:
        served = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bayplan", "apiserver", "--store=etcd", "--bind=127.0.0.1:0"),
            *(f"--etcd-servers={etcd.url}", f"--kubeconfig-out={config}"),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(120):
                await served.stdout.readline()
                client = connect(load_kubeconfig(str(config)))
                await client.request("GET", "/readyz")
                os.kill(etcd.pid, signal.SIGSTOP)
                made = {"metadata": {"name": "late"}}
                writing = asyncio.create_task(client.create(CONFIG_MAPS, made, "default"))
                with pytest.raises(ServerFault, match="etcd failed"):
                    await until_not_ready(client)
                served.send_signal(signal.SIGTERM)
                code = await served.wait()
                (found,) = await asyncio.gather(writing, return_exceptions=True)
                await client.close()
        finally:
            os.kill(etcd.pid, signal.SIGCONT)
            with contextlib.suppress(ProcessLookupError):
                served.kill()
            await served.wait()

    assert isinstance(found, ClientError)  # it was never written, and not said to be
    assert code in (0, FORCED)


def test_all_that_a_scheduler_may_wait_for_at_its_end_fits_into_its_grace():
    waits = live.GRACE + leaderelection.RELEASE_SECONDS + process.EVENT_DRAIN

    assert waits < GRACE_SECONDS < STORE_GRACE <= 10
