"""Sums that are kept are the sums of what there is, whatever is written in between."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.apiserver import aside
from bayplan.apiserver.admission.tally import Tally
from bayplan.apiserver.reader import CachedReader
from bayplan.store import MemoryStore

OBJECTS = st.dictionaries(
    st.sampled_from("abcd"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 5))
)


@given(st.lists(OBJECTS))
def test_sums_follow_a_collection(states):
    looked: list[str] = []
    tally, revision, before = Tally(lambda obj: looked.append(obj["key"]) or obj["uses"]), 0, {}
    for state in states:
        looked.clear()
        now = {}
        for key, uses in state.items():
            revision += 1
            now[key] = before[key] if before.get(key, (0, None))[1] == uses else (revision, uses)
        for key, (version, uses) in now.items():
            if not tally.knows(key, version):
                tally.see(key, version, {"key": key, "uses": uses})
        tally.keep(list(now))

        names = {name for uses in state.values() for name in uses}
        sums = {name: sum(uses.get(name, 0) for uses in state.values()) for name in names}
        assert {name: amount for name, amount in sums.items() if amount} == tally.totals
        assert {key for key in now if now[key] != before.get(key)} == set(looked)
        before = now


class Codec:
    """Of objects that are numbers."""

    prefix = "/n/"

    def collection(self, namespace):
        return self.prefix

    def decode(self, kv):
        return int(kv.value)


@given(st.integers(0, 2**32))
def test_sums_are_of_now_whoever_looks_with_pauses_meanwhile(seed):
    """Who pauses goes on with what it read before: older versions, and objects that are gone."""
    rng = random.Random(seed)

    async def looking():
        while writing:
            await reader.tallied("", "numbers", "", tally)
            await asyncio.sleep(0)

    async def run():
        lookers = [asyncio.ensure_future(looking()) for _ in range(3)]
        for _ in range(30):
            key = f"/n/{rng.choice('abcdefgh')}"
            if store.get_now(key) and rng.random() < 0.4:
                await store.delete(key)
            else:
                await store.put(key, b"%d" % rng.randrange(9))
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            if rng.random() < 0.5:
                reader.tally("", "numbers", "", tally)
                total = sum(int(kv.value) for kv in store.range_now("/n/").items)
                assert total == tally.totals.get("n", 0)
        writing.clear()
        await asyncio.gather(*lookers)

    store, writing, tally = MemoryStore(), [True], Tally(lambda number: {"n": number})
    reader = CachedReader(store, lambda group, resource: Codec())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aside, "PAUSE_COST", 0)
        asyncio.run(run())
