"""Tells every open page what changes: one frame a tick, encoded once, sent to all.

A page that was away for a moment gets what it missed from the last frames; one that was away for
longer is told to load the cluster anew. A page that does not read is let go rather than buffered.
Every page is told the server's time and, while the cluster does not answer, since when.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec
import structlog

from bayplan.page.board import Board
from bayplan.page.wire import frame_bytes

log = structlog.get_logger(__name__)

TICK = 0.25
RING = 240
MOST_QUEUED = 100
BEAT = 15.0
RESET = b"event: reset\ndata: {}\n\n"


class Stream:
    """Makes frames of a board and hands them to whoever follows."""

    def __init__(
        self,
        board: Board,
        refresh: Callable[[], None] | None = None,
        cut_off: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`refresh` is called before each frame, to bring the board up to date.

        `cut_off` tells since when the cluster has not answered, None while it does.
        """
        self._board = board
        self._refresh = refresh
        self._cut_off = cut_off
        self._since = cut_off()
        self._ring: deque[tuple[int, bytes]] = deque(maxlen=RING)
        self._epoch = board.epoch
        self._followers: set[asyncio.Queue[bytes | None]] = set()
        self.failures = 0

    async def run(self) -> None:
        """Make a frame each tick until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            try:
                self.tick()
            except Exception:  # one odd object must not stop the page
                self.failures += 1
                log.exception("page not brought up to date")

    def tick(self) -> None:
        """Make a frame now, if anything changed."""
        if self._refresh is not None:
            self._refresh()
        since = self._cut_off()
        if since != self._since:
            self._since = since
            self._tell(self._reach())
        frame = self._board.frame()
        if self._board.epoch != self._epoch:
            self._epoch = self._board.epoch
            self._ring.clear()
            self._tell(RESET)
        if frame is not None:
            body = frame_bytes(frame)
            self._ring.append((frame.number, body))
            self._tell(body)

    def _reach(self) -> bytes:
        data = msgspec.json.encode({"now": self._board.now, "since": self._since})
        return b"event: reach\ndata: %s\n\n" % data

    def _tell(self, body: bytes) -> None:
        for queue in list(self._followers):
            if queue.qsize() >= MOST_QUEUED:
                self._followers.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(body)

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """Yield events after the frame with that number, for as long as somebody reads."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        missed = [body for number, body in self._ring if number > after]
        complete = len(missed) == self._board.number - after
        self._followers.add(queue)
        try:
            known = b"".join(missed) if complete else RESET
            yield b"retry: 1000\n\n" + self._reach() + known
            while (body := await self._next(queue)) is not None:
                yield body
        finally:
            self._followers.discard(queue)

    async def _next(self, queue: asyncio.Queue[bytes | None]) -> bytes | None:
        try:
            async with asyncio.timeout(BEAT):
                return await queue.get()
        except TimeoutError:
            return b": beat\n\n"

    def close(self) -> None:
        """Let all followers end."""
        for queue in self._followers:
            queue.put_nowait(None)
