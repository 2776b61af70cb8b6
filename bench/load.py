"""Watchers, writers and idle connections on one `bayplan apiserver`, and what they cost it.

    python bench/load.py --watchers 1000 --writers 64 --seconds 60
    python bench/load.py --idle 5000

Prints p50 and p99 of writes without and with the watchers, and the server's memory and CPU. Load
is offered at a fixed rate, so that a slow answer delays nothing but itself.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import tempfile
import time
from pathlib import Path

import aiohttp

from bayplan.testing.servers import EmbeddedCluster

PATH = "/api/v1/namespaces/default/configmaps"


def memory(pid: int) -> float:
    """Resident megabytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def watch(session: aiohttp.ClientSession, seen: list[int]) -> None:
    timeout = aiohttp.ClientTimeout(None)
    async with session.get(f"{PATH}?watch=1&resourceVersion=0", timeout=timeout) as answer:
        async for _ in answer.content.iter_any():
            seen[0] += 1


async def write(
    session: aiohttp.ClientSession, name: str, rate: float, until: float, took: list[float]
) -> None:
    """Change one object `rate` times a second."""
    loop = asyncio.get_running_loop()
    await session.post(PATH, json={"metadata": {"name": name}, "data": {}})
    due, number = loop.time(), 0
    headers = {"Content-Type": "application/merge-patch+json"}
    while due < until:
        await asyncio.sleep(max(0.0, due - loop.time()))
        number += 1
        body = f'{{"data":{{"n":"{number}"}}}}'
        async with session.patch(f"{PATH}/{name}", data=body, headers=headers) as answer:
            await answer.read()
            if answer.status == 200:
                took.append(loop.time() - due)
        due += 1 / rate


def shown(took: list[float]) -> str:
    took.sort()
    p50, p99 = (took[int(len(took) * part)] * 1000 for part in (0.5, 0.99))
    return f"{len(took)} writes, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


async def storm(cluster: EmbeddedCluster, options: argparse.Namespace) -> None:
    pid = cluster.apiserver.popen.pid
    headers = {"Authorization": f"Bearer {cluster.token}"}
    connector = aiohttp.TCPConnector(limit=0, ssl=False)
    async with aiohttp.ClientSession(cluster.server, headers=headers, connector=connector) as one:
        loop = asyncio.get_running_loop()
        for label, watchers in (("without watchers", 0), ("with watchers", options.watchers)):
            seen = [0]
            following = [asyncio.create_task(watch(one, seen)) for _ in range(watchers)]
            await asyncio.sleep(2 if watchers else 0)
            before, used, took = memory(pid), cpu(pid), list[float]()
            until = loop.time() + options.seconds
            names = [f"{watchers}-{n}" for n in range(options.writers)]
            await asyncio.gather(
                *(write(one, name, options.rate / len(names), until, took) for name in names)
            )
            print(
                f"{label}: {shown(took)}; {seen[0]} pieces read; memory {before:.0f} to "
                f"{memory(pid):.0f} MB; {(cpu(pid) - used) / options.seconds:.0%} CPU"
            )
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


def idle(cluster: EmbeddedCluster, count: int) -> None:
    pid, port = cluster.apiserver.popen.pid, cluster.port
    before = memory(pid)
    request = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in held:  # the plain port of loopback
        each.sendall(request)
    answered = sum(each.recv(4096).startswith(b"HTTP/1.1 200") for each in held)
    time.sleep(1)
    grown = memory(pid) - before
    print(f"{answered} of {count} idle connections: {grown:+.0f} MB, {grown * 1024 / count:.1f} KB")
    for each in held:
        each.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--rate", type=float, default=20.0, help="writes a second, of all writers")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--idle", type=int, default=0, help="only hold so many connections")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory() as folder, EmbeddedCluster(Path(folder)) as cluster:
        if options.idle:
            idle(cluster, options.idle)
        else:
            asyncio.run(storm(cluster, options))


if __name__ == "__main__":
    main()
