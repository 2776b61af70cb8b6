"""An index holds what a look at every object would find, and spares that look."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.apiserver.codec import Codec
from bayplan.apiserver.indexed import Index
from bayplan.apiserver.kinds import built_in
from bayplan.store.memory import MemoryStore
from tests.apiserver.api import PODS, pod, shown

CODEC = Codec(next(kind for kind in built_in() if kind.key == "v1/Pod"))
NODES = ["", "n0", "n1", "n2"]
NODE = "spec.nodeName"


async def fill(api, count, nodes):
    for n in range(count):
        await api.ok("POST", PODS, pod(f"p{n}", nodeName=f"n{n % nodes}"))


def counted(monkeypatch):
    """Note every object that is looked into."""
    seen, fields = [], Codec.fields
    monkeypatch.setattr(Codec, "fields", lambda self, kv: seen.append(kv.key) or fields(self, kv))
    return seen


async def test_a_list_by_node_looks_at_the_pods_of_that_node_only(api, monkeypatch):
    await fill(api, 60, 20)
    await api.ok("GET", f"{PODS}?fieldSelector={NODE}%3Dn1")
    seen = counted(monkeypatch)

    found = await api.ok("GET", f"{PODS}?fieldSelector={NODE}%3Dn7,metadata.name!=p27")
    everywhere = await api.ok("GET", f"/api/v1/pods?fieldSelector={NODE}%3Dn7&limit=2")
    newest = await api.ok("GET", PODS)

    assert ["p47", "p7"] == [item["metadata"]["name"] for item in found["items"]]
    assert ["p27", "p47"] == [item["metadata"]["name"] for item in everywhere["items"]]
    assert newest["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    assert len(seen) <= 6
    token = everywhere["metadata"]["continue"]
    rest = await api.ok("GET", f"/api/v1/pods?fieldSelector={NODE}%3Dn7&limit=2&continue={token}")
    assert ["p7"] == [item["metadata"]["name"] for item in rest["items"]]


async def test_a_watch_by_node_looks_at_the_pods_of_that_node_only(api, monkeypatch):
    await fill(api, 60, 20)
    await api.ok("GET", f"{PODS}?fieldSelector={NODE}%3Dn1")
    seen = counted(monkeypatch)

    streams = [
        await api.watch(f"{PODS}?watch=1&fieldSelector={NODE}%3Dn{n}&{more}")
        for n in range(20)
        for more in ("", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    ]
    events = [await stream.until(3) for stream in streams]
    for stream in streams:
        await stream.leave()

    assert [("ADDED", "p1"), ("ADDED", "p21"), ("ADDED", "p41")] == shown(events[2])
    assert len(seen) <= 2 * 60


async def test_other_fields_are_looked_up_in_every_object(api):
    await fill(api, 4, 2)

    found = await api.ok("GET", f"{PODS}?fieldSelector={NODE}!%3Dn0,status.phase%3DPending")

    assert ["p1", "p3"] == [item["metadata"]["name"] for item in found["items"]]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "look", "compact"]),
        st.sampled_from(["a/x", "a/y", "b/x"]),
        st.sampled_from(NODES),
    ),
    max_size=30,
)


@given(CHANGES, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_is_what_is_there(changes, max_lag):
    async def run():
        store = MemoryStore(max_lag=max_lag, max_events=8)
        index = Index(store, CODEC, NODE)
        for change, name, node in changes:
            key = CODEC.prefix + name
            if change == "put":
                spec = b'{"nodeName":"%b"}' % node.encode() if node else b"{}"
                await store.put(key, b'{"metadata":{"name":"x"},"spec":%b}' % spec)
            elif change == "delete" and store.get_now(key):
                await store.delete(key)
            elif change == "compact":
                await store.compact(store.revision)
            elif change == "look":
                await agrees(store, index)
        await agrees(store, index)
        index.close()
        await store.close()

    asyncio.run(run())


async def agrees(store, index):
    for prefix in (CODEC.prefix, CODEC.prefix + "a/"):
        everything = store.range_now(prefix).items
        for node in NODES:
            found = await index.find(node, prefix)
            expected = [kv for kv in everything if CODEC.fields(kv).value_of(NODE) == node]
            assert (expected, store.revision) == (found.items, found.revision)
            later = await index.find(node, prefix, CODEC.prefix + "a/x")
            assert [kv for kv in expected if kv.key > CODEC.prefix + "a/x"] == later.items


async def test_many_who_ask_at_once_share_one_reading(api, monkeypatch):
    await fill(api, 40, 4)
    seen = counted(monkeypatch)

    found = await asyncio.gather(
        *(api.ok("GET", f"{PODS}?fieldSelector={NODE}%3Dn{n}") for n in range(4) for _ in range(5))
    )

    assert [10] * 20 == [len(each["items"]) for each in found]
    assert len(seen) <= 40 + 20 * 10
