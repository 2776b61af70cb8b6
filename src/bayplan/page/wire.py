"""The bytes that the browser gets: columns for whole clusters, frames for changes.

Columns of small numbers compress well and become typed arrays at once; 5,000 nodes with 100,000
pods are about 1.5 MB on the wire. An empty slot is a row of zeros whose name is "".
"""

from __future__ import annotations

import zlib

import msgspec

from bayplan.page.board import Board, Frame
from bayplan.page.rows import NODE_FIELDS, PHASES, PLACES, POD_FIELDS, Row

Json = dict[str, object]
_encode = msgspec.json.Encoder().encode
LEVEL = 4


def columns(rows: list[Row | None], fields: tuple[str, ...]) -> Json:
    """Return rows turned by a quarter; names and messages are joined by line ends."""
    empty: Row = tuple("" if field in ("name", "message") else 0 for field in fields)
    turned = list(zip(*(empty if row is None else row for row in rows), strict=True))
    if not turned:
        turned = [()] * len(fields)
    found: Json = {}
    for field, column in zip(fields, turned, strict=True):
        if field == "message":  # few pods have one
            found[field] = {str(i): text for i, text in enumerate(column) if text}
        elif field == "name":
            found[field] = "\n".join(str(text) for text in column)
        elif any(column):
            found[field] = column
    return {"count": len(rows), "columns": found}


def cluster(board: Board, about: Json) -> bytes:
    """Return the whole cluster as it is now."""
    return _encode(
        {
            **about,
            "number": board.number,
            "epoch": board.epoch,
            "time": board.now,
            "phases": PHASES,
            "places": PLACES,
            "fields": (NODE_FIELDS, POD_FIELDS),
            "texts": board.texts.all,
            "nodes": columns(board.nodes.rows, NODE_FIELDS),
            "pods": columns(board.pods.rows, POD_FIELDS),
        }
    )


def history(board: Board, about: Json) -> bytes:
    """Return the cluster as it was when the history begins, and all frames since."""
    nodes, pods = board.start
    return _encode(
        {
            **about,
            "number": board.number,
            "epoch": board.epoch,
            "time": board.start_time,
            "end": board.now,
            "phases": PHASES,
            "places": PLACES,
            "fields": (NODE_FIELDS, POD_FIELDS),
            "texts": board.texts.all,
            "nodes": columns(nodes, NODE_FIELDS),
            "pods": columns(pods, POD_FIELDS),
            "frames": [[frame.time, frame.changes] for frame in board.frames],
        }
    )


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
