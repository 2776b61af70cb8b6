"""Informers that keep texts: what is passed on is the object at its newest version, or nothing."""

import asyncio
import json

import pytest

from bayplan.api.meta import Object
from bayplan.client import AsgiTransport, Client, Informer, informer
from bayplan.client.resources import NODES
from bayplan.clock import run_virtual
from tests.client.fake_api import FakeApi

A, B = "/api/v1/nodes/a", "/api/v1/nodes/b"


def texts_after(*steps, before=(), keep=True):
    """What is kept of every node, by name, after some steps on a server."""

    async def main():
        api = FakeApi()
        for step in before:
            await step(api)
        nodes = Informer(Client(AsgiTransport(api)), NODES, Object, keep_texts=keep)
        task = asyncio.create_task(nodes.run())
        await nodes.wait_watching()
        try:
            for step in steps:
                await step(api)
                await asyncio.sleep(60)
            if not keep:
                return nodes.text_of(nodes.get("a"))
            found = {name: json.loads(text) for name, text in nodes.texts.items()}
            assert all(nodes.text_of(item) is nodes.texts[key] for key, item in nodes.store.items())
            assert api.objects.keys() == {f"/api/v1/nodes/{name}" for name in nodes.store}
            return {name: item.get("spec") for name, item in found.items()}
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run_virtual(main())


def put(path, spec, **meta):
    return lambda api: api.put(path, spec=spec, metadata=meta)


async def again(api):
    """An event that was sent already comes once more."""
    first = next(item for _, _, _, item in api.log)
    await api.emit("MODIFIED", A, first)


async def late_end(api):
    first = next(item for _, _, _, item in api.log)
    await api.emit("DELETED", A, first)


async def lose(api):
    """Everything that is not seen by a watch happens at once."""
    await api.break_streams()
    await api.remove(B)
    await api.put(A, spec="newest")
    await api.expire()


@pytest.mark.parametrize(
    ("before", "steps", "expected"),
    [
        pytest.param([put(A, 1)], [], {"a": 1}, id="listed"),
        pytest.param([], [put(A, 1), put(B, 2)], {"a": 1, "b": 2}, id="added"),
        pytest.param([put(A, 1)], [put(A, 2)], {"a": 2}, id="changed"),
        pytest.param([put(A, 1)], [lambda api: api.remove(A)], {}, id="gone"),
        pytest.param([put(A, 1)], [put(A, 2, labels=None)], {"a": 2}, id="changed, with nulls"),
        pytest.param([], [put(A, 1), put(A, 2), again], {"a": 2}, id="an old event"),
        pytest.param([], [put(A, 1), put(A, 2), late_end], {"a": 2}, id="an old end"),
        pytest.param([put(A, 1), put(B, 2)], [lose], {"a": "newest"}, id="listed again"),
    ],
)
def test_texts_are_those_of_the_copy(before, steps, expected):
    assert expected == texts_after(*steps, before=before)


def test_without_being_asked_no_text_is_kept():
    assert texts_after(put(A, 1), keep=False) is None


def test_only_so_many_deletions_are_remembered(monkeypatch):
    """A late event of one that was deleted long ago is believed: memory is bounded."""
    monkeypatch.setattr(informer, "TOMBSTONES", 1)

    async def main():
        api = FakeApi()
        nodes = Informer(Client(AsgiTransport(api)), NODES, Object)
        task = asyncio.create_task(nodes.run())
        await nodes.wait_watching()
        first, second = await api.put(A), await api.put(B)
        await api.remove(A)
        await api.remove(B)
        await api.emit("MODIFIED", B, second)
        await api.emit("MODIFIED", A, first)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return list(nodes.store)

    assert ["a"] == run_virtual(main())
