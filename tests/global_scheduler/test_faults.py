"""What goes wrong around the service: stores that fail, forget or hang, and clocks that run out."""

import asyncio

import pytest

from bayplan.global_scheduler.ledger import COMMITTED, STAGED
from bayplan.global_scheduler.service import NoSiteError, NotFoundError
from bayplan.global_scheduler.supervise import keep
from bayplan.global_scheduler.writer import UnavailableError
from bayplan.store import Compacted, MemoryStore
from bayplan.store.errors import Conflict, Unavailable
from tests.global_scheduler.sites import ask
from tests.global_scheduler.test_placing import short
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
    async with asyncio.timeout(60):
        while service.writer.waiting < 2:  # the sweeper looks every half second, and queues up
            await asyncio.sleep(0.01)
    store.gate.set()

    assert COMMITTED == (await commit).state
    async with asyncio.timeout(60):
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
    async with asyncio.timeout(60):
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

    async with asyncio.timeout(60):
        assert (await first).id in service.ledger.records
        with pytest.raises(UnavailableError, match="stopping"):
            await second
        with pytest.raises(UnavailableError, match="stopping"):
            await service.create(with_id(ask(1, count=1)))


async def test_stop_answers_what_the_store_never_took():
    store = Flaky()
    service = service_on(store)
    await service.start()
    before = snapshot(service.table)
    store.gate = asyncio.Event()  # never opens
    request = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await store.entered.wait()

    await service.stop(patience=0)

    async with asyncio.timeout(60):
        with pytest.raises(UnavailableError, match="the store did not answer"):
            await request
    assert before == snapshot(service.table)


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


async def test_what_comes_during_a_write_is_decided_meanwhile_and_written_next():
    store = Flaky()
    service = service_on(store)
    await service.start()
    free = snapshot(service.table)
    store.gate = asyncio.Event()
    first = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await store.entered.wait()
    second = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    huge = asyncio.create_task(service.create(with_id(ask(1, count=100_000))))
    released = asyncio.create_task(release_of(service, first))
    await until(lambda: service.writer.waiting == 3 and len(service.ledger.records) == 2)
    assert not second.done()
    assert not huge.done()
    store.gate.set()

    with pytest.raises(NoSiteError):
        await huge
    await released
    assert {(await second).id} == set(service.ledger.records)
    await service.release((await second).id)
    assert free == snapshot(service.table)
    await service.stop()


async def test_nobody_is_forgotten_who_comes_just_as_a_write_ends():
    """The second is taken by the writer before the look ahead that was begun for it."""
    store = Flaky()
    service = service_on(store)
    await service.start()
    one, two = asyncio.Event(), asyncio.Event()
    store.gate = one
    first = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await store.entered.wait()
    store.entered.clear()
    second = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    store.gate = two
    one.set()
    await store.entered.wait()
    await asyncio.sleep(0)
    two.set()
    placed = [await first, await second]

    async with asyncio.timeout(60):
        placed.append(await service.create(with_id(ask(1, count=1))))

    assert {record.id for record in placed} == set(service.ledger.records)
    await service.stop()


@pytest.mark.parametrize("ahead", [False, True])
async def test_what_fails_of_itself_takes_nothing_with_it(ahead):
    """Requests of one batch, of which the second meets a mistake of ours."""
    store = Flaky()
    service = service_on(store)
    await service.start()
    before = snapshot(service.table)
    if ahead:
        store.gate = asyncio.Event()
        under_way = asyncio.create_task(service.create(with_id(ask(1, count=1))))
        await store.entered.wait()
    together = [
        asyncio.create_task(service.create(with_id(ask(1, count=1)))),
        asyncio.create_task(service.writer.do(lambda: 1 / 0)),
        asyncio.create_task(service.create(with_id(ask(1, count=1)))),
    ]
    if ahead:
        await until(lambda: service.writer.waiting == 3)
        store.gate.set()
        await under_way
    first, failed, third = await asyncio.gather(*together, return_exceptions=True)

    assert isinstance(failed, UnavailableError)
    assert {first.id, third.id} <= set(service.ledger.records)
    for identity in list(service.ledger.records):
        await service.release(identity)
    assert before == snapshot(service.table)
    await service.stop()


async def release_of(service, created):
    """Release what is still being written."""
    [identity] = service.ledger.records
    await service.release(identity)
    await created


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        pytest.param(Unavailable("gone"), ["UnavailableError", "Record"], id="fails"),
        pytest.param(Conflict("k", None, 1), ["Record", "NoSiteError"], id="another was faster"),
    ],
)
async def test_what_was_decided_ahead_is_decided_again_when_the_write_before_fails(broken, told):
    store = Flaky()
    service = service_on(store)
    await service.start()
    before = snapshot(service.table)
    plain, failing = store.transact, [broken]

    async def transact(ops):
        store.entered.set()
        await gate.wait()
        if failing:
            raise failing.pop()
        return await plain(ops)

    gate = asyncio.Event()
    store.transact = transact
    site = service.dry_run(with_id(ask(1, count=1))).groups[0].selected.node_id
    whole = all_of(service, site)
    first = asyncio.create_task(service.create(with_id(whole)))
    await store.entered.wait()
    second = asyncio.create_task(service.create(with_id(whole)))
    await until(lambda: service.writer.waiting == 1)
    gate.set()
    done = await asyncio.gather(first, second, return_exceptions=True)

    # the second was refused on top of the first: it is told so only if the first stays
    assert told == [type(one).__name__ for one in done]
    [record] = service.ledger.records.values()
    await service.release(record.id)
    assert before == snapshot(service.table)
    await service.stop()


async def test_what_was_decided_ahead_is_decided_again_when_another_wrote_meanwhile():
    store = Flaky()
    service = service_on(store)
    await service.start()
    before = snapshot(service.table)
    store.gate = asyncio.Event()
    first = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await store.entered.wait()
    second = asyncio.create_task(service.create(with_id(ask(1, count=1))))
    await until(lambda: len(service.ledger.records) == 2)
    service.ledger.others += 1
    store.gate.set()
    placed = [await first, await second]

    assert {record.id for record in placed} == set(service.ledger.records)
    assert 0 == service.writer.waiting
    for record in placed:
        await service.release(record.id)
    assert before == snapshot(service.table)
    await service.stop()


def all_of(service, site):
    """A request for the largest number of machines that a site has room for."""
    low, high = 1, 100_000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            service.dry_run(with_id(ask(1, count=middle, selector={"site_id": site})))
            low = middle
        except NoSiteError:
            high = middle - 1
    return ask(1, count=low, selector={"site_id": site})


async def test_a_stage_whose_answer_is_lost_is_removed_by_its_own_scheduler():
    """The watch is faster than the failure, and nobody else is there to clean up."""
    store = Flaky()
    service = service_on(store, crowded=1000, pause=short)
    await service.start()
    before = snapshot(service.table)
    store.lose = 1
    store.followed = lambda: service.ledger.seen >= store.revision

    with pytest.raises(UnavailableError):
        await service.create(with_id(ask(1, count=1)))
    async with asyncio.timeout(60):
        while (await store.range(STAGED)).items:
            await asyncio.sleep(0.01)

    await until(lambda: before == snapshot(service.table))
    await service.stop()


async def test_a_stage_that_could_not_be_taken_back_is_removed_later():
    store = Flaky()
    service = service_on(store, crowded=1000, pause=short)
    await service.start()
    before = snapshot(service.table)
    plain, calls = store.transact, []

    async def transact(ops):
        calls.append(ops)
        if len(calls) in (2, 3):  # writing the records, and taking the stage back
            raise Unavailable("the connection broke")
        return await plain(ops)

    store.transact = transact

    with pytest.raises(UnavailableError):
        await service.create(with_id(ask(1, count=1)))
    async with asyncio.timeout(60):
        while (await store.range(STAGED)).items or service.ledger.staged:
            await asyncio.sleep(0.01)

    assert before == snapshot(service.table)
    await service.stop()
