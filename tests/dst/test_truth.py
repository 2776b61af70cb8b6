"""What the simulation holds to be true, where a store let the past go before it was seen."""

import pytest

from bayplan.dst.truth import LOST, Broken, Truth
from bayplan.store.protocol import KeyValue
from bayplan.store.sqlite import SqliteStore


class Past:
    """A store that is followed, left before it is closed, and opened without its past."""

    def __init__(self, directory):
        self.truth, self.told = Truth(), []
        self._directory = directory
        self.truth.check(lambda event: self.told.append((event.kv.key, event.deleted)))

    async def begin(self, *keys):
        store = await SqliteStore.open(self._directory)
        self.truth.follow(store)
        for key in keys:
            await store.put(key, b"1")
        self.truth.leave()
        return store

    async def come_back(self, store):
        await store.compact(store.revision)
        await store.close()
        self.told.clear()
        again = await SqliteStore.open(self._directory)
        try:
            self.truth.follow(again)
        finally:
            await again.close()


async def test_what_nobody_saw_before_the_past_went_is_taken_over(tmp_path):
    past = Past(tmp_path)
    store = await past.begin("changed", "deleted", "kept", "replaced")
    await store.delete("deleted")
    await store.delete("replaced")
    for key in ("changed", "new", "replaced"):
        await store.put(key, b"2")

    await past.come_back(store)

    gone = [("deleted", True), ("replaced", True)]
    assert [*gone, ("changed", False), ("new", False), ("replaced", False)] == past.told
    assert ["changed", "kept", "new", "replaced"] == sorted(past.truth.now)
    assert store.revision == past.truth.revision


@pytest.mark.parametrize("seen", ["changed", "deleted"])
async def test_what_was_seen_and_is_not_there_is_lost_nevertheless(tmp_path, seen):
    past = Past(tmp_path)
    store = await past.begin("a")
    before = past.truth.now.pop("a")
    past.truth.revision += 1
    if seen == "changed":
        past.truth.now["a"] = KeyValue("a", b"2", before.create_revision, past.truth.revision)
    for key in "bc":
        await store.put(key, b"1")

    with pytest.raises(Broken, match=LOST):
        await past.come_back(store)
