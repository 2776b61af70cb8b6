"""Feeds a board from a running cluster: two informers, and the scheduler's queue where it is here.

Pods that have finished are left out by the server, as the scheduler does it. The rest of the
cluster is read (get and list) when somebody asks a question.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from bayplan.api import Node, Object, Pod
from bayplan.client import Change, Client, Informer
from bayplan.client.resources import NODES, PODS
from bayplan.errors import BayplanError
from bayplan.inspect import Cluster, Settings
from bayplan.inspect.sources.live import read_client
from bayplan.page.board import Board
from bayplan.page.reach import Reach
from bayplan.page.rows import ACTIVE, BACKOFF, BINDING, GATED, UNSCHEDULABLE, WAITING
from bayplan.page.sources import Living

RUNNING_PODS = "status.phase!=Succeeded,status.phase!=Failed"
PATIENCE = 30.0
KEPT = 3.0
MOST_ASKED = 2000

WORDS = {
    "active": ACTIVE,
    "backoff": BACKOFF,
    "error backoff": BACKOFF,
    "unschedulable": UNSCHEDULABLE,
    "gated": GATED,
    "waiting": WAITING,
    "pre bind": BINDING,
    "binding": BINDING,
    "assumed": BINDING,
    "in flight": ACTIVE,
}
"""The scheduler's words for where a pod is, and the place that the page shows."""


class Reader:
    """Reads the cluster for questions; a picture is kept for a moment, for the next question."""

    def __init__(self, client: Client, name: str, settings: Settings | None = None) -> None:
        self._client = client
        self._name = name
        self._settings = settings
        self._kept: Cluster | None = None
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def __call__(self) -> Cluster:
        async with self._lock:
            if self._kept is None or time.monotonic() > self._until:
                objects, origin = await read_client(self._client, self._name)
                self._kept = Cluster(objects, origin=origin, settings=self._settings)
                self._until = time.monotonic() + KEPT
            return self._kept


@asynccontextmanager
async def watching(
    client: Client, name: str, settings: Settings | None = None, *, asks_scheduler: bool = False
) -> AsyncIterator[Living]:
    """Watch a cluster while the block runs; its nodes and pods are known when it begins."""
    source = Living(name, Reader(client, name, settings), asks_scheduler=asks_scheduler)
    board = source.board

    def changed(changes: Sequence[Change[Object]]) -> None:
        for kind, item, old in changes:
            source.past.note(item, old)
            if kind == "DELETED":
                board.delete(item)
            else:
                board.put(item)

    informers: list[Informer[Object]] = [
        Informer(client, NODES, Node, jitter=random.random),
        Informer(client, PODS, Pod, field_selector=RUNNING_PODS, jitter=random.random),
    ]
    for informer in informers:
        informer.add_handler(changed)
    source.reach = reach = Reach(client, informers, time.time)
    running: asyncio.Task[None] | None = None
    try:
        try:
            async with asyncio.timeout(PATIENCE):
                for resource in (NODES, PODS):  # raises what informers would try for ever
                    await client.list(resource, limit=1)
                running = asyncio.create_task(reach.run())
                for informer in informers:
                    await informer.wait_synced()
        except TimeoutError:
            raise BayplanError(
                f"listing nodes and pods of {name}: no answer within {PATIENCE:g} s; "
                "check the kubeconfig and that both may be listed"
            ) from None
        board.begin()
        source.past.begin()
        yield source
    finally:
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def queue_places(board: Board, place_of: Callable[[str], str]) -> Callable[[], None]:
    """Return what brings the places of waiting pods up to date, some at a time."""
    seen: list[int] = []

    def refresh() -> None:
        if not seen:
            seen.extend(board.waiting)
        for _ in range(min(MOST_ASKED, len(seen))):
            slot = seen.pop()
            key = board.key_of(slot)
            if slot in board.waiting and key:
                found = place_number(place_of(key))
                if found is not None:
                    board.place(slot, found)

    return refresh


def place_number(words: str) -> int | None:
    """Return the place for the scheduler's words, None for words that say nothing."""
    for separator in (" on ", " by "):
        words = words.partition(separator)[0]
    return WORDS.get(words)
