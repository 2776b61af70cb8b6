"""The bytes that the browser gets: columns for whole clusters, frames for changes.

A body is a line of JSON, padded with spaces to a multiple of eight bytes, and columns of numbers
behind it, each of the narrowest type that holds `(value - base) / scale`: the browser reads them
without parsing. 5,000 nodes with 100,000 pods are about 1.5 MB on the wire. An empty slot is a row
of zeros whose name is "".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from operator import itemgetter

import msgspec
import numpy as np

from bayplan.page.board import Board, Frame
from bayplan.page.rows import NODE_FIELDS, PHASES, PLACES, POD_FIELDS, Row

Json = dict[str, object]
_encode = msgspec.json.Encoder().encode
LEVEL = 3
WIDE = 8


class Columns:
    """The numbers behind the line of JSON."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def table(self, rows: list[Row | None], fields: tuple[str, ...]) -> Json:
        """Turn rows by a quarter; names and messages stay in the JSON."""
        empty: Row = tuple("" if field in ("name", "message") else 0 for field in fields)
        filled = [empty if row is None else row for row in rows]
        found: Json = {}
        for at, field in enumerate(fields):
            column = map(itemgetter(at), filled)
            if field == "message":  # few pods have one
                found[field] = {str(i): text for i, text in enumerate(column) if text}
            elif field == "name":
                found[field] = "\n".join(column)
            else:
                found[field] = self._column(column, len(filled))
        return {"count": len(rows), "columns": found}

    def _column(self, values: Iterable[int], count: int) -> Json:
        numbers = np.fromiter(values, np.int64, count)
        base = int(numbers.min()) if len(numbers) else 0
        numbers = numbers - base
        most = int(numbers.max()) if len(numbers) else 0
        if not most:
            return {"base": base}
        scale = int(np.gcd.reduce(numbers)) if most > 255 else 1
        kind = next((k for k in ("u1", "u2", "u4") if most // scale <= np.iinfo(k).max), "f8")
        at = self._size
        body = (numbers // scale).astype(f"<{kind}").tobytes()
        self._parts.append(body.ljust(-(-len(body) // WIDE) * WIDE, b"\0"))
        self._size += len(self._parts[-1])
        return {"type": kind, "at": at, "base": base, "scale": scale}

    def body(self, head: Json) -> bytes:
        """Return everything."""
        line = _encode(head) + b"\n"
        return b"".join([b" " * (-len(line) % WIDE), line, *self._parts])


class Picture(msgspec.Struct, frozen=True):
    """What the bytes are made of: copies, so that a thread can make them."""

    head: Json
    texts: list[str]
    nodes: list[Row | None]
    pods: list[Row | None]
    more: Json

    @classmethod
    def of(cls, board: Board, about: Json) -> Picture:
        """Return the cluster as it is now."""
        rows = (board.nodes.rows, board.pods.rows)
        return cls._made(board, about, rows, {"time": board.now})

    @classmethod
    def of_history(cls, board: Board, about: Json) -> Picture:
        """Return the cluster as it was when the history begins, and all frames since."""
        frames = [[frame.time, frame.changes] for frame in board.frames]
        more: Json = {"time": board.start_time, "end": board.now, "frames": frames}
        return cls._made(board, about, board.start, more)

    @classmethod
    def _made(
        cls, board: Board, about: Json, rows: tuple[list[Row | None], list[Row | None]], more: Json
    ) -> Picture:
        head = {**about, "number": board.number, "epoch": board.epoch}
        return cls(head, board.texts.all.copy(), rows[0].copy(), rows[1].copy(), more)

    def body(self) -> bytes:
        columns = Columns()
        return columns.body(
            {
                **self.head,
                "phases": PHASES,
                "places": PLACES,
                "fields": (NODE_FIELDS, POD_FIELDS),
                "texts": self.texts,
                "nodes": columns.table(self.nodes, NODE_FIELDS),
                "pods": columns.table(self.pods, POD_FIELDS),
                **self.more,
            }
        )


def cluster(board: Board, about: Json) -> bytes:
    """Return the whole cluster as it is now."""
    return Picture.of(board, about).body()


def history(board: Board, about: Json) -> bytes:
    """Return the cluster as it was when the history begins, and all frames since."""
    return Picture.of_history(board, about).body()


def frame_bytes(frame: Frame) -> bytes:
    """Return a frame as one server-sent event."""
    data = _encode(
        {
            "number": frame.number,
            "time": frame.time,
            "texts": frame.texts,
            "changes": frame.changes,
        }
    )
    return b"id: %d\ndata: %s\n\n" % (frame.number, data)


def gzipped(body: bytes) -> bytes:
    """Compress for `Content-Encoding: gzip`."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()
