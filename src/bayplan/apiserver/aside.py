"""Work on large objects beside the event loop, so that nobody else waits for it.

What goes there must not touch the store, caches or the loop: it gets objects and returns objects.
Small requests, which are nearly all, pay nothing. Virtual time waits for no thread, so there the
work is done at once.

A large object is up to fifty times as large when it is taken apart, so only so many requests have
such ones at once: the first step of one that is large waits for its turn, which it keeps to its
end (`ApiServer`), or until it asks a webhook (`Caller`), whose time is not ours to bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.request import Request
from bayplan.store import KeyValue

P = ParamSpec("P")
T = TypeVar("T")
MOST_DOUBLINGS = 20  # more would be refused anyway
PAUSE_COST = 1_000_000  # about 10 ms, in the time that it takes to look at a byte
AT_ONCE = 2  # requests that have large objects taken apart
WAITING = 128  # more of them, with what they are about in memory
LARGE = 64 * 1024  # bytes of body and stored object; about 10 ms of merging and validating
_holder: ContextVar[Request | None] = ContextVar("holder", default=None)


async def aside(request: Request, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call `work`, in a thread if the request is a large one."""
    size = len(request.body) + request.stored
    if request.copies:
        size <<= min(request.copies, MOST_DOUBLINGS)
    if size < LARGE:
        return work(*given, **named)
    await turn(request)
    return await beside(work, *given, **named)


async def turn(request: Request) -> None:
    """Wait until few enough others work on what is large. Raises a 429."""
    if request.large is not None and not request.in_turn:
        await request.large.take((request.user.name, request.user_agent))
        request.in_turn = True
        _holder.set(request)


def leave_turn(request: Request) -> None:
    """Let another have its turn, until the next step of this one that is about what is large."""
    _holder.set(None)
    if request.large is not None and request.in_turn:
        request.in_turn = False
        request.large.give()


def leave_own_turn() -> None:
    """Do that for the request that this task works on, where nothing else is known of it."""
    request = _holder.get()
    if request is not None:
        leave_turn(request)


async def aside_of(size: int, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call `work`, in a thread if it is about many bytes."""
    if size < LARGE:
        return work(*given, **named)
    return await beside(work, *given, **named)


async def decoded(request: Request, codec: Codec, kv: KeyValue) -> Object:
    """Return a stored object as a new dict."""
    request.stored = max(request.stored, len(kv.value))
    return await aside(request, codec.decode, kv)


async def beside(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call `work` in a thread."""
    if getattr(asyncio.get_running_loop(), "virtual", False):  # a bayplan.clock.VirtualLoop
        return work(*given, **named)
    return await asyncio.to_thread(work, *given, **named)


def size_of(items: Iterable[KeyValue]) -> int:
    return sum(len(kv.value) for kv in items)


def cut(items: list[KeyValue], most: int, size: int) -> Iterator[list[KeyValue]]:
    """Cut a list into parts of at most so many objects and so many bytes, if not one alone."""
    start, taken = 0, 0
    for end, kv in enumerate(items):
        if end > start and (end - start == most or taken + len(kv.value) > size):
            yield items[start:end]
            start, taken = end, 0
        taken += len(kv.value)
    if items:
        yield items[start:]


class Pauses:
    """Lets others have their turn after every so much work on the event loop."""

    def __init__(self) -> None:
        self._spent = 0

    async def after(self, cost: int) -> None:
        self._spent += cost
        if self._spent > PAUSE_COST:
            self._spent = 0
            await asyncio.sleep(0)
