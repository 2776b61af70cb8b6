"""The bounds of the recent past: what is kept, what readers may lag behind, what is remembered."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bayplan.clock import run_virtual
from bayplan.store import Unavailable, history
from bayplan.store.errors import Compacted
from bayplan.store.etcd import EtcdStore
from bayplan.store.history import History
from bayplan.store.protocol import Event, KeyValue


def change(revision: int, key: str = "/a/b", size: int = 100) -> Event:
    return Event(KeyValue(key, b"x" * size, revision, revision), None, deleted=False)


def publish(past: History, revisions: range, **more: object) -> None:
    for revision in revisions:
        past.publish(revision, [change(revision, **more)])


def test_bytes_of_what_was_compacted_do_not_count():
    past = History(revision=0, max_bytes=1000)
    publish(past, range(1, 11))
    past.compact(10)
    publish(past, range(11, 21))

    assert 10 == len(past)
    assert 10 == past.compacted


def test_a_reader_that_lags_behind_by_too_many_bytes_must_list_again(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 1000)
    past = History(revision=0)
    quick, slow = past.watch("/a/", after=0), past.watch("/a/", after=0)
    read = []
    for revision in range(1, 12):
        publish(past, range(revision, revision + 1))
        read += quick.take()

    assert list(range(1, 12)) == [event.revision for event in read]
    with pytest.raises(Compacted):
        slow.take()


def test_a_reader_that_was_cut_off_costs_half_the_bound_at_most(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 1000)
    past = History(revision=0)
    past.watch("/a/", after=0)
    publish(past, range(1, 12))

    (group,) = past._groups.values()
    assert 500 == group.bytes == sum(len(event.kv.value) for event in group.log)


def test_one_large_change_alone_reaches_its_readers(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 1000)
    past = History(revision=0)
    reader = past.watch("/a/", after=0)
    publish(past, range(1, 2), size=5000)

    assert [1] == [event.revision for event in reader.take()]


def test_what_is_remembered_of_directories_is_bounded(monkeypatch):
    monkeypatch.setattr(history, "MEMO_LIMIT", 4)
    past = History(revision=0)
    reader = past.watch("/a/", after=0)
    for revision in range(1, 30):
        past.publish(revision, [change(revision, key=f"/a/{revision}/x")])

    assert len(past._memo) <= 4
    assert 29 == len(reader.take())


class _Away:
    """An etcd that answers no watch."""

    asked = 0

    async def watch(self, request):
        self.asked += 1
        raise Unavailable("etcd is away")
        yield  # a stream by its form

    async def close(self):
        return None


def test_an_etcd_that_is_away_is_asked_ever_more_seldom():
    away = _Away()
    store = EtcdStore(away, "/bayplan", History(revision=0))

    async def follow():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                await store._follow()

    run_virtual(follow())

    assert 10 < away.asked < 100
