"""The whole cluster in bytes, made ahead of whoever asks for it.

Making the bytes of 100,000 pods takes longer than all else that a page waits for. So they are made
when serving begins and kept until more has changed since than the stream tells in one go; a page
that gets older bytes learns from the stream what it missed. They are made in a thread, of rows that
never change, while the loop goes on.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from bayplan.page import wire
from bayplan.page.board import Board

MOST_BEHIND = 60
"""Frames, fewer than the stream keeps."""


class _Kept(NamedTuple):
    number: int
    epoch: int
    body: bytes


class Whole:
    """The compressed bytes of one board."""

    def __init__(self, board: Board, about: wire.Json) -> None:
        self._board = board
        self._about = about
        self._kept: _Kept | None = None
        self._lock = asyncio.Lock()

    async def body(self) -> bytes:
        """Return the cluster as it was at most `MOST_BEHIND` frames ago."""
        async with self._lock:
            kept, board = self._kept, self._board
            if (
                kept is None
                or kept.epoch != board.epoch
                or board.number - kept.number > MOST_BEHIND
            ):
                number, epoch = board.number, board.epoch
                picture = wire.Picture.of(board, self._about)
                body = await asyncio.to_thread(lambda: wire.gzipped(picture.body()))
                kept = self._kept = _Kept(number, epoch, body)
            return kept.body
