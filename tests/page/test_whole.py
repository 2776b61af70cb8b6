"""The cluster's bytes are made ahead, and what they lack comes with the stream."""

import json
import re
import zlib

from bayplan.page import modules
from bayplan.page.board import Board
from bayplan.page.stream import RING, Stream
from bayplan.page.whole import MOST_BEHIND, Whole
from bayplan.testing import make_node, make_pod


def read(body):
    return json.loads(zlib.decompress(body, 31).partition(b"\n")[0])


def cluster():
    board = Board(lambda: 100.0)
    board.put(make_node("n1").build())
    board.begin()
    return board, Whole(board, {"name": "test"})


def change(board, stream, number):
    board.put(make_pod(f"p{number}").node("n1").build())
    stream.tick()


async def test_the_bytes_are_made_once_until_much_has_changed():
    board, whole = cluster()
    stream = Stream(board)
    first = await whole.body()
    for number in range(MOST_BEHIND):
        change(board, stream, number)
    behind = await whole.body()
    change(board, stream, MOST_BEHIND)
    anew = await whole.body()

    assert behind is first
    assert read(first)["pods"]["count"] == 0
    assert read(anew)["pods"]["count"] == MOST_BEHIND + 1


async def test_the_stream_tells_all_that_older_bytes_lack():
    board, whole = cluster()
    stream = Stream(board)
    await whole.body()
    for number in range(MOST_BEHIND):
        change(board, stream, number)
    follower = stream.follow(read(await whole.body())["number"])
    told = await anext(follower)
    await follower.aclose()

    assert told.count(b'data: {"number') == MOST_BEHIND
    assert MOST_BEHIND < RING


async def test_texts_that_were_renumbered_make_the_bytes_anew(monkeypatch):
    board, whole = cluster()
    first = await whole.body()
    monkeypatch.setattr("bayplan.page.board.MOST_TEXTS", 0)
    board.frame()

    assert read(await whole.body())["epoch"] == read(first)["epoch"] + 1


def test_the_page_names_what_the_map_needs_and_leaves_other_views_for_later():
    found = re.findall(r'modulepreload" href="static/([0-9a-f]+)/([a-z_]+\.js)"', modules.index())
    names = [name for _, name in found]

    assert {folder for folder, _ in found} == {modules.version()}
    assert {"app.js", "view_map.js", "cluster.js", "draw.js"} <= set(names)
    assert not {"view_time.js", "view_whatif.js", "view_pod.js", "chart.js"} & set(names)
    assert len(names) == len(set(names))
