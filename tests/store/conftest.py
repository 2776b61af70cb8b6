"""Stores of each kind; a real etcd runs once a session."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bayplan.store import MemoryStore, SqliteStore, Store
from bayplan.store import etcd as etcd_store
from bayplan.store.etcd import EtcdStore
from bayplan.testing.etcd import EtcdServer, find_etcd, start_etcd
from tests.store.plain_etcd import PlainEtcd

KINDS = ["memory", "sqlite", "etcd", "plain etcd"]
OpenStore = Callable[..., Awaitable[Store]]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    if find_etcd() is None:
        pytest.skip("no etcd program")
    with start_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """An etcd that the test may kill."""
    if find_etcd() is None:
        pytest.skip("no etcd program")
    with start_etcd(tmp_path / "etcd") as server:
        yield server


def fresh_root() -> str:
    """Return a part of etcd that no other test uses."""
    return f"/test-{next(_numbers)}"


async def open_plain(server: PlainEtcd, **options: Any) -> EtcdStore:
    """Open the store for etcd on one that is lists and dictionaries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(etcd_store, "EtcdClient", server.client)
        return await EtcdStore.open(["plain"], **options)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def open_store(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[OpenStore]:
    """A function that opens the test's store; the durable kinds open the same one again."""
    root = fresh_root()
    server: EtcdServer | None = request.getfixturevalue("etcd") if kind == "etcd" else None
    plain = PlainEtcd()
    async with AsyncExitStack() as stack:

        async def open_(**options: int) -> Store:
            store: Store
            if kind == "memory":
                store = MemoryStore(**options)
            elif kind == "sqlite":
                store = await SqliteStore.open(tmp_path / "data", **options)
            elif kind == "plain etcd":
                store = await open_plain(plain, **options)
            else:
                assert server is not None
                store = await EtcdStore.open([server.url], root=root, **options)
            stack.push_async_callback(store.close)
            return store

        yield open_


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
