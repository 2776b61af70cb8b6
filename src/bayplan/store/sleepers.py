"""Who waits for the next event of a group of watchers, and how they hear of it.

Sleepers have read all that concerns them, so those that wait for the same stand at one position: a
crowd. An event takes out the crowds that it concerns. Readers without `direct` are woken, each in a
task of its own; a crowd of those with it becomes an `Errand`: the events since then are cut once
and handed to its members a slice at a time, so that a thousand of them cost neither a thousand
tasks nor a long step of the loop. A slice is smaller where the batch is large: who is woken by it
writes as much in that step. A member that cannot take the batch now (its client does not read) is
woken and goes on at its own pace. A large crowd without `direct` is an errand too, a `Rousing`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import Any, Protocol, TypeAlias

import structlog

from bayplan.store.protocol import Direct, Event, Interest

log = structlog.get_logger(__name__)
DIRECT = "direct"  # what counts a `direct` that raised
SLICE = 64  # watchers that are written to in one step of the loop,
SLICE_BYTES = 1 << 20  # and bytes, though never fewer than one


class Sleeper(Protocol):
    """A watcher that may wait."""

    batch_bytes: int
    interest: Interest | None
    direct: Direct | None

    def __hash__(self) -> int: ...

    def wake(self, at: int, future: asyncio.Future[None]) -> None:
        """Go on reading at a position."""


Crowd: TypeAlias = dict[Sleeper, asyncio.Future[None]]


class Sleepers:
    """Crowds, found by what an event must show to concern them."""

    __slots__ = ("_any", "_by")

    def __init__(self) -> None:
        self._any: Crowd = {}
        self._by: dict[Hashable, tuple[Interest, dict[str, Crowd]]] = {}

    def __bool__(self) -> bool:
        return bool(self._any or self._by)

    def add(self, interest: Interest | None, crowd: Crowd) -> None:
        """Let those sleep who wait for the same."""
        if interest is None:
            self._any.update(crowd)
            return
        _, values = self._by.setdefault(interest.by, (interest, {}))
        values.setdefault(interest.value, {}).update(crowd)

    def remove(self, sleeper: Sleeper) -> None:
        interest = sleeper.interest
        if interest is None:
            self._any.pop(sleeper, None)
            return
        if interest.by in self._by:
            _, values = self._by[interest.by]
            values.get(interest.value, {}).pop(sleeper, None)
            if not values.get(interest.value, True):
                self._leave(interest.by, interest.value)

    def concerned(self, event: Event) -> Iterator[Crowd]:
        """Take out and yield the crowds that an event concerns."""
        if self._any:
            everyone, self._any = self._any, {}
            yield everyone
        for by, (interest, values) in list(self._by.items()):
            for value in interest.read(event):
                if value in values:
                    crowd = values[value]
                    self._leave(by, value)
                    yield crowd

    def _leave(self, by: Hashable, value: str) -> None:
        values = self._by[by][1]
        del values[value]
        if not values:
            del self._by[by]


class Errand:
    """A batch on its way to a crowd: some members have it, the others stand before it."""

    __slots__ = (
        "_batch",
        "_cut",
        "_each",
        "_failures",
        "_shared",
        "at",
        "end",
        "reached",
        "waiting",
    )

    def __init__(
        self,
        at: int,
        crowd: Crowd,
        cut: Callable[[int, int], list[Event]],
        failures: Counter[str],
    ) -> None:
        self.at = self.end = at  # the batch's positions, once it is cut
        self.waiting = crowd
        self.reached: Crowd = {}
        self._cut = cut
        self._failures = failures
        self._batch: list[Event] = []
        self._each = 1  # what one member counts
        self._shared: dict[str, Any] = {}

    def run(self, limit: int) -> int:
        """Hand the batch to some of those who wait for it; return how much of the limit that was.

        Each counts as one, or as more if the batch is large.
        """
        waiting, shared = self.waiting, self._shared
        if not self._batch and waiting:
            self._batch = self._cut(self.at, next(iter(waiting)).batch_bytes)
            self.end = self.at + len(self._batch)
            size = 0
            for event in self._batch:
                size += len(event.kv.value)
            self._each = max(1, size * SLICE // SLICE_BYTES)
        batch = self._batch
        some = list(islice(waiting, max(1, limit // self._each)))
        for sleeper in some:
            future = waiting.pop(sleeper)
            try:
                taken = batch and sleeper.direct is not None and sleeper.direct(batch, shared)
            except Exception:  # one that fails must not keep the others waiting
                taken = False
                self._failed()
            if taken:
                self.reached[sleeper] = future
            else:
                sleeper.wake(self.at, future)
        return len(some) * self._each

    def _failed(self) -> None:
        """Count what `direct` raised; the first is told, a thousand watchers would all say it."""
        self._failures[DIRECT] += 1
        if self._failures[DIRECT] == 1:
            log.exception("a watch could not be written to, it goes on in its own task")

    def leave(self, sleeper: Sleeper) -> int | None:
        """Take somebody out; return where it stands, None if it was not here."""
        if self.waiting.pop(sleeper, None) is not None:
            return self.at
        return self.end if self.reached.pop(sleeper, None) is not None else None


class Rousing(Errand):
    """A crowd that is woken a slice at a time."""

    __slots__ = ()

    def run(self, limit: int) -> int:
        some = list(islice(self.waiting, limit))
        for sleeper in some:
            sleeper.wake(self.at, self.waiting.pop(sleeper))
        return len(some)
