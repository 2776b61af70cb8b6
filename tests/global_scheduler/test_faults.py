"""What goes wrong around the service: stores that fail, forget or hang, and clocks that run out."""

import asyncio

import pytest

from bayplan.global_scheduler.ledger import COMMITTED
from bayplan.global_scheduler.service import NotFoundError
from bayplan.global_scheduler.supervise import keep
from bayplan.global_scheduler.writer import UnavailableError
from bayplan.store import Compacted, MemoryStore
from bayplan.store.errors import Unavailable
from tests.global_scheduler.sites import ask
from tests.global_scheduler.test_service import Clock, service_on, snapshot, with_id


class Flaky(MemoryStore):
    """Loses the answer of a transaction that it did, or holds one back."""

    def __init__(self):
        super().__init__()
        self.lose = 0
        self.followed = lambda: True
        self.gate = None
        self.entered = asyncio.Event()

    async def transact(self, ops):
        if self.gate is not None:
            self.entered.set()
            await self.gate.wait()
        done = await super().transact(ops)
        if self.lose:
            self.lose -= 1
            while not self.followed():  # the watch is faster than the failure
                await asyncio.sleep(0)
            raise Unavailable("the connection broke")
        return done


async def test_a_commit_just_before_expiry_is_kept():
    """The sweeper saw a reservation that has run out; the commit was asked for before it."""
    clock, store = Clock(), Flaky()
    service = service_on(store, clock)
    await service.start()
    record = await service.create(with_id(ask(1, count=1)), ttl=10)
    clock.now += 11

    commit = asyncio.create_task(service.commit(record.id))
    sweep = asyncio.create_task(service.release(record.id, expired_at=clock.now))
    acknowledged, left = await asyncio.gather(commit, sweep)

    assert COMMITTED == acknowledged.state == left.state
    assert [record.id] == list(service.ledger.records)
    await service.stop()


async def test_the_sweeper_leaves_what_was_committed_while_it_waited():
    clock, store = Clock(), Flaky()
    service = service_on(store, clock)
    await service.start()
    kept = await service.create(with_id(ask(1, count=1)), ttl=10)
    lost = await service.create(with_id(ask(1, count=1)), ttl=10)
    store.gate = asyncio.Event()
    slow = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await store.entered.wait()
    commit = asyncio.create_task(service.commit(kept.id))
    clock.now += 9.7
    await asyncio.sleep(0)
    clock.now += 1
    async with asyncio.timeout(10):
        while service.writer.waiting < 2:  # the sweeper looks every half second, and queues up
            await asyncio.sleep(0.01)
    store.gate.set()

    assert COMMITTED == (await commit).state
    async with asyncio.timeout(5):
        while lost.id in service.ledger.records:
            await asyncio.sleep(0.02)
    assert {kept.id, (await slow).id} == set(service.ledger.records)
    await service.stop()


async def test_a_release_whose_answer_is_lost_is_not_charged_for_ever():
    store = Flaky()
    service = service_on(store)
    await service.start()
    before = snapshot(service.table)
    record = await service.create(with_id(ask(1, count=1)))
    store.lose = 1
    store.followed = lambda: service.ledger.seen >= store.revision

    with pytest.raises(UnavailableError):
        await service.release(record.id)
    async with asyncio.timeout(5):
        while service.ledger.records:
            await asyncio.sleep(0.01)

    assert before == snapshot(service.table)
    with pytest.raises(NotFoundError):
        await service.release(record.id)
    await service.stop()


async def test_a_reload_forgets_what_the_store_no_longer_has():
    store = MemoryStore()
    one, two = service_on(store), service_on(store, name="two")
    before = snapshot(two.table)
    record = await _created(one)
    await two.ledger.load()
    assert [record.id] == list(two.ledger.records)

    await one.release(record.id)
    await store.compact(store.revision)
    with pytest.raises(Compacted):
        await two.ledger.follow()
    await two.ledger.load()

    assert {} == two.ledger.records
    assert before == snapshot(two.table)
    await one.stop()


async def _created(service):
    await service.start()
    return await service.create(with_id(ask(1, count=1)))


async def test_stop_finishes_what_is_being_written_and_answers_what_waits():
    store = Flaky()
    service = service_on(store)
    await service.start()
    store.gate = asyncio.Event()
    first = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await store.entered.wait()
    second = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await asyncio.sleep(0)

    stopping = asyncio.create_task(service.stop())
    await asyncio.sleep(0)
    store.gate.set()
    await stopping

    async with asyncio.timeout(5):
        assert (await first).id in service.ledger.records
        with pytest.raises(UnavailableError, match="stopping"):
            await second
        with pytest.raises(UnavailableError, match="stopping"):
            await service.create(with_id(ask(1, count=1)))


async def test_background_work_that_fails_is_said_once_and_begun_again(monkeypatch):
    said, tries, waits = [], [], []
    log = type("Log", (), {"error": lambda self, *_, **facts: said.append(facts)})()
    monkeypatch.setattr("bayplan.global_scheduler.supervise.log", log)
    done = asyncio.Event()

    async def work():
        tries.append(1)
        if len(tries) < 4:
            raise OSError("away")
        done.set()
        await asyncio.Event().wait()

    async def pause(seconds):
        waits.append(seconds)

    task = asyncio.create_task(keep("reading", work, pause=pause))
    await done.wait()
    task.cancel()

    assert [{"work": "reading", "error": "OSError: away"}] == said
    assert [1.0, 2.0, 4.0] == waits
