"""What each transport over sockets promises: the lean one, and aiohttp's for proxies and others."""

import asyncio
import os
import socket
from contextlib import AsyncExitStack, suppress

import pytest
from msgspec.structs import replace

from bayplan.client import Connection, TransportError, connect, http1_connection
from bayplan.client.aiohttp_transport import AiohttpTransport
from bayplan.client.errors import AnswerTooLong, RequestTimeout, Unauthorized
from bayplan.client.http1 import Http1Pool, _Exchange
from bayplan.client.resources import PODS
from bayplan.client.socket_transport import SocketTransport
from tests.client.test_rest import RawServer, reply
from tests.client.test_stream import CHUNKED, serving
from tests.test_vanished import KEPT_ALIVE, kept_alive

KINDS = {"lean": (), "general": (("impersonate-user", "u"),)}


@pytest.fixture(params=KINDS)
def acting(request):
    """Whom the connection acts for: for another user the general transport is taken."""
    return KINDS[request.param]


def made(url, acting, **more):
    transport = SocketTransport(Connection(url, impersonate=acting), **more)
    assert isinstance(transport._general, AiohttpTransport) is bool(acting)
    return transport


async def streamed(transport):
    async with transport.stream("GET", "/", {}) as response:
        return response, b"".join([part async for part in response.chunks])


async def test_a_redirect_is_an_answer_and_is_not_followed(acting):
    """Who follows it would send the credential elsewhere."""
    moved = reply(b"gone", b"Location: /other", code=b"302 Found")
    async with RawServer(moved, moved) as server:
        transport = made(server.url, acting)
        answer = await transport.request("GET", "/", {}, None, 20)
        response, body = await streamed(transport)
        await transport.close()

    assert (302, b"gone", 302, b"gone") == (answer.status, answer.body, response.status, body)
    assert [b"GET / HTTP/1.1"] * 2 == [head.split(b"\r\n")[0] for head in server.requests]


async def test_the_credential_is_sent_with_every_request(acting):
    async with RawServer(reply(b""), reply(b"")) as server:
        transport = SocketTransport(Connection(server.url, token="t", impersonate=acting))
        await transport.request("GET", "/", {}, None, 20)
        await streamed(transport)
        await transport.close()

    for head in server.requests:
        assert b"authorization: bearer t" in head.lower().split(b"\r\n")


@pytest.mark.parametrize("compression", [True, False])
async def test_packed_answers_are_asked_for_where_they_are_wanted(acting, compression):
    async with RawServer(reply(b""), reply(b"")) as server:
        connection = Connection(server.url, impersonate=acting, compression=not compression)
        transport = SocketTransport(connection, compression=compression)
        await transport.request("GET", "/", {}, None, 20)
        await transport.close()
        transport = SocketTransport(replace(connection, compression=compression))
        await transport.request("GET", "/", {}, None, 20)
        await transport.close()

    asked = [b"accept-encoding: gzip" in head.lower() for head in server.requests]
    assert [compression] * 2 == asked


async def test_names_of_headers_are_small(acting):
    busy = reply(b"", b"Retry-After: 7", code=b"429 Too Many Requests")
    async with RawServer(busy, busy) as server:
        transport = made(server.url, acting)
        answer = await transport.request("GET", "/", {}, None, 20)
        response, _ = await streamed(transport)
        await transport.close()

    assert ("7", "7") == (answer.headers["retry-after"], response.headers["retry-after"])


async def test_pieces_come_as_they_are_sent_and_a_break_is_an_error(acting):
    taken = asyncio.Event()

    async def broken(writer):
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await writer.drain()
        await taken.wait()

    async with serving(broken) as url:
        transport = made(url, acting)
        async with transport.stream("GET", "/", {}) as response:
            assert b"abc" == await anext(response.chunks)
            taken.set()
            with pytest.raises(TransportError):
                await anext(response.chunks)
        await transport.close()


async def test_streams_are_no_part_of_the_limit_of_connections(acting):
    ended = asyncio.Event()

    async def endless(writer):
        writer.write(CHUNKED + b"1\r\nx\r\n")
        await ended.wait()

    async with serving(endless) as url, AsyncExitStack() as opened:
        transport = made(url, acting, max_connections=1)
        async with asyncio.timeout(60):
            for _ in range(3):
                response = await opened.enter_async_context(transport.stream("GET", "/", {}))
                assert b"x" == await anext(response.chunks)
        await opened.aclose()
        ended.set()
        await transport.close()


def options_to(url):
    """How the kernel watches over what this process has opened to a server."""
    host, _, port = url.removeprefix("http://").partition(":")
    options = []
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
            if found.getpeername() == (host, int(port)):
                options.append(kept_alive(found))
    return options


async def test_the_kernel_looks_whether_the_server_is_still_there(acting):
    """What nobody hears of otherwise: a machine without power, a firewall that forgot."""
    ended = asyncio.Event()

    async def endless(writer):
        writer.write(CHUNKED + b"1\r\nx\r\n")
        await ended.wait()

    async with RawServer(reply(b"")) as server:
        transport = made(server.url, acting)
        await transport.request("GET", "/", {}, None, 20)
        assert [KEPT_ALIVE] == options_to(server.url)
        await transport.close()
    async with serving(endless) as url:
        transport = made(url, acting)
        async with transport.stream("GET", "/", {}):
            assert [KEPT_ALIVE] == options_to(url)
        ended.set()
        await transport.close()


async def test_a_server_that_says_nothing_is_waited_for_no_longer_than_told(acting):
    ended = asyncio.Event()

    async def silent(writer):
        await ended.wait()

    async with serving(silent) as url:
        transport = made(url, acting)
        with pytest.raises(RequestTimeout, match=r"GET /x: no answer within 0.05 s"):
            await transport.request("GET", "/x", {}, None, 0.05)
        ended.set()
        await transport.close()


async def test_a_server_that_is_not_there_says_so(acting):
    async with serving(None) as url:
        pass
    transport = made(url, acting)
    with pytest.raises(TransportError, match="is the API server running"):
        await transport.request("GET", "/", {}, None, 20)
    with pytest.raises(TransportError, match="is the API server running"):
        await streamed(transport)
    await transport.close()


async def test_an_answer_may_be_as_long_as_its_bound_and_no_longer(monkeypatch):
    """The general one counts the body; the lean one all that came, see `test_endless.py`."""
    monkeypatch.setattr(http1_connection, "MAX_OBJECT", 5000)
    fits, more = (reply(b"x" * (5000 + n)) for n in (0, 1))
    async with RawServer(fits, fits, more) as server:
        transport = made(server.url, KINDS["general"])
        for _ in range(2):  # each answer is counted for itself
            assert 5000 == len((await transport.request("PUT", "/", {}, b"", 20)).body)
        with pytest.raises(AnswerTooLong, match="5000"):
            await transport.request("PUT", "/", {}, b"", 20)
        await transport.close()


async def test_nothing_is_kept_of_a_stream_that_was_left(acting):
    async def ended(writer):
        writer.write(CHUNKED + b"0\r\n\r\n")

    async with serving(ended) as url:
        transport = made(url, acting)
        for _ in range(3):
            await streamed(transport)
        if not acting:
            assert 0 == transport._pool.connections
        await transport.close()


async def test_401_is_told_when_there_is_no_other_credential(acting):
    no = reply(b"", code=b"401 Unauthorized")
    async with RawServer(no, no, no, no) as server:
        client = connect(Connection(server.url, impersonate=acting))
        with pytest.raises(Unauthorized):
            await client.list(PODS)
        with pytest.raises(Unauthorized):
            async for _ in client.watch(PODS):
                pass
        await client.close()


async def test_requests_wait_for_a_connection_where_all_are_taken(acting):
    busy = most = 0

    async def answer(writer):
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        writer.write(reply(b"x", b"Connection: close"))

    async with serving(answer) as url:
        transport = made(url, acting, max_connections=2)
        asked = (transport.request("GET", "/", {}, None, 60) for _ in range(8))
        found = [answer.body for answer in await asyncio.gather(*asked)]
        await transport.close()

    assert [b"x"] * 8 == found
    assert most <= 2


# -- the lean one alone


def test_a_head_may_be_as_long_as_its_bound_and_no_longer(monkeypatch):
    monkeypatch.setattr(http1_connection, "MAX_HEAD", 60)
    begin = b"HTTP/1.1 200 OK\r\na: "
    for more, good in ((0, True), (1, False)):
        exchange = _Exchange()
        exchange.data_received(begin + b"x" * (60 - len(begin) + more))

        assert good is exchange.reusable


async def test_what_nobody_asked_for_ends_its_connection():
    """An answer without a request, or to one that was given up, must not go to the next."""
    for begin in (None, asyncio.get_running_loop().create_future()):
        exchange = _Exchange()
        if begin is not None:
            begin.cancel()
            exchange.answer = begin
        exchange.data_received(reply(b"late"))

        assert not exchange.reusable


async def test_of_headers_that_are_many_only_some_are_remembered():
    pool = Http1Pool("http://h:1/p/", None)
    for number in range(200):
        same = {"a": str(number)}
        first = pool._message("GET", "/x", same, None)

        assert first == pool._message("GET", "/x", same, None)
        assert b"GET /p/x HTTP/1.1\r\nhost: h:1\r\na: %d\r\n\r\n" % number == first
        assert len(pool._encoded) <= 65


async def test_of_headers_with_a_credential_only_some_are_remembered():
    transport = SocketTransport(Connection("http://127.0.0.1:1", token="t"))
    await transport._current()
    for number in range(200):
        same = {"a": str(number)}
        first = transport._with_auth(same)

        assert first is transport._with_auth(same)
        assert {"a": str(number), "authorization": "Bearer t"}.items() <= first.items()
        assert len(transport._merged) <= 65
    await transport.close()


async def test_connections_stay_while_the_credential_does():
    transport = SocketTransport(Connection("http://127.0.0.1:1", token="t"))
    first = await transport._current()

    assert first is await transport._current()
    await transport.close()
