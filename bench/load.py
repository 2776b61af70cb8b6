"""Watchers, writers and idle connections on one `bayplan apiserver`, and what they cost it.

    python bench/load.py --watchers 1000 --writers 64 --seconds 60
    python bench/load.py --idle 5000

A second server without watchers is written to at the same time: p99 of writes is compared with its,
so that a busy machine harms both. Load is offered at a fixed rate, so that a slow answer delays
nothing but itself, and watchers are read by another process. Exits with 1 if a write fails, a
watcher misses an event, or p99 or memory grows beyond what is allowed.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bayplan.store.history import MAX_EVENTS
from bayplan.testing.servers import EmbeddedCluster

PATH = "/api/v1/namespaces/default/configmaps"
EVENT = b'"type":"'
SAMPLES = 10  # of memory
SLOWER = 3.0  # times p99 without watchers
GROWTH = 1.05  # times the memory at half time
KEPT_MB = 0.001  # of a write, in the history until it is full
IDLE_MB = 100.0
CATCH_UP = 60.0  # seconds


class Found(NamedTuple):
    """What a run has shown."""

    quiet: list[float]
    loaded: list[float]
    failed: int
    missed: int
    """Watchers that have not seen every event in time."""
    memory: list[float]

    def problems(self) -> list[str]:
        ratio = p99(self.loaded) / p99(self.quiet)
        middle, end = self.memory[len(self.memory) // 2], self.memory[-1]
        writes = len(self.loaded)
        kept = max(0.0, min(writes, MAX_EVENTS) - writes / 2)  # in the second half
        allowed = GROWTH * middle + KEPT_MB * kept
        judged = {
            f"{self.failed} writes failed": self.failed > 0,
            f"{self.missed} watchers missed events": self.missed > 0,
            f"p99 is {ratio:.1f} times that without watchers": ratio > SLOWER,
            f"memory grew from {middle:.0f} to {end:.0f} MB": end > allowed,
        }
        return [text for text, broken in judged.items() if broken]


def p99(took: Sequence[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


def memory(pid: int) -> float:
    """Resident megabytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Follower(asyncio.Protocol):
    """One watch; counts its events."""

    def __init__(self, number: int, seen: SynchronizedArray[int]) -> None:
        self._number, self._seen = number, seen
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        text = self._rest + data
        self._seen[self._number] += text.count(EVENT)
        self._rest = text[-len(EVENT) + 1 :]


def follow(port: int, token: str, seen: SynchronizedArray[int]) -> None:
    """Hold as many watches as `seen` counts, in a process of their own."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        head = (
            f"GET {PATH}?watch=1&resourceVersion=0&timeoutSeconds=36000 HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
        ).encode()
        for number in range(len(seen)):
            transport, _ = await loop.create_connection(
                lambda n=number: Follower(n, seen), "127.0.0.1", port
            )
            transport.write(head)
        await loop.create_future()

    more_files()
    asyncio.run(run())


def connected(cluster: EmbeddedCluster) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {cluster.token}"}
    connector = aiohttp.TCPConnector(limit=0, ssl=False)
    return aiohttp.ClientSession(cluster.server, headers=headers, connector=connector)


async def write(
    session: aiohttp.ClientSession,
    name: str,
    due: float,
    pause: float,
    until: float,
    took: list[float],
) -> int:
    """Change one object from `due` on, once in `pause`; return how many writes failed."""
    loop = asyncio.get_running_loop()
    number = failed = 0
    headers = {"Content-Type": "application/merge-patch+json"}
    while due < until:
        await asyncio.sleep(max(0.0, due - loop.time()))
        number += 1
        body = f'{{"data":{{"n":"{number}"}}}}'
        async with session.patch(f"{PATH}/{name}", data=body, headers=headers) as answer:
            await answer.read()
            if answer.status == 200:
                took.append(loop.time() - due)
            else:
                failed += 1
        due += pause
    return failed


async def write_all(
    cluster: EmbeddedCluster, options: argparse.Namespace, took: list[float]
) -> int:
    """Let all writers write to a server; return how many writes failed."""
    names = [f"w{n}" for n in range(options.writers)]
    pause = len(names) / options.rate
    async with connected(cluster) as one:
        for name in names:
            await one.post(PATH, json={"metadata": {"name": name}, "data": {}})
        begin = asyncio.get_running_loop().time()
        until = begin + options.seconds
        writing = (
            write(one, name, begin + n / options.rate, pause, until, took)
            for n, name in enumerate(names)
        )
        return sum(await asyncio.gather(*writing))


async def sample(pid: int, seconds: float, found: list[float]) -> None:
    for _ in range(SAMPLES):
        await asyncio.sleep(seconds / SAMPLES)
        found.append(memory(pid))
        print(f"memory {found[-1]:.0f} MB", flush=True)


async def behind(seen: SynchronizedArray[int], events: int) -> int:
    """Wait until every watcher has seen so many events; return how many have not."""
    end = time.monotonic() + CATCH_UP
    while time.monotonic() < end and min(seen, default=events) < events:
        await asyncio.sleep(0.2)
    return sum(count < events for count in seen)


async def storm(busy: EmbeddedCluster, calm: EmbeddedCluster, options: argparse.Namespace) -> Found:
    pid, held = busy.apiserver.popen.pid, list[float]()
    quiet, loaded = list[float](), list[float]()
    context = multiprocessing.get_context("spawn")
    seen: SynchronizedArray[int] = context.Array("L", options.watchers, lock=False)
    reader = context.Process(target=follow, args=(busy.port, busy.token, seen), daemon=True)
    async with connected(busy) as one:
        await one.post(PATH, json={"metadata": {"name": "first"}})
    reader.start()
    late = await behind(seen, 1)
    used = [cpu(each.apiserver.popen.pid) for each in (busy, calm)]
    failed, more, _ = await asyncio.gather(
        write_all(busy, options, loaded),
        write_all(calm, options, quiet),
        sample(pid, options.seconds, held),
    )
    missed = await behind(seen, 1 + options.writers + len(loaded))
    reader.terminate()
    for label, took, cluster, before in zip(
        ("with watchers", "without"), (loaded, quiet), (busy, calm), used, strict=True
    ):
        share = (cpu(cluster.apiserver.popen.pid) - before) / options.seconds
        p50 = sorted(took)[len(took) // 2]
        print(
            f"{label}: {len(took)} writes, p50 {p50 * 1000:.1f} ms, p99 {p99(took) * 1000:.1f} ms; "
            f"{share:.0%} CPU"
        )
    print(f"{sum(seen)} events read; memory {' '.join(f'{each:.0f}' for each in held)} MB")
    return Found(quiet, loaded, failed + more, max(late, missed), held)


def idle(cluster: EmbeddedCluster, count: int) -> list[str]:
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
    judged = {
        f"{count - answered} were not answered": answered < count,
        f"they cost {grown:.0f} MB": grown > IDLE_MB * count / 5000,
    }
    return [text for text, broken in judged.items() if broken]


def more_files() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--rate", type=float, default=20.0, help="writes a second, of all writers")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--idle", type=int, default=0, help="only hold so many connections")
    options = parser.parse_args()
    more_files()
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        busy = stack.enter_context(EmbeddedCluster(folders[0]))
        if options.idle:
            problems = idle(busy, options.idle)
        else:
            calm = stack.enter_context(EmbeddedCluster(folders[1]))
            problems = asyncio.run(storm(busy, calm, options)).problems()
    print("; ".join(problems) or "held")
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()
