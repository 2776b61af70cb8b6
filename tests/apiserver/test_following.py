"""A collection is followed whatever happens: what was missed is read again."""

import asyncio
from collections import Counter

from bayplan.apiserver.following import Following
from bayplan.clock import rest, run_virtual
from bayplan.store.memory import MemoryStore


async def follow(hear):
    store, failures, read = MemoryStore(), Counter(), []

    async def load():
        found = await store.range("a/")
        read.append([kv.key for kv in found.items])
        return found.revision

    following = Following(store, "a/", load, hear, failures)
    await following.start()
    await store.put("a/1", b"{}")
    await asyncio.sleep(5)  # longer than the pause after a failure
    await store.put("a/2", b"{}")
    await rest()
    await following.close()
    await store.close()
    return read, failures


def test_changes_are_heard_and_nothing_is_read_again():
    heard = []

    async def hear(batch):
        heard.extend(event.kv.key for event in batch)

    read, failures = run_virtual(follow(hear))

    assert ([[]], 0, ["a/1", "a/2"]) == (read, failures.total(), heard)


def test_after_a_failure_the_collection_is_read_again():
    async def hear(batch):
        if batch[0].kv.key == "a/1":
            raise RuntimeError("no")

    read, failures = run_virtual(follow(hear))

    assert ([[], ["a/1"]], {"following a/": 1}) == (read, failures)
