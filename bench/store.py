"""Puts a second and CPU a put of each store, with many writers at once.

Run: python bench/store.py [--puts N] [--writers N] [--bytes N] [memory|sqlite|etcd ...]
CPU is this process's; for etcd its server's is given beside it. `--json docs/results/store.json`
writes the figures of docs/design/store.md.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from figures import write

from bayplan.store import MemoryStore, SqliteStore, Store
from bayplan.store.etcd import EtcdStore
from bayplan.testing.etcd import start_etcd


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[tuple[Store, int]]:
    """Yield an empty store and the process id of its server, 0 if it has none."""
    with tempfile.TemporaryDirectory() as directory:
        if kind == "memory":
            yield MemoryStore(), 0
        elif kind == "sqlite":
            store = await SqliteStore.open(Path(directory))
            yield store, 0
            await store.close()
        else:
            with start_etcd(Path(directory)) as server:
                etcd = await EtcdStore.open([server.url])
                yield etcd, server.pid
                await etcd.close()


def cpu_of(pid: int) -> float:
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def load(store: Store, puts: int, writers: int, value: bytes, verb: str) -> None:
    async def writer(first: int) -> None:
        for n in range(first, puts, writers):
            key = f"/registry/pods/default/pod-{n:06}"
            if verb == "create":
                await store.put(key, value, expect=0)
            elif verb == "update":
                current = await store.get(key)
                assert current is not None
                await store.put(key, value, expect=current.mod_revision)
            else:
                await store.delete(key)

    await asyncio.gather(*(writer(first) for first in range(writers)))


async def measure(kind: str, puts: int, writers: int, size: int) -> dict[str, str]:
    figures, servers = {}, {}
    value = b'{"kind":"Pod","spec":"' + b"x" * size + b'"}'
    async with opened(kind) as (store, pid):
        for verb in ("create", "update", "delete"):
            wall, cpu, server = time.perf_counter(), time.process_time(), cpu_of(pid)
            await load(store, puts, writers, value, verb)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            server = cpu_of(pid) - server
            beside = f"  server {server / puts * 1e6:6.1f} µs" if pid else ""
            figures[f"{kind} {verb}"] = f"{cpu / puts * 1e6:.1f} µs"
            if pid:
                servers[f"{kind} server {verb}"] = f"{server / puts * 1e6:.0f} µs"
            print(f"{kind:7} {verb:7} {puts / wall:9.0f}/s  CPU {cpu / puts * 1e6:6.1f} µs{beside}")
    return figures | servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=["memory", "sqlite", "etcd"])
    parser.add_argument("--puts", type=int, default=20_000)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=1500)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures: dict[str, str] = {}
    print(f"{options.puts} keys, {options.writers} writers, values of {options.bytes} bytes")
    for kind in options.kinds:
        figures |= asyncio.run(measure(kind, options.puts, options.writers, options.bytes))
    if options.json:
        facts = {"puts": options.puts, "writers": options.writers, "bytes": options.bytes}
        write(options.json, "bench/store.py", figures, **facts)


if __name__ == "__main__":
    main()
