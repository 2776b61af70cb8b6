"""Seats for the requests that run at once, shared fairly among clients.

While there is room, taking a seat costs an addition. When all are taken, requests wait in a queue
of their client, and a seat that comes free goes to the clients in turn: one that sends a thousand
requests at once waits for itself, not the others for it. A client that has as many waiting as
there are seats is told to come back later; so is everybody when the whole room is full of waiting
ones, because a client is only what a request says it is.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from bayplan.apiserver.errors import too_many_requests

Client = tuple[str, str]  # user and program
ROOM = 4  # as many times the seats may wait altogether: what is waited for stays short


class Seats:
    """`limit` requests run at once; as many more may wait for each client."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.waiting = 0
        self._waiting: OrderedDict[Client, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, client: Client) -> None:
        """Return when the caller may run. Raises ApiError 429."""
        if self.taken < self.limit:
            self.taken += 1
            return
        queue = self._waiting.setdefault(client, deque())
        if len(queue) >= self.limit or self.waiting >= ROOM * self.limit:
            if not queue:
                del self._waiting[client]
            raise too_many_requests("too many requests, please try again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()  # it came while the caller was leaving
            raise
        finally:
            self.waiting -= 1

    def give(self) -> None:
        """Hand a seat to the next client in turn, or keep it free."""
        while self._waiting:
            client, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[client] = queue  # to the end of the line
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1
