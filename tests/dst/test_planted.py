"""Each invariant can fail: a bug is planted, and some seed finds it."""

import asyncio
import os
import re
import signal
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bayplan.apiserver import capacity
from bayplan.apiserver.subresources import binding
from bayplan.cli import dst
from bayplan.cli.dst import command
from bayplan.client.fence import FencedTransport
from bayplan.client.leaderelection import LeaderElector
from bayplan.controllers.replicaset import ReplicaSetController
from bayplan.dst import invariants, registers, truth
from bayplan.dst.plan import SECONDS, plan
from bayplan.dst.shrink import shrink
from bayplan.dst.world import run
from bayplan.engine.queue.queue import SchedulingQueue
from bayplan.global_scheduler import service
from bayplan.global_scheduler.ledger import COMMITTED, Ledger
from bayplan.scheduler.performer import Performer
from bayplan.store import history, sqlite
from bayplan.store.sqlite_writer import Commits


def acknowledge_unwritten(patch):
    write, count = Commits._write, iter(range(10**9))
    patch.setattr(
        Commits, "_write", lambda self, w: None if next(count) % 50 == 49 else write(self, w)
    )


def delete_in_words_only(patch):
    delete = sqlite.SqliteStore.delete

    async def idle(self, key, *, expect=None):
        found = await self.get(key)
        if found is not None and "apps/deployments" in key:
            return found
        return await delete(self, key, expect=expect)

    patch.setattr(sqlite.SqliteStore, "delete", idle)


def tell_of_another_write(patch):
    put, count = sqlite.SqliteStore.put, iter(range(10**9))

    async def mistaken(self, key, value, *, expect=None):
        made = await put(self, key, value, expect=expect)
        if next(count) % 50 == 49:
            return msgspec.structs.replace(made, mod_revision=made.mod_revision - 1)
        return made

    patch.setattr(sqlite.SqliteStore, "put", mistaken)


def use_a_revision_twice(patch):
    past_of = sqlite.past_of

    def forgetful(loaded, **limits):
        past = past_of(loaded, **limits)
        past.revision -= 3
        return past

    patch.setattr("bayplan.dst.disk.past_of", forgetful)


def skip_a_change_for_watches(patch):
    dispatch, count = history.History._dispatch, iter(range(10**9))

    def forgetful(self, event):
        if event.kv.key.startswith("core/pods/") and next(count) % 20 == 19:
            for group in self._groups.values():
                if group.prefix == "":
                    group.append(event)
            return
        dispatch(self, event)

    patch.setattr(history.History, "_dispatch", forgetful)


def bind_what_is_bound(patch):
    patch.setattr(binding, "_check_pod", lambda pod: None)


def look_at_no_capacity(patch):
    async def none(*given):
        return None

    patch.setattr(capacity, "check", none)


def sell_what_others_took(patch):
    write = Ledger.write
    patch.setattr(Ledger, "write", lambda self, ops, *, taking: write(self, ops, taking=False))


def forget_a_pod(patch):
    add, count = SchedulingQueue.add, iter(range(10**9))

    def forgetful(self, *given, **named):
        return None if next(count) % 10 == 9 else add(self, *given, **named)

    patch.setattr(SchedulingQueue, "add", forgetful)


def hear_nothing_any_more(patch):
    """Be deaf to users' pods when the faults are over: only work that comes then shows it."""
    add = SchedulingQueue.add

    def deaf(self, pod, *given, **named):
        late = asyncio.get_running_loop().time() > SECONDS + 10.0
        if not (late and pod.metadata.name.startswith("p")):
            add(self, pod, *given, **named)

    patch.setattr(SchedulingQueue, "add", deaf)


def write_without_the_lease(patch):
    """Never end the work, as behind a thread that waits for ever, and have no fence."""
    renew = LeaderElector._renew

    async def never(self):
        await renew(self)
        await asyncio.get_running_loop().create_future()

    patch.setattr(LeaderElector, "_renew", never)
    patch.setattr(FencedTransport, "request", lambda self, *given: self._inner.request(*given))


def take_a_lease_that_is_held(patch):
    note = LeaderElector._note

    def hasty(self, raw):
        found = note(self, raw)
        self._seen_at -= 12.0
        return found

    patch.setattr(LeaderElector, "_note", hasty)


def never_answer(patch):
    bind, count = binding.bind, iter(range(10**9))

    async def silent(backend, request):
        if next(count) % 10 == 9:
            await asyncio.get_running_loop().create_future()
        return await bind(backend, request)

    patch.setattr("bayplan.apiserver.dispatch.bind", silent)


def never_allocate(patch):
    create, count = service.Allocations.create, iter(range(10**9))

    async def silent(self, *given, **named):
        if next(count) % 5 == 4:
            await asyncio.get_running_loop().create_future()
        return await create(self, *given, **named)

    patch.setattr(service.Allocations, "create", silent)


def make_too_few(patch):
    async def idle(self, owner, active):
        return

    patch.setattr(ReplicaSetController, "_scale", idle)


def expire_what_is_kept(patch):
    async def replaced(self, identity):
        old = self.get(identity)
        kept = msgspec.structs.replace(old, state=COMMITTED, expires=old.expires)

        return await self.writer.do(lambda: (kept, ([kept], [])))

    patch.setattr(service.Allocations, "commit", replaced)
    patch.setattr(service, "_expired", lambda record, now: 0 < record.expires <= now)


def commit_nothing(patch):
    async def idle(self, identity):
        return self.get(identity)

    patch.setattr(service.Allocations, "commit", idle)


def release_nothing(patch):
    async def idle(self, identity, *, expired_at=None):
        return self.get(identity)

    patch.setattr(service.Allocations, "release", idle)


def remember_what_others_released(patch):
    forget = Ledger._forget

    def deaf(self, kv):
        if kv.key[-1] in "01234567":
            forget(self, kv)

    patch.setattr(Ledger, "_forget", deaf)


def fail_in_a_controller(patch):
    async def broken(self, owner, active):
        raise ValueError("planted")

    patch.setattr(ReplicaSetController, "_scale", broken)


def end_an_election(patch):
    async def broken(self):
        raise ValueError("planted")

    patch.setattr(LeaderElector, "_acquire", broken)


def fail_in_a_worker(patch):
    async def broken(self, *given):
        raise ValueError("planted")

    patch.setattr(Performer, "_bind", broken)


def read_the_past(patch):
    get = sqlite.SqliteStore.get
    kept = {}

    async def stale(self, key, *, revision=0):
        found = await get(self, key, revision=revision)
        if "configmaps/default/r" in key and found is not None:
            return kept.setdefault(key, found)
        return found

    patch.setattr(sqlite.SqliteStore, "get", stale)


PLANTED = [
    (truth.LOST, acknowledge_unwritten),
    (truth.LOST, delete_in_words_only),
    (truth.LOST, tell_of_another_write),
    (truth.LOST, expire_what_is_kept),
    (truth.LOST, commit_nothing),
    (truth.LOST, release_nothing),
    (truth.GROW, use_a_revision_twice),
    (truth.WATCH, skip_a_change_for_watches),
    (invariants.BOUND, bind_what_is_bound),
    (invariants.ROOM, look_at_no_capacity),
    (invariants.STOCK, sell_what_others_took),
    (invariants.SOMEWHERE, forget_a_pod),
    (invariants.SOMEWHERE, hear_nothing_any_more),
    (invariants.LEASE, write_without_the_lease),
    (invariants.LEASE, take_a_lease_that_is_held),
    (invariants.ENDS, never_answer),
    (invariants.ENDS, never_allocate),
    (invariants.UNSEEN, fail_in_a_controller),
    (invariants.UNSEEN, end_an_election),
    (invariants.UNSEEN, fail_in_a_worker),
    (invariants.CONVERGE, make_too_few),
    (invariants.CONVERGE, remember_what_others_released),
    (registers.LINEAR, read_the_past),
]


# Which seed finds it with the least work, where that is not 0; the others are still tried.
SOONEST = {
    "bind_what_is_bound": 7,
    "write_without_the_lease": 1,
    "never_answer": 3,
    "make_too_few": 1,
    "remember_what_others_released": 1,
    "read_the_past": 1,
}


@pytest.mark.parametrize(
    ("invariant", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED]
)
def test_a_planted_bug_is_found(invariant, plant, monkeypatch):
    plant(monkeypatch)

    found = {}
    for seed in sorted(range(12), key=lambda seed: (seed != SOONEST.get(plant.__name__, 0), seed)):
        found[seed] = run(seed).invariant
        if found[seed] == invariant:
            return
    pytest.fail(f"no seed broke it; found: {found}")


def test_every_invariant_has_a_planted_bug():
    """Whatever `Broken` is raised with anywhere in the simulation is in the list."""
    folder = Path(truth.__file__).parent
    texts = [path.read_text("utf-8") for path in folder.glob("*.py")]
    raised = {name for text in texts for name in re.findall(r"\bBroken\(\s*(.+?),", text)}

    assert raised == {
        name
        for module in (truth, invariants, registers)
        for name, value in vars(module).items()
        if isinstance(value, str) and value in {invariant for invariant, _ in PLANTED}
    }


def test_a_plan_is_shrunk_to_the_steps_that_matter():
    steps = plan(5)
    needed = {steps[3], steps[20], steps[21]}

    assert [steps[3], steps[20], steps[21]] == shrink(steps, lambda some: needed <= {*some})


def test_the_command_tells_seed_and_trace(monkeypatch):
    use_a_revision_twice(monkeypatch)

    said = CliRunner().invoke(command, ["--seeds", "3", "--first", "7"])

    assert 1 == said.exit_code
    assert "seed 7 fails: revisions only grow" in said.output
    assert "again: bayplan-dst --first 7 --seeds 1" in said.output


def test_the_command_counts_what_held():
    said = CliRunner().invoke(command, ["--seeds", "1", "--first", "3", "--trace"])

    assert 0 == said.exit_code, said.output
    assert "1 seed from 3: nothing broke" in said.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_counts_what_held_when_it_is_stopped(number, monkeypatch):
    def held(seed):
        if seed == 42:
            os.kill(os.getpid(), number)
        return dst._Outcome(False, 10, "", [])

    monkeypatch.setattr(dst, "_run", held)
    before = signal.getsignal(number)

    said = CliRunner().invoke(command, ["--seeds", "1000", "--first", "40"])

    assert 0 == said.exit_code, said.output
    assert "3 seeds from 40: nothing broke; 30 changes" in said.output
    assert "go on with --first 43" in said.output
    assert before == signal.getsignal(number)
