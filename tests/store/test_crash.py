"""kill -9 at any moment loses nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bayplan.store import KeyValue, SqliteStore
from bayplan.store.memory import FIRST_REVISION

KILLS = int(os.environ.get("BAYPLAN_KILLS", "25"))
SEED = int(os.environ.get("BAYPLAN_SEED", "7"))
LINES = 100  # a writer is killed after at most so many acknowledged writes
CHILD = Path(__file__).with_name("crash_writer.py")


class Ledger:
    """What the children said was acknowledged, and the newest revision anybody saw."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[int, str]] = {}
        self.revisions: set[int] = set()
        self.newest = 0

    def read(self, output: bytes) -> None:
        lines = output.decode().split("\n")[:-1]  # the last one may be cut
        for line in lines:
            if line.startswith("open "):
                assert int(line.split()[1]) >= self.newest, "the store went back"
                continue
            first, *writes = line.split("\t")
            revision = int(first)
            assert revision not in self.revisions, "a revision was used twice"
            self.revisions.add(revision)
            self.newest = max(self.newest, revision)
            for write in writes:
                key, _, value = write.partition("=")
                if revision > self.values.get(key, (0, ""))[0]:
                    self.values[key] = (revision, value)


def run_and_kill(directory: Path, name: str, lines: int) -> bytes:
    """Start a writer, kill it while it goes on after so many lines, return what it said."""
    command = [sys.executable, CHILD, directory, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout is not None
        output = b""
        while output.count(b"\n") < lines:
            chunk = child.stdout.read(1 << 16)
            assert chunk, "the writer ended by itself"
            output += chunk
        child.kill()
        while chunk := child.stdout.read(1 << 20):
            output += chunk
    return output


def check(ledger: Ledger, items: list[KeyValue]) -> None:
    """Every key is what was acknowledged, or something newer that was not yet."""
    found = {kv.key: kv for kv in items}
    for key, (revision, value) in ledger.values.items():
        kv = found.get(key)
        if kv is None:
            # Deleted: by the acknowledged write, or by a later one that nobody was told of.
            continue
        if kv.mod_revision == revision:
            assert value == kv.value.decode()
        else:
            assert kv.mod_revision not in ledger.revisions
            assert kv.mod_revision > revision, f"{key} went back"


async def check_store(directory: Path, ledger: Ledger, resume: int) -> int:
    """Open the store in this process, compare, and return its revision."""
    store = await SqliteStore.open(directory, max_events=2000)
    try:
        assert store.revision >= ledger.newest
        check(ledger, store.range_now("").items)
        gone = {key for key, (_, value) in ledger.values.items() if value != "-"}
        gone -= {kv.key for kv in store.range_now("").items}
        # The events since the last kill lead from the state of then to the state of now.
        after = max(resume, store.compacted, FIRST_REVISION)
        state = {kv.key: kv for kv in store.range_now("", revision=after).items}
        deleted: dict[str, int] = {}
        for event in store.watch("", after=after).take():
            assert state.get(event.kv.key) == event.prev
            if event.deleted:
                del state[event.kv.key]
                deleted[event.kv.key] = event.revision
            else:
                state[event.kv.key] = event.kv
        assert [state[key] for key in sorted(state)] == store.range_now("").items
        # A key that is missing although its last acknowledged write was a put was deleted later.
        for key in gone:
            if ledger.values[key][0] > after:
                assert deleted[key] > ledger.values[key][0]
        # Both halves of a pair are there or none is: the half that exists alone was written so.
        for kv in state.values():
            if kv.key.startswith("/pair"):
                half = store.get_now(kv.key.removeprefix("/pair"))
                assert half is None or half.mod_revision >= kv.mod_revision
        return store.revision
    finally:
        await store.close()


@pytest.mark.slow
@pytest.mark.timeout(120 + 2 * KILLS)
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    ledger = Ledger()
    resume = 0
    for attempt in range(KILLS):
        output = run_and_kill(tmp_path, f"run{attempt}", rng.randrange(1, LINES))
        ledger.read(output)
        if attempt % 2 or attempt == KILLS - 1:
            # Every other time a child is the first to open what the kill left behind.
            resume = asyncio.run(check_store(tmp_path, ledger, resume))

    assert len(ledger.revisions) > KILLS * LINES // 4
