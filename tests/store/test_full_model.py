"""Writers beside each other, on a disk that is full or fails now and then, against a plain model.

The store and `Commits` are the real ones. The file is a list of what was committed, and the thread
is played in virtual time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
from collections.abc import Sequence
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.clock import run_virtual
from bayplan.dst.disk import Disk, VirtualWriter
from bayplan.store import Check, Delete, Event, Full, KeyValue, Put, SqliteStore, StoreError
from bayplan.store.history import History
from bayplan.store.protocol import Op
from bayplan.store.sqlite_file import Loaded, SqliteFile, takes_room
from bayplan.store.sqlite_writer import Undone

KEYS = "abcde"
TURNS = 12
LONG = 600.0  # virtual seconds; all that is written takes far less


class ChanceFile:
    """Holds what was committed; is full, or fails, as chance has it."""

    def __init__(self, rng: random.Random, full: float, broken: float) -> None:
        self._rng, self._full, self._broken = rng, full, broken
        self.committed: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        chance = self._rng.random()
        if chance < self._broken:
            raise sqlite3.OperationalError("disk I/O error")
        unlucky = any(map(takes_room, events)) or self._rng.random() < 0.1
        if chance < self._broken + self._full and unlucky:
            raise Full("full")
        self.committed += events

    def close(self) -> None:
        pass


class ChanceDisk:
    """Takes some time."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def wait(self) -> float:
        return self._rng.choice((0.0, 0.001, 0.01))

    def reach(self, moment: str) -> None:
        pass


class World:
    """A store, its clients and what they were told."""

    def __init__(self, seed: int, full: float, broken: float) -> None:
        self._rng = random.Random(seed)
        self._numbers = itertools.count()
        self.file = ChanceFile(self._rng, full, broken)
        self.told: list[tuple[Sequence[Op], list[KeyValue]]] = []
        disk = cast("Disk", ChanceDisk(self._rng))
        self.store = SqliteStore(
            cast("SqliteFile", self.file),
            Loaded([], [], 1, 0),
            History(revision=1),
            lambda file, _, report: VirtualWriter(disk, file, report),
        )

    async def client(self) -> None:
        for _ in range(TURNS):
            ops = self._ops()
            try:
                self.told.append((ops, await self.store.transact(ops)))
            except StoreError as error:
                assert not isinstance(error, Undone), "it is made again"
            if self._rng.random() < 0.3:
                await asyncio.sleep(self._rng.choice((0, 0.001, 0.02)))

    def _ops(self) -> list[Op]:
        found: list[Op] = []
        for key in self._rng.sample(KEYS, self._rng.choice((1, 1, 1, 2, 3))):
            known = self.store.get_now(key)
            revision = known.mod_revision if known else 0
            expect = self._rng.choice((None, revision))
            value = b"%d" % next(self._numbers) + bytes(self._rng.choice((0, 5000)))
            kinds: list[Op] = [Check(key, revision), Put(key, value, expect)]
            found.append(self._rng.choice([*kinds, Delete(key, expect)]))
        return found


def replayed(committed: Sequence[Event]) -> dict[int, dict[str, KeyValue]]:
    """Return what there was before each revision, and last what there is now."""
    states: dict[int, dict[str, KeyValue]] = {1: {}}
    now: dict[str, KeyValue] = {}
    for revision, events in itertools.groupby(committed, lambda event: event.kv.mod_revision):
        assert revision > max(states), "revisions go up"
        states[revision] = dict(now)
        for event in events:
            assert now.get(event.kv.key) == event.prev, "a write builds on what is there"
            if event.deleted:
                del now[event.kv.key]
            else:
                now[event.kv.key] = event.kv
    states[max(states) + 1] = now
    return states


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    full=st.sampled_from((0.0, 0.2, 0.7, 1.0)),
    broken=st.sampled_from((0.0, 0.1)),
    clients=st.integers(1, 12),
)
def test_what_is_acknowledged_and_nothing_else_is_committed_seen_and_built_on(
    seed: int, full: float, broken: float, clients: int
) -> None:
    async def run() -> None:
        world = World(seed, full, broken)
        watcher = world.store.watch("", after=1)
        async with asyncio.timeout(LONG):
            await asyncio.gather(*(world.client() for _ in range(clients)))
        seen, items = watcher.take(), world.store.range_now("").items
        await world.store.close()

        assert world.file.committed == seen
        states = replayed(seen)
        assert sorted(states[max(states)].values(), key=lambda kv: kv.key) == items
        acknowledged = [kv for _, written in world.told for kv in written]
        assert sorted(str(event.kv) for event in seen) == sorted(map(str, acknowledged))
        for ops, written in world.told:
            for op in ops if written else ():
                found = states[written[0].mod_revision].get(op.key)
                assert op.expect in (None, found.mod_revision if found else 0)

    run_virtual(run())
