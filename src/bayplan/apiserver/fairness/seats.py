"""Seats for the requests of one priority level that run at once, shared fairly among flows.

While there is room, taking a seat costs an addition. When all are taken, requests wait in a queue
of their flow, and a seat that comes free goes to the flows in turn: one that sends a thousand
requests at once waits for itself, not the others for it. Each flow has a queue of its own, where
the real server deals flows to a fixed number of queues; how many may wait altogether is the same.
A level lends seats that it does not use and borrows from others (`Pool`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from bayplan.apiserver.errors import ApiError, too_many_requests

Flow = tuple[str, str]
ROOM = 4  # as many times the seats may wait altogether, where nothing else is said
LONGEST_WAIT = 15.0  # seconds, as upstream: a quarter of the time that a request may take
Turn = asyncio.Future[None]


def _refused() -> ApiError:
    return too_many_requests("too many requests, please try again later")


class Pool:
    """The levels of a server, which lend each other seats."""

    def __init__(self) -> None:
        self.levels: list[Seats] = []

    def lends(self, to: Seats) -> bool:
        """Whether a level that has no seat left may take one of the others'."""
        if to.borrows is not None and to.taken - to.limit >= to.borrows:
            return False
        spare = 0
        for each in self.levels:
            if each.taken > each.limit:
                spare -= each.taken - each.limit
            elif each is not to:
                spare += min(each.lends, each.limit - each.taken)
        return spare > 0

    def freed(self) -> None:
        """Let a level that waits have the seat that another gave back."""
        for each in self.levels:
            if each.waiting and self.lends(each):
                each.wake()
                return


class Seats:
    """`limit` requests run at once; `queue` more may wait for each flow, `room` altogether."""

    def __init__(
        self,
        limit: int,
        *,
        queue: int | None = None,
        room: int | None = None,
        lends: int = 0,
        borrows: int | None = 0,
    ) -> None:
        self.limit = limit
        self.queue = limit if queue is None else queue
        self.room = ROOM * limit if room is None else room
        self.lends = lends
        self.borrows = borrows  # None: as many as are lent
        self.taken = 0
        self.waiting = 0
        self._pool: Pool | None = None
        self._waiting: OrderedDict[Flow, deque[Turn]] = OrderedDict()

    @property
    def settings(self) -> tuple[int | None, ...]:
        return self.limit, self.queue, self.room, self.lends, self.borrows

    def join(self, pool: Pool) -> None:
        """Lend to and borrow from these levels from now on."""
        self._pool = pool
        pool.levels.append(self)

    async def take(self, flow: Flow) -> None:
        """Return when the caller may run. Raises ApiError 429."""
        if self.taken < self.limit or (self._pool is not None and self._pool.lends(self)):
            self.taken += 1
            return
        queue = self._waiting.setdefault(flow, deque())
        if len(queue) >= self.queue or self.waiting >= self.room:
            if not queue:
                del self._waiting[flow]
            raise _refused()
        loop = asyncio.get_running_loop()
        turn: Turn = loop.create_future()
        queue.append(turn)
        self.waiting += 1
        alarm = loop.call_later(LONGEST_WAIT, _give_up, turn)
        try:
            await turn
        except (asyncio.CancelledError, ApiError):
            if turn in queue:
                self._leave(flow, queue, turn)
            elif not turn.cancelled() and turn.exception() is None:
                self.give()  # it came while the caller was leaving
            raise
        finally:
            alarm.cancel()
            self.waiting -= 1

    def _leave(self, flow: Flow, queue: deque[Turn], turn: Turn) -> None:
        queue.remove(turn)
        if not queue:
            del self._waiting[flow]

    def give(self) -> None:
        """Hand a seat to the next flow in turn, or keep it free."""
        if self.taken <= self.limit and self.wake(handed=True):
            return
        self.taken -= 1
        if self._pool is not None:
            self._pool.freed()

    def wake(self, *, handed: bool = False) -> bool:
        """Let the next in turn run, on a new seat unless one is handed on."""
        while self._waiting:
            flow, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[flow] = queue  # to the end of the line
            if not turn.done():
                self.taken += not handed
                turn.set_result(None)
                return True
        return False


def _give_up(turn: Turn) -> None:
    if not turn.done():
        turn.set_exception(_refused())
