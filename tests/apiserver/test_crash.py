"""The server is killed at random moments under load, again and again, and loses nothing.

`BAYPLAN_KILLS=1000` kills it more often (`make attack`).

Four writers create, change and delete objects; a watcher follows and resumes from the last version
that it saw. At the end every acknowledged write is there, no version went back, and the watcher has
seen each change once, in order.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from bayplan.testing.ports import free_port

KILLS = int(os.environ.get("BAYPLAN_KILLS", "25"))
SEED = int(os.environ.get("BAYPLAN_SEED", "7"))
KEPT = 200  # objects of a writer, so that a start takes as long in the end as at first
WRITERS = 4
PATIENCE = 300.0  # seconds; the machine may be busy with other things
LIVES = (0.05, 0.35)  # seconds between a server's start and its end
COLLECTION = "/api/v1/namespaces/default/configmaps"
PROGRAM = Path(__file__).with_name("crash_server.py")
MERGE = {"Content-Type": "application/merge-patch+json"}
BROKEN = (aiohttp.ClientError, ConnectionError, TimeoutError, asyncio.IncompleteReadError)


class History:
    """What the server acknowledged, and what the watcher saw."""

    def __init__(self) -> None:
        self.alive: dict[str, int] = {}  # name → the newest value acknowledged
        self.deleted: set[str] = set()
        self.versions: set[int] = set()  # of acknowledged writes
        self.newest = 0
        self.seen: list[tuple[str, str, int]] = []
        self.relists = 0


async def write(session: aiohttp.ClientSession, writer: int, history: History) -> None:
    """Create, change twice and sometimes delete one object after the other."""
    for number in range(1_000_000):
        name = f"w{writer}-{number}"
        try:
            await one_object(session, name, number, history)
            await remove(session, f"w{writer}-{number - KEPT}", history)
        except BROKEN:
            await asyncio.sleep(0.005)


async def one_object(
    session: aiohttp.ClientSession, name: str, number: int, history: History
) -> None:
    body = {"metadata": {"name": name}, "data": {"n": "0"}}
    await acknowledged(session.post(COLLECTION, json=body), history)
    history.alive[name] = 0
    for value in (1, 2):
        patch = json.dumps({"data": {"n": str(value)}})
        request = session.patch(f"{COLLECTION}/{name}", data=patch, headers=MERGE)
        await acknowledged(request, history)
        history.alive[name] = value
    if number % 3 == 0:
        await remove(session, name, history)


async def remove(session: aiohttp.ClientSession, name: str, history: History) -> None:
    """Delete what is known to be there."""
    if history.alive.pop(name, None) is not None:
        await acknowledged(session.delete(f"{COLLECTION}/{name}"), history, answers_object=False)
        history.deleted.add(name)


async def acknowledged(request, history: History, *, answers_object: bool = True) -> None:
    async with request as answer:
        body = await answer.json()
        assert answer.status < 300, body
        if answers_object:
            version = int(body["metadata"]["resourceVersion"])
            assert version > history.newest or version not in history.versions
            history.versions.add(version)
            history.newest = max(history.newest, version)


async def follow(session: aiohttp.ClientSession, history: History) -> None:
    """Watch for ever, resuming from the last version seen."""
    version = ""
    while True:
        try:
            if not version:
                async with session.get(COLLECTION) as answer:
                    version = (await answer.json())["metadata"]["resourceVersion"]
                history.relists += 1
            path = f"{COLLECTION}?watch=1&resourceVersion={version}&allowWatchBookmarks=true"
            async with session.get(path, timeout=aiohttp.ClientTimeout(None)) as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    assert event["type"] != "ERROR", event
                    metadata = event["object"]["metadata"]
                    version = metadata["resourceVersion"]
                    history.seen.append((event["type"], metadata["name"], int(version)))
        except (*BROKEN, json.JSONDecodeError):
            await asyncio.sleep(0.005)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path):
    port = free_port()
    starter = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        str(tmp_path / "data"),
        str(port),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    history = History()
    pid = await start(starter)
    token = (tmp_path / "data" / "admin-token").read_text("utf-8").strip()
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers) as session:
        # aiohttp would send a DELETE again that the killed server had carried out: a 404 then.
        session._retry_connection = False
        watcher = asyncio.create_task(follow(session, history))
        await until(lambda: history.relists == 1, watcher)
        writers = [asyncio.create_task(write(session, n, history)) for n in range(WRITERS)]
        newest, rng = 0, random.Random(SEED)
        for _ in range(KILLS):
            await asyncio.sleep(rng.uniform(*LIVES))
            os.kill(pid, signal.SIGKILL)
            pid = await start(starter)
            now = await current_version(session)
            assert now >= max(newest, history.newest), "versions never go back"
            newest = now
        await stop(writers)
        final = await listed(session)
        last = int(final["metadata"]["resourceVersion"])
        await until(lambda: history.seen and history.seen[-1][2] >= last_change(final), watcher)
        await stop([watcher])
    os.kill(pid, signal.SIGTERM)
    starter.stdin.close()
    await starter.wait()
    assert last >= history.newest
    check(history, final)


async def start(starter: asyncio.subprocess.Process) -> int:
    starter.stdin.write(b"\n")
    async with asyncio.timeout(PATIENCE):
        return int(await starter.stdout.readline())


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [r for r in results if r and not isinstance(r, asyncio.CancelledError)]
    assert [] == failures


async def until(condition, task: asyncio.Task[None]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            if task.done():
                task.result()
            await asyncio.sleep(0.01)


async def current_version(session: aiohttp.ClientSession) -> int:
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(*BROKEN):
                async with session.get(f"{COLLECTION}?limit=1") as answer:
                    return int((await answer.json())["metadata"]["resourceVersion"])
            await asyncio.sleep(0.02)


async def listed(session: aiohttp.ClientSession):
    async with session.get(COLLECTION) as answer:
        return await answer.json()


def last_change(final) -> int:
    return max(int(item["metadata"]["resourceVersion"]) for item in final["items"])


def check(history: History, final) -> None:
    """Compare what was acknowledged and what was seen with what is there."""
    there = {
        i["metadata"]["name"]: int(i["data"].get("n", -1)) for i in final["items"] if "data" in i
    }
    lost = {name: n for name, n in history.alive.items() if there.get(name, -1) < n}
    assert {} == lost
    assert set() == {name for name in history.deleted if name in there}
    assert len(history.versions) > KILLS

    versions = [version for _, _, version in history.seen]
    assert versions == sorted(versions), "the watcher saw changes in order"
    assert len(versions) == len(set(versions)), "and none of them twice"
    assert history.versions <= set(versions), "and each acknowledged one"
    assert 1 == history.relists, "and never had to start anew"
