"""The child of the crash test: writes through the SQLite store and tells what was acknowledged.

Each line on stdout is one acknowledged transaction, written after the store returned:
`revision<TAB>key=value<TAB>key=value…`, a value of "-" being a delete. The parent kills this
process at any moment, so the last line may be cut; only whole lines count.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from bayplan.store import Conflict, Delete, NotFound, Put, SqliteStore

WRITERS = 16


async def write(store: SqliteStore, name: str, worker: int, rng: random.Random) -> None:
    step = 0
    while True:
        step += 1
        key = f"/k/{worker}/{rng.randrange(20)}"
        value = f"{name}.{worker}.{step}." + "x" * rng.randrange(3000)
        ops: list[Put | Delete] = [Put(key, value.encode())]
        if rng.random() < 0.2:
            ops = [Delete(key)]
        elif rng.random() < 0.2:
            ops.append(Put(f"/pair{key}", value.encode()))
        try:
            written = await store.transact(ops)
        except (NotFound, Conflict):
            continue
        parts = [f"{kv.mod_revision}" for kv in written[:1]]
        parts += [f"{op.key}={op.value.decode() if isinstance(op, Put) else '-'}" for op in ops]
        os.write(1, ("\t".join(parts) + "\n").encode())


async def main() -> None:
    directory, name = sys.argv[1:]
    store = await SqliteStore.open(Path(directory), max_events=2000)
    os.write(1, f"open {store.revision} {store.compacted}\n".encode())
    rng = random.Random(name)
    await asyncio.gather(
        *(write(store, name, worker, random.Random(rng.random())) for worker in range(WRITERS))
    )


if __name__ == "__main__":
    asyncio.run(main())
