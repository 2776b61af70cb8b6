"""Follows a collection of the store: reads it, hears of changes, reads again when it missed one.

`Following` does so in a task. `Changes` only tells whether there is something new, when asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from bayplan.store import Compacted, Event, Store, Watcher
from bayplan.supervised import end, supervised


class Following:
    """`load` reads the collection and returns the revision read; `hear` takes what came after."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        load: Callable[[], Awaitable[int]],
        hear: Callable[[list[Event]], Awaitable[object]],
        failures: Counter[str],
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._load = load
        self._hear = hear
        self._failures = failures
        self._after: int | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when the collection has been read."""
        self._after = await self._load()
        self._task = supervised(f"following {self._prefix}", self._run, self._failures)

    async def close(self) -> None:
        await end(self._task)

    async def _run(self) -> None:
        while True:
            after, self._after = self._after, None
            if after is None:  # something was missed
                after = await self._load()
            try:
                async for batch in self._store.watch(self._prefix, after=after):
                    await self._hear(batch)
                return  # the store was closed
            except Compacted:
                continue


class Changes:
    """Whether objects below a prefix have changed since somebody last looked; nearly free."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._watcher: Watcher | None = None
        self._looked_at = -1

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()

    def new(self) -> bool:
        """Return whether there is something new; at first there always is."""
        revision = self._store.revision
        if revision == self._looked_at:
            return False
        self._looked_at = revision
        watcher = self._watcher
        if watcher is not None:
            try:
                return bool(watcher.take())
            except Compacted:
                watcher.close()
        self._watcher = self._store.watch(self._prefix, after=revision)
        return True
