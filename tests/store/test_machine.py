"""Whatever is done in whatever order, a store agrees with a dictionary that keeps everything.

The same machine runs on every kind of store; the durable ones are closed and opened in between.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bayplan.clock import VirtualLoop
from bayplan.store import (
    Check,
    Compacted,
    Conflict,
    Delete,
    Event,
    KeyValue,
    MemoryStore,
    NotFound,
    Op,
    Put,
    SqliteStore,
    Store,
    Unavailable,
    Watcher,
)
from bayplan.store import etcd as etcd_store
from bayplan.store.etcd import EtcdStore
from bayplan.testing.etcd import EtcdServer
from tests.store.conftest import fresh_root, open_plain
from tests.store.plain_etcd import PlainEtcd

T = TypeVar("T")
KEYS = [f"/{folder}/{name}" for folder in ("a", "a/b", "ab", "c") for name in ("x", "y", "xy")]
keys = st.sampled_from(KEYS)
prefixes = st.sampled_from(["", "/", "/a", "/a/", "/a/b/", "/ab/", "/c/x", "/none/"])
values = st.binary(max_size=4)
# How the expected revision relates to the true one.
expects = st.sampled_from(["any", "absent", "current", "stale", "wrong"])


class Model:
    """What the store should hold: all states there ever were, by revision."""

    def __init__(self, revision: int) -> None:
        self.now: dict[str, KeyValue] = {}
        self.states: list[tuple[int, dict[str, KeyValue]]] = [(revision, {})]
        self.events: list[tuple[KeyValue, KeyValue | None, bool]] = []
        self.compacted = 0

    def apply(self, ops: list[Op], written: list[KeyValue]) -> None:
        results = iter(written)
        changes = [op for op in ops if not isinstance(op, Check)]
        # etcd tells a transaction's events in key order or in order of the operations.
        for op in changes:
            kv = next(results)
            prev = self.now.get(op.key)
            self.events.append((kv, prev, isinstance(op, Delete)))
            if isinstance(op, Delete):
                del self.now[op.key]
            else:
                self.now[op.key] = kv
        if written:
            self.states.append((written[0].mod_revision, dict(self.now)))

    def problem(self, ops: list[Op]) -> type[Exception] | None:
        for op in ops:
            current = self.now.get(op.key)
            if current is None and isinstance(op, Delete):
                return NotFound
            if op.expect is not None and op.expect != (current.mod_revision if current else 0):
                return Conflict
        return None


class StoreMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"
    server: ClassVar[EtcdServer | None] = None
    loop: ClassVar[Callable[[], asyncio.AbstractEventLoop] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=self.loop)
        self.folder = tempfile.TemporaryDirectory()
        self.root = fresh_root()
        self.store: Store
        self.watchers: list[tuple[Watcher, str, int, list[Event]]] = []

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(what)

    async def open(self) -> Store:
        if self.kind == "memory":
            return MemoryStore()
        if self.kind == "sqlite":
            return await SqliteStore.open(Path(self.folder.name), synchronous="NORMAL")
        assert self.server is not None
        return await EtcdStore.open([self.server.url], root=self.root, compact_seconds=0)

    @initialize()
    def start(self) -> None:
        self.store = self.run(self.open())
        self.model = Model(self.store.revision)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.read_watchers()
            self.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    def expectation(self, key: str, how: str) -> int | None:
        current = self.model.now.get(key)
        revision = current.mod_revision if current else 0
        older = [kv.mod_revision for kv, _, _ in self.model.events if kv.key == key]
        return {
            "any": None,
            "absent": 0,
            "current": revision,
            "stale": older[0] if older else revision,
            "wrong": revision + 1,
        }[how]

    def do(self, ops: list[Op]) -> None:
        problem = self.model.problem(ops)
        if problem is not None:
            with pytest.raises(problem):
                self.run(self.store.transact(ops))
            return
        self.model.apply(ops, self.run(self.store.transact(ops)))

    @rule(key=keys, value=values, how=expects)
    def put(self, key: str, value: bytes, how: str) -> None:
        expect = self.expectation(key, how)
        if self.model.problem([Put(key, value, expect)]) is None:
            kv = self.run(self.store.put(key, value, expect=expect))
            assert (key, value) == (kv.key, kv.value)
            self.model.apply([Put(key, value, expect)], [kv])
        else:
            with pytest.raises(Conflict) as caught:
                self.run(self.store.put(key, value, expect=expect))
            assert self.model.now.get(key) == caught.value.current

    @rule(key=keys, how=expects)
    def delete(self, key: str, how: str) -> None:
        self.do([Delete(key, self.expectation(key, how))])

    @rule(
        parts=st.lists(
            st.tuples(keys, values, expects, st.sampled_from("ppdc")),
            max_size=4,
            unique_by=lambda part: part[0],
        )
    )
    def transact(self, parts: list[tuple[str, bytes, str, str]]) -> None:
        ops: list[Op] = []
        for key, value, how, verb in parts:
            expect = self.expectation(key, how)
            if verb == "p":
                ops.append(Put(key, value, expect))
            elif verb == "d":
                ops.append(Delete(key, expect))
            else:
                ops.append(Check(key, expect or 0))
        self.do(ops)

    @rule(burst=st.lists(st.tuples(keys, values), min_size=2, max_size=6, unique_by=lambda p: p[0]))
    def write_at_once(self, burst: list[tuple[str, bytes]]) -> None:
        async def write() -> list[KeyValue]:
            return await asyncio.gather(*(self.store.put(*part) for part in burst))

        for kv in sorted(self.run(write()), key=lambda kv: kv.mod_revision):
            self.model.apply([Put(kv.key, kv.value)], [kv])

    @rule(prefix=prefixes, limit=st.integers(0, 3), data=st.data())
    def read_the_past(self, prefix: str, limit: int, data: st.DataObject) -> None:
        revision, state = data.draw(st.sampled_from(self.model.states))
        after = data.draw(st.sampled_from(["", *KEYS]))
        if revision < self.model.compacted:
            with pytest.raises(Compacted):
                self.run(self.store.range(prefix, revision=revision))
            return
        expected = [state[key] for key in sorted(state) if key.startswith(prefix) and key > after]
        found = self.run(
            self.store.range(prefix, start_after=after, limit=limit, revision=revision)
        )
        assert expected[: limit or None] == found.items
        assert len(expected) - len(found.items) == found.remaining
        key = data.draw(keys)
        assert state.get(key) == self.run(self.store.get(key, revision=revision))

    @rule(prefix=prefixes, data=st.data())
    def watch(self, prefix: str, data: st.DataObject) -> None:
        revision, _ = data.draw(st.sampled_from(self.model.states))
        if revision < self.model.compacted:
            with pytest.raises(Compacted):
                self.store.watch(prefix, after=revision)
            return
        watcher = self.store.watch(prefix, after=revision)
        self.watchers.append((watcher, prefix, revision, []))

    @rule()
    def read_watchers(self) -> None:
        if self.model.events:
            newest = self.model.events[-1][0].mod_revision
            self.run(self.store.wait_for(newest))
        for watcher, prefix, after, seen in self.watchers:
            seen += watcher.take()
            expected = [
                event
                for event in self.model.events
                if event[0].mod_revision > after and event[0].key.startswith(prefix)
            ]
            revisions = [event.revision for event in seen]
            assert revisions == sorted(revisions)
            told = [(event.kv, event.prev, event.deleted) for event in seen]
            assert sorted(expected, key=_order) == sorted(told, key=_order)

    @precondition(lambda self: len(self.model.states) > 2)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        revision, _ = data.draw(st.sampled_from(self.model.states))
        self.run(self.store.compact(revision))
        self.model.compacted = max(self.model.compacted, revision)

    @precondition(lambda self: self.kind != "memory")
    @rule()
    def reopen(self) -> None:
        self.read_watchers()
        self.run(self.store.close())
        self.watchers.clear()
        self.store = self.run(self.open())
        if "etcd" in self.kind:
            # It can only compact whole transactions, and remembers what it did.
            self.model.compacted = min(self.model.compacted, self.store.compacted)

    @invariant()
    def reads_are_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        found = self.run(self.store.range(""))
        assert [self.model.now[key] for key in sorted(self.model.now)] == found.items
        assert found.revision >= self.model.states[-1][0]


def _order(event: tuple[KeyValue, KeyValue | None, bool]) -> tuple[int, str]:
    return event[0].mod_revision, event[0].key


class SqliteMachine(StoreMachine):
    kind = "sqlite"


class EtcdMachine(StoreMachine):
    kind = "etcd"


class PlainEtcdMachine(StoreMachine):
    """In virtual time, with streams that break at any moment."""

    kind = "plain etcd"
    loop = VirtualLoop

    def __init__(self) -> None:
        super().__init__()
        self.plain = PlainEtcd()

    async def open(self) -> Store:
        return await open_plain(self.plain, compact_seconds=0)

    @rule()
    def break_the_stream(self) -> None:
        self.plain.break_streams(Unavailable("it broke"))


def run_machine(machine: type[StoreMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_memory_store_agrees_with_the_model() -> None:
    run_machine(StoreMachine, 150)


def test_sqlite_store_agrees_with_the_model() -> None:
    run_machine(SqliteMachine, 100)


def test_etcd_store_agrees_with_the_model(etcd: EtcdServer) -> None:
    EtcdMachine.server = etcd
    run_machine(EtcdMachine, 8)


@pytest.mark.parametrize("page", [1, 3])
def test_a_store_in_a_plain_etcd_agrees_with_the_model(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few keys an answer of etcd holds."""
    monkeypatch.setattr(etcd_store, "PAGE", page)
    run_machine(PlainEtcdMachine, 20)
