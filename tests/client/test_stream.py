"""Streamed answers over sockets: how they come, stall and end."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from bayplan.client import Connection, TransportError, connect
from bayplan.client.http1 import Http1Pool
from bayplan.client.http1_stream import READ_BUFFER
from bayplan.client.resources import PODS

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@asynccontextmanager
async def serving(answer):
    """Serve every connection with a coroutine; yields the address."""

    async def one(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        try:
            await answer(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def read(url):
    pool = Http1Pool(url, None)
    try:
        async with pool.stream("GET", "/", {}) as response:
            return response.status, b"".join([part async for part in response.chunks])
    finally:
        await pool.close()


async def test_a_stream_that_breaks_is_an_error_after_what_came():
    async def broken(writer):
        writer.write(CHUNKED + b"3\r\n{}\n\r\n")
        await writer.drain()

    async with serving(broken) as url:
        client = connect(Connection(url))
        watch = client.watch(PODS)
        got = [await anext(watch), await anext(watch)]
        with pytest.raises(TransportError, match="closed by the server"):
            await anext(watch)
        await client.close()

    assert [[], [b"{}"]] == got


async def test_a_stream_ends_when_it_says_so_though_the_connection_stays():
    taken, ended = asyncio.Event(), asyncio.Event()

    async def late(writer):
        writer.write(CHUNKED + b"3\r\n{}\n\r\n")
        await taken.wait()
        writer.write(b"0\r\n\r\n")
        await ended.wait()

    async with serving(late) as url:
        client = connect(Connection(url))
        watch = client.watch(PODS)
        got = [await anext(watch), await anext(watch)]
        taken.set()
        async with asyncio.timeout(60):
            got += [lines async for lines in watch]
        ended.set()
        await client.close()

    assert [[], [b"{}"]] == got


async def test_a_body_without_a_measure_ends_with_its_connection():
    async def plain(writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall")
        await writer.drain()

    async with serving(plain) as url:
        assert (200, b"all") == await read(url)


async def test_no_answer_and_no_http_are_errors():
    async def silent(writer):
        return

    async def strange(writer):
        writer.write(b"SSH-2.0\r\n\r\n")
        await writer.drain()

    for answer, words in ((silent, "closed by .*: end of stream; is"), (strange, "not HTTP")):
        async with serving(answer) as url:
            with pytest.raises(TransportError, match=words):
                await read(url)


async def test_an_interim_answer_is_passed_over():
    async def interim(writer):
        writer.write(b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + CHUNKED + b"1\r\nx\r\n0\r\n\r\n")
        await writer.drain()

    async with serving(interim) as url:
        assert (200, b"x") == await read(url)


async def test_a_slow_reader_stops_the_sender_and_loses_nothing():
    piece, sent = b"x" * 65536, 0
    total = 64 * READ_BUFFER

    async def much(writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while sent < total:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    async with serving(much) as url:
        pool = Http1Pool(url, None)
        async with pool.stream("GET", "/", {}) as response:
            before = -1
            while before != sent:  # until the sender stands
                before = sent
                for _ in range(1000):
                    await asyncio.sleep(0)
            stopped_at = sent
            got = 0
            async for part in response.chunks:
                got += len(part)
        await pool.close()

    assert stopped_at < total / 2
    assert total == got


async def test_closing_the_client_ends_its_streams():
    async def endless(writer):
        writer.write(CHUNKED)
        await writer.drain()
        await asyncio.Event().wait()

    async with serving(endless) as url:
        client = connect(Connection(url))
        watch = client.watch(PODS)
        assert [] == await anext(watch)
        await client.close()
        with pytest.raises(TransportError, match="the client is closed"):
            await anext(watch)


async def test_a_request_that_cannot_be_written_costs_no_connection():
    async def never(writer):
        raise AssertionError("nothing was asked")

    async with serving(never) as url:
        pool = Http1Pool(url, None)
        for _ in range(3):
            with pytest.raises(TransportError, match="line break"):
                await pool.request("GET", "/", {"authorization": "a\nb"}, None, None)
            with pytest.raises(TransportError, match="line break"):
                async with pool.stream("GET", "/", {"authorization": "a\nb"}):
                    pass

        assert 0 == pool.connections
        await pool.close()
