"""The one writer, second by second: what is decided when, and what each transaction holds."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from structlog.testing import capture_logs

from bayplan.clock import rest, run_virtual
from bayplan.errors import BayplanError
from bayplan.global_scheduler import writer as module
from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.ledger import (
    RECORDS,
    STAGED,
    TAKING,
    Group,
    Held,
    Ledger,
    Record,
    Selected,
)
from bayplan.global_scheduler.stack import Allocation, Stack
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.writer import TooWideError, Writer
from bayplan.store import Conflict, KeyValue, MemoryStore, NotFound
from bayplan.store.errors import Unavailable

HOUR = 3600.0


@pytest.fixture(autouse=True)
def quiet():
    """Writing a traceback down takes longer than all else here."""
    with capture_logs() as logs:
        yield logs


class Slow(MemoryStore):
    """Takes a second for each transaction, and notes what is in it; `fails` is raised instead."""

    def __init__(self):
        super().__init__()
        self.fails = []
        self.log = []

    async def transact(self, ops):
        keys = [op.key.removeprefix(RECORDS).removeprefix(STAGED) for op in ops]
        self.log.append(" ".join("+" if key == TAKING else key for key in keys))
        await asyncio.sleep(1.0)
        if self.fails and (problem := self.fails.pop(0)) is not None:
            raise problem
        return await super().transact(ops)


class World:
    """A writer on a ledger, with pauses that are noted and cost nothing but time."""

    def __init__(self, *, holds=lambda *_: True, operations=99, crowded=0, store=None):
        self.store = store or Slow()
        self.ledger = Ledger(self.store, SiteTable(Inventory()))
        self.pauses = []
        self.decided = []
        numbers = iter(range(99))
        self.writer = Writer(
            self.ledger,
            name="me",
            operations=operations,
            pause=self.pause,
            holds=holds,
            new_id=lambda: f"stage{next(numbers)}",
            crowded=crowded,
        )

    async def pause(self, seconds):
        self.pauses.append(seconds)
        await asyncio.sleep(seconds)

    def ask(self, *names, take=True, size=0, gone=(), fails=None, again=None):
        """Put a step into the queue that writes records of these names.

        It `fails` always, or only when it is done `again`.
        """
        problems = [None, again]

        def step():
            self.decided.append(" ".join(names))
            if problem := fails or (problems.pop(0) if problems else again):
                raise problem
            new = [record(name, take=take, size=size) for name in names]
            return list(names), (new, [self.ledger.records[name] for name in gone])

        return asyncio.ensure_future(self.writer.do(step))


def record(name, *, take=True, size=0):
    groups = (Group("g", (), Selected("s", "r", "z")),) if take else ()
    allocation = Allocation(name, Stack("s", ()))
    return Record(name, allocation, groups, 0.0, fingerprint="f" * size)


@asynccontextmanager
async def working(**options):
    world = World(**options)
    tasks = [asyncio.create_task(work()) for work in (world.ledger.follow, world.writer.run)]
    async with asyncio.timeout(HOUR):
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def told(job):
    """What a job was answered: its names, or the problem."""
    return (
        f"{type(job.exception()).__name__}: {job.exception()}" if job.exception() else job.result()
    )


def test_what_waits_goes_in_batches_of_a_bound(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 3)

    async def main():
        async with working() as world:
            jobs = [world.ask(name) for name in "abcdefgh"]
            await asyncio.sleep(0.5)
            assert [*"abcdef"] == world.decided, "the second is decided while the first is written"
            await asyncio.wait(jobs)
            return world, [told(job) for job in jobs]

    world, answers = run_virtual(main())
    assert ["a b c +", "d e f +", "g h +"] == world.store.log
    assert [*"abcdefgh"] == world.decided
    assert [[name] for name in "abcdefgh"] == answers


def test_what_comes_while_one_is_written_is_decided_then_and_written_next(monkeypatch):
    """In the order in which it came, up to a whole batch; more waits for the batch after it."""
    monkeypatch.setattr(module, "BATCH", 3)

    async def main():
        async with working() as world:
            jobs = [world.ask("a")]
            await asyncio.sleep(0.25)
            jobs += [world.ask("b"), world.ask("c")]
            await asyncio.sleep(0.25)
            assert ["a", "b", "c"] == world.decided
            assert 2 == world.writer.waiting
            jobs += [world.ask(name) for name in "def"]
            await asyncio.sleep(0.25)
            assert [*"abcd"] == world.decided
            assert 5 == world.writer.waiting
            assert not any(job.done() for job in jobs)
            await asyncio.wait(jobs)
        return world

    world = run_virtual(main())
    assert ["a +", "b c d +", "e f +"] == world.store.log
    assert [*"abcdef"] == world.decided


@pytest.mark.parametrize(
    ("operations", "steps", "log"),
    [
        (3, ["a", "b", "c"], ["a b +", "c +"]),
        (4, ["a b", "c", "d"], ["a b c +", "d +"]),
        (4, ["a b", "c d", "e"], ["a b +", "c d e +"]),
        (3, ["a b", "c"], ["a b +", "c +"]),
        (9, ["a", "b", "a", "c"], ["a b +", "a c +"]),
        (9, ["a b", "b c", "d"], ["a b +", "b c d +"]),
    ],
    ids=str,
)
def test_a_transaction_has_room_for_so_many_records_and_each_once(operations, steps, log):
    """One place is for the key that is moved; what comes after one that waits, waits too."""

    async def main():
        async with working(operations=operations) as world:
            jobs = [world.ask(*names.split()) for names in steps]
            await asyncio.wait(jobs)
            assert [names.split() for names in steps] == [told(job) for job in jobs]
            return world.store.log

    assert log == run_virtual(main())


def test_more_than_one_transaction_takes_is_refused_at_once():
    async def main():
        async with working(operations=3) as world:
            wide, other = world.ask("a", "b", "c"), world.ask("d")
            await asyncio.wait([wide, other])
            with pytest.raises(TooWideError) as refused:
                wide.result()
            return str(refused.value), told(other), world.store.log

    text = (
        "3 allocations change together; this store takes 2 in one transaction: "
        "ask for fewer at once"
    )
    assert (text, ["d"], ["d +"]) == run_virtual(main())


@pytest.mark.parametrize(
    ("sizes", "log"),
    [
        ([0, 0], ["a b +"]),
        ([1000, 0], ["a b +"]),
        ([1001, 0], ["a +", "b +"]),
        ([0, 1001], ["a +", "b +"]),
        ([9000, 9000], ["a +", "b +"]),
        ([0, 0, 1000], ["a b +", "c +"]),
    ],
    ids=str,
)
def test_a_batch_of_more_than_one_has_so_many_bytes(monkeypatch, sizes, log):
    async def main():
        async with working() as world:
            plain = sum(len(op.value) for op in world.ledger.operations([record("a")], []))
            more = len('"fingerprint":"",')
            monkeypatch.setattr(module, "MAX_BYTES", 2 * plain + more + 1000)
            jobs = [world.ask(name, size=size) for name, size in zip("abc", sizes, strict=False)]
            await asyncio.wait(jobs)
            return world.store.log

    assert log == run_virtual(main())


def test_what_did_not_fit_goes_before_what_comes_meanwhile():
    async def main():
        async with working(operations=3) as world:
            jobs = [world.ask(name) for name in "abc"]
            await asyncio.sleep(0.5)
            jobs += [world.ask(name) for name in "de"]
            await asyncio.wait(jobs)
            return world.store.log

    assert ["a b +", "c +", "d e +"] == run_virtual(main())


def test_who_no_longer_waits_is_not_decided():
    async def main():
        async with working() as world:
            jobs = [world.ask(name) for name in "abc"]
            await asyncio.sleep(0)
            jobs[1].cancel()
            await asyncio.wait(jobs)
            return world.decided, world.store.log

    decided, log = run_virtual(main())
    assert ["a c +"] == log
    assert ["a", "c"] == decided


def test_what_changes_nothing_writes_nothing_and_is_answered():
    async def main():
        async with working() as world:
            return await world.ask(), world.store.log, world.pauses

    assert ([], [], []) == run_virtual(main())


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Unavailable("away"), "UnavailableError: the store did not take it: away"),
        (ValueError("odd"), "UnavailableError: writing failed: odd"),
    ],
)
def test_what_a_store_did_not_take_is_as_it_was_before(problem, said):
    """Also what was to be replaced, or was to go, and what was decided on top of it."""

    async def main():
        async with working() as world:
            await asyncio.wait([world.ask(*"abc")])
            before = dict(world.ledger.records)
            world.store.fails = [problem]
            jobs = [world.ask("a", size=9), world.ask(gone=("b",)), world.ask("d")]
            await asyncio.sleep(0.5)
            jobs.append(world.ask("c", size=9, again=BayplanError("twice")))
            await asyncio.wait(jobs)
            assert before == world.ledger.records
            assert dict.fromkeys("abc", 1) == world.ledger.by_site["s"]
            assert ["e"] == await world.ask("e")
            return [told(job) for job in jobs]

    last = said if isinstance(problem, ValueError) else "BayplanError: twice"
    assert [said, said, said, last] == run_virtual(main())


def test_what_a_store_did_although_it_failed_stays_gone():
    """The watch was faster than the failure."""

    async def main():
        async with working() as world:
            await world.ask(*"ab")
            whole = world.store.transact

            async def lost(ops):
                await whole(ops)
                await rest()
                raise Unavailable("the connection broke")

            world.store.transact = lost
            job = world.ask(gone=("a",))
            await asyncio.wait([job])
            return told(job)[:11], dict(world.ledger.by_site["s"])

    assert ("Unavailable", {"b": 1}) == run_virtual(main())


def test_what_others_wrote_meanwhile_makes_what_was_decided_ahead_void():
    async def main():
        async with working() as world:
            jobs = [world.ask("a")]
            await asyncio.sleep(0.5)
            jobs.append(world.ask("b", again=BayplanError("now it is full")))
            await asyncio.sleep(0.25)
            world.ledger.others += 1
            await asyncio.wait(jobs)
            return [told(job) for job in jobs], world.decided, sorted(world.ledger.records)

    answers = [["a"], "BayplanError: now it is full"]
    assert (answers, [*"abb"], ["a"]) == run_virtual(main())


def test_what_takes_nothing_moves_no_key():
    async def main():
        async with working() as world:
            await world.ask("a", take=False)
            await world.ask("b")
            await world.ask("b")  # what it had before it takes again: that is new
            await world.ask(gone=("b",))
            return world.store.log, sorted(world.ledger.records)

    assert (["a", "b +", "b +", "b"], ["a"]) == run_virtual(main())


@pytest.mark.parametrize("ahead", [False, True])
def test_a_step_that_breaks_fails_alone(ahead):

    async def main():
        async with working() as world:
            first = world.ask("a")
            await asyncio.sleep(0.5 if ahead else 2.0)
            jobs = [world.ask("b"), world.ask("c", fails=ValueError("odd")), world.ask("d")]
            await asyncio.wait([first, *jobs])
            last = await world.ask("e")
            await asyncio.sleep(0)
            there = sorted(world.ledger.records)
            return [told(job) for job in (first, *jobs)], last, there

    answers, last, there = run_virtual(main())

    assert [["a"], ["b"], "UnavailableError: deciding failed: odd", ["d"]] == answers
    assert ["e"] == last
    assert [*"abde"] == there


def test_a_refusal_is_told_to_who_asked_and_the_others_go_on():
    async def main():
        async with working() as world:
            jobs = [world.ask("a"), world.ask("b", fails=BayplanError("no")), world.ask("c")]
            await asyncio.wait(jobs)
            return [told(job) for job in jobs], world.store.log

    assert ([["a"], "BayplanError: no", ["c"]], ["a c +"]) == run_virtual(main())


def test_a_store_that_fails_is_told_and_what_comes_later_is_decided_anew():
    """What was decided on top is decided once more, without what failed."""

    async def main():
        async with working() as world:
            world.store.fails = [Unavailable("away")]
            jobs = [world.ask("a"), world.ask("b")]
            await asyncio.sleep(0.5)
            jobs.append(world.ask("c"))
            await asyncio.wait(jobs)
            return [told(job) for job in jobs], world.decided, world.ledger.records.keys()

    away = "UnavailableError: the store did not take it: away"
    answers, decided, there = run_virtual(main())
    assert [away, away, ["c"]] == answers
    assert [*"abcc"] == decided
    assert {"c"} == there


@pytest.mark.parametrize("lost", [Conflict("k", None, 1), NotFound("k")], ids=["moved", "gone"])
def test_who_loses_against_others_tries_again_ever_later_and_not_for_ever(monkeypatch, lost):
    monkeypatch.setattr(module, "TRIES", 4)

    async def main():
        async with working() as world:
            world.store.fails = [lost] * 4
            job = world.ask("a")
            await asyncio.wait([job])
            return told(job), world.decided, world.pauses, dict(world.ledger.records)

    said = "UnavailableError: other schedulers were faster 4 times; try again"
    assert (said, ["a"] * 4, [0.0005, 0.001, 0.002, 0.004], {}) == run_virtual(main())


def test_who_is_behind_waits_for_what_the_other_wrote_but_not_for_ever():
    async def main():
        async with working() as world:
            world.store.fails = [Conflict("k", KeyValue("k", b"", 1, 10**6), 1)]
            await world.ask("a")
            return world.pauses

    assert [*[0.001] * 1000, 0.0005] == run_virtual(main())


def test_who_lost_once_is_written_with_what_was_decided_meanwhile():
    async def main():
        async with working() as world:
            world.store.fails = [Conflict("k", KeyValue("k", b"", 1, 0), 1)]
            jobs = [world.ask("a")]
            await asyncio.sleep(0.5)
            jobs.append(world.ask("b"))
            await asyncio.wait(jobs)
            return [told(job) for job in jobs], world.decided, world.store.log

    assert ([["a"], ["b"]], [*"abab"], ["a +", "a b +"]) == run_virtual(main())


# -- the end


def test_at_the_end_what_is_written_is_finished_and_what_waits_is_refused():
    async def main():
        async with working() as world:
            jobs = [world.ask("a")]
            await asyncio.sleep(0.25)
            jobs.append(world.ask("b"))
            await asyncio.sleep(0.25)
            await world.writer.refuse(HOUR)
            ended = asyncio.get_running_loop().time()
            jobs.append(world.ask("c"))
            await asyncio.wait(jobs)
            return [told(job) for job in jobs], ended, sorted(world.ledger.records)

    stopping = f"UnavailableError: {module.STOPPING}"
    assert ([["a"], stopping, stopping], 1.0, ["a"]) == run_virtual(main())


def test_at_the_end_a_store_that_hangs_is_waited_for_with_patience():
    async def main():
        async with working() as world:
            job = world.ask("a")
            await asyncio.sleep(0.25)
            await world.writer.refuse(0.5)
            ended = asyncio.get_running_loop().time()
            assert not job.done()
            world.writer.give_up()
            await asyncio.wait([job])
            await world.writer.refuse(HOUR)  # until the store is done with it after all
            return told(job), ended

    said = f"UnavailableError: {module.STOPPING} and the store did not answer"
    assert (said, 0.75) == run_virtual(main())


def test_nobody_is_waited_for_where_nothing_is_written():
    async def main():
        async with working() as world:
            await world.ask("a")
            await rest()
            before = asyncio.get_running_loop().time()
            await world.writer.refuse(HOUR)
            assert 0 == world.writer.waiting
            return asyncio.get_running_loop().time() - before

    async def unborn():
        async with asyncio.timeout(HOUR):
            await World().writer.refuse(HOUR)
        return asyncio.get_running_loop().time()

    assert 0.0 == run_virtual(main()) == run_virtual(unborn())


# -- beside others


def crowd(world, *names):
    """As if another scheduler had staged records of these names."""
    held = Held(7, {name: (b"", record(name)) for name in names})
    world.ledger.staged[f"{STAGED}other/1"] = held


def test_who_met_others_stages_so_many_batches_and_then_writes_alone_again(monkeypatch):
    monkeypatch.setattr(module, "CROWDED", 3)

    async def main():
        async with working() as world:
            await world.ask("a")
            crowd(world, "x")
            await world.ask("b")
            world.ledger.staged.clear()
            for name in "cde":
                await world.ask(name)
            return world.store.log

    assert [
        "a +",
        *("me/stage0 +", "b me/stage0"),
        *("me/stage1 +", "c me/stage1"),
        *("me/stage2 +", "d me/stage2"),
        "e +",
    ] == run_virtual(main())


def test_the_key_that_another_moved_makes_the_next_batches_staged(monkeypatch):
    monkeypatch.setattr(module, "CROWDED", 2)

    async def main():
        async with working() as world:
            world.store.fails = [Conflict(TAKING, KeyValue(TAKING, b"", 1, 0), 1)]
            for name in "abc":
                await world.ask(name)
            return world.store.log

    assert [
        "a +",
        *("me/stage0 +", "a me/stage0"),
        *("me/stage1 +", "b me/stage1"),
        "c +",
    ] == run_virtual(main())


def test_what_takes_nothing_is_never_staged():
    async def main():
        async with working(crowded=9) as world:
            await world.ask("a", take=False)
            return world.store.log

    assert ["a"] == run_virtual(main())


def test_what_no_longer_holds_is_decided_again_with_what_may_have_hung_on_it():
    refuse = ["b"]

    def holds(one, new, known):
        assert [one.groups[0]] == new
        return refuse != [one.id] or not refuse.pop()

    async def main():
        async with working(holds=holds, crowded=9) as world:
            jobs = [world.ask(*names) for names in ("a", "b", "", "c")]
            await asyncio.wait(jobs)
            return world, [told(job) for job in jobs]

    world, answers = run_virtual(main())
    assert [["a"], ["b"], [], ["c"]] == answers
    assert ["a", "b", "", "c", "b", ""] == world.decided
    assert ["me/stage0 +", "a c me/stage0", "me/stage1 +", "b me/stage1"] == world.store.log
    assert 2 == world.ledger.conflicts


def test_what_no_longer_holds_is_given_back():
    async def main():
        async with working(holds=lambda *_: False, crowded=9) as world:
            job = world.ask("a", again=BayplanError("now it is full"))
            await asyncio.wait([job])
            return told(job), world.ledger.records, world.ledger.by_site["s"]

    assert ("BayplanError: now it is full", {}, {}) == run_virtual(main())


def test_only_what_is_taken_anew_has_to_hold():
    """Of a record that grows, what it had before is its own."""
    seen = []

    async def main():
        async with working(holds=lambda _, new, __: seen.append(new) or True, crowded=9) as world:
            await world.ask("a")
            one = world.ledger.records["a"]
            grown = msgspec.structs.replace(one, groups=(*one.groups, *record("b").groups))
            await world.writer.do(lambda: (None, ([grown], [])))
            await world.writer.do(lambda: (None, ([one], [])))
            assert [[one.groups[0]], [grown.groups[1]]] == seen
            assert seen[1][0] is grown.groups[1]
            return world.store.log[-1]

    assert "a" == run_virtual(main()), "who gives back stages nothing"


def test_a_stage_is_taken_back_when_its_records_cannot_be_written():
    async def main():
        async with working(crowded=9) as world:
            world.store.fails = [None, Unavailable("away")]
            job = world.ask("a")
            await asyncio.wait([job])
            await rest()
            return told(job), world.store.log, dict(world.ledger.staged)

    log = ["me/stage0 +", "a me/stage0", "me/stage0"]
    said = "UnavailableError: the store did not take it: away"
    assert (said, log, {}) == run_virtual(main())


def test_where_nothing_holds_it_is_tried_again_a_moment_later():
    refuse = [1, 1]

    async def main():
        async with working(holds=lambda *_: not (refuse and refuse.pop()), crowded=9) as world:
            await world.ask("a")
            return world

    world = run_virtual(main())
    assert [0.0005, 0.001] == world.pauses
    assert ["a"] * 3 == world.decided
    assert {"a"} == world.ledger.records.keys()


def test_who_is_refused_while_others_have_something_staged_is_tried_again(monkeypatch):
    monkeypatch.setattr(module, "REFUSALS", 3)

    async def main():
        async with working() as world:
            crowd(world, "x")
            job = world.ask("a", fails=BayplanError("full"))
            await asyncio.wait([job])
            return told(job), world.decided, world.pauses

    assert ("BayplanError: full", ["a"] * 4, [0.0005, 0.001, 0.002]) == run_virtual(main())


@pytest.mark.parametrize("arrives", [False, True])
def test_who_never_sees_its_own_stage_gives_up_and_takes_it_back(monkeypatch, arrives):
    monkeypatch.setattr(module, "STAGE_SECONDS", 30.0)

    async def main():
        world = World(crowded=9)
        running = asyncio.create_task(world.writer.run())
        async with asyncio.timeout(HOUR):
            job = world.ask("a")
            if arrives:
                await asyncio.sleep(29.0)
                following = asyncio.create_task(world.ledger.follow())
            await asyncio.wait([job])
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if arrives:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            return told(job), world.store.log, [*world.ledger.records], [*world.ledger.staged]

    said = "UnavailableError: the store did not take it: what others wrote did not arrive"
    log = ["me/stage0 +", "a me/stage0"] if arrives else ["me/stage0 +", "me/stage0"]
    answer, there = (["a"], ["a"]) if arrives else (said, [])
    assert (answer, log, there, []) == run_virtual(main())


@pytest.mark.parametrize(("looks", "log"), [(2, []), (3, ["other/1"])])
def test_the_stage_of_who_is_gone_is_removed_after_some_looks(monkeypatch, looks, log):
    monkeypatch.setattr(module, "STAGE_LOOKS", 2)

    async def main():
        world = World()
        crowd(world, "x")
        for _ in range(looks):
            await world.writer.sweep()
        return world.store.log

    assert log == run_virtual(main())
