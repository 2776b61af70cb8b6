"""The page's HTTP side: who may read, what is sent, and how changes follow."""

import asyncio
import json
import re

import aiohttp
import pytest
import uvicorn

from bayplan.errors import ConfigError
from bayplan.inspect import Cluster
from bayplan.listening import listen_for_page
from bayplan.page.serving import serving
from bayplan.page.sources import Living, Picture
from bayplan.page.stream import MOST_QUEUED, RESET, Stream
from bayplan.testing import make_node, make_pod
from bayplan.testing.clusters import cluster_objects


def picture(nodes=3, pods=5):
    return Picture(Cluster.from_objects(cluster_objects(nodes, pods, pending=2)))


def living():
    async def read():
        return Cluster.from_objects([])

    source = Living("test", read)
    source.board.put(make_node("n1").build())
    source.board.begin()
    return source


async def get(url, path="", **options):
    base = url.partition("?")[0]
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
        session.get(url if options.pop("token", True) else base) as first,
    ):
        if not path:
            return first.status, await first.text(), first.headers, first.url
        async with session.get(base + path, **options) as answer:
            body = (await answer.read()).decode(errors="replace")
            return answer.status, body, answer.headers, answer.url


async def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address():
    async with serving(picture()) as url:
        status, text, headers, address = await get(url)

    assert status == 200
    assert "token" not in str(address)
    assert "app.js" in text
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


async def test_the_address_is_told_when_the_page_answers(monkeypatch):
    begin, begun = uvicorn.Server.startup, []

    async def slow(self, sockets=None):
        await asyncio.sleep(0)
        await begin(self, sockets)
        begun.append(self)

    monkeypatch.setattr(uvicorn.Server, "startup", slow)
    async with serving(picture()):
        assert len(begun) == 1


@pytest.mark.parametrize("path", ["", "api/cluster", "api/history", "static/v/app.js"])
async def test_nothing_is_told_without_the_token(path):
    async with serving(picture()) as url, aiohttp.ClientSession() as session:
        async with session.get(url.partition("?")[0] + path) as answer:
            assert answer.status == 401
        async with session.get(url[:-1] + "x") as answer:
            assert answer.status == 401


async def test_another_host_name_and_another_origin_are_refused():
    async with serving(picture()) as url:
        rebound = await get(url, "api/cluster", headers={"Host": "evil.example"})
        foreign = await get(url, "api/cluster", headers={"Origin": "http://evil.example"})

    assert rebound[0] == 421
    assert foreign[0] == 403


def test_only_loopback_is_served():
    with pytest.raises(ConfigError, match="loopback"):
        listen_for_page("0.0.0.0", 0)


async def test_the_cluster_comes_in_columns():
    async with serving(picture(nodes=3, pods=5)) as url:
        status, text, headers, _ = await get(url, "api/cluster")
    body = json.loads(text.partition("\n")[0])

    assert status == 200
    assert headers["content-encoding"] == "gzip"
    assert body["nodes"]["count"] == 3
    assert body["nodes"]["columns"]["name"].split("\n") == ["node-0000", "node-0001", "node-0002"]
    assert body["pods"]["count"] == 7
    assert len(body["pods"]["columns"]["message"]) == 2


@pytest.mark.parametrize(
    "path", ["static/v/../../serving.py", "static/v/%2e%2e%2fguard.py", "static/v/x.js"]
)
async def test_only_the_pages_own_files_are_served(path):
    async with serving(picture()) as url:
        status, *_ = await get(url, path)

    assert status == 404


async def test_a_change_is_told_to_who_follows():
    source = living()
    async with serving(source) as url:
        base = url.partition("?")[0]
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            await (await session.get(url)).read()
            async with session.get(base + "api/stream?after=0") as stream:
                assert b"retry" in await stream.content.readline()
                source.board.put(make_pod("a").node("n1").build())
                async for line in stream.content:
                    if line.startswith(b'data: {"number"'):
                        frame = json.loads(line[5:])
                        break

    assert frame["number"] == 1
    assert frame["changes"][0][2][0] == "a"


async def test_who_was_away_for_long_begins_anew():
    source = living()
    stream = Stream(source.board)
    for number in range(3):
        source.board.put(make_pod(f"p{number}").build())
        stream.tick()

    near = stream.follow(1)
    far = stream.follow(-7)
    assert (await anext(near)).count(b'data: {"number"') == 2
    assert RESET in await anext(far)
    await near.aclose()
    await far.aclose()


async def test_who_follows_is_told_since_when_the_cluster_does_not_answer():
    since = [None]
    stream = Stream(living().board, cut_off=lambda: since[0])
    follower = stream.follow(0)

    def told(body):
        found = re.search(rb"event: reach\ndata: (.*)\n", body)
        return json.loads(found[1])["since"]

    assert told(await anext(follower)) is None
    since[0] = 17.5
    stream.tick()
    stream.tick()  # told once
    assert told(await anext(follower)) == 17.5
    late = stream.follow(0)
    assert told(await anext(late)) == 17.5
    since[0] = None
    stream.tick()
    assert told(await anext(follower)) is None
    await follower.aclose()
    await late.aclose()


async def test_who_does_not_read_is_let_go():
    source = living()
    stream = Stream(source.board)
    follower = stream.follow(0)
    await anext(follower)
    for number in range(MOST_QUEUED + 2):
        source.board.put(make_pod(f"p{number}").build())
        stream.tick()
    told = [body async for body in follower]

    assert len(told) == MOST_QUEUED


@pytest.mark.parametrize("turns", range(4))
async def test_a_page_that_ends_before_it_answers_closes_its_socket(turns):
    """Whichever turn of the loop the end falls on; who gave the socket does not close it."""

    async def serve():
        async with serving(living(), listener=listener):
            await asyncio.Event().wait()

    listener = listen_for_page("127.0.0.1", 0)
    task = asyncio.create_task(serve())
    await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert -1 == listener.fileno()
