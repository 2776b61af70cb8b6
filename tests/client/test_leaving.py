"""Who leaves in the middle, in whichever turn of the loop, leaves nothing open behind."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest

from bayplan.apiserver import tls
from bayplan.apiserver.web import server_context
from bayplan.client import AsgiTransport, TransportError, http1
from bayplan.client.http1 import Http1Pool

TURNS = 24  # of a connection with TLS and a request; later ones find it waiting for its answer


@asynccontextmanager
async def silent_server(context):
    """Accept connections and never answer; yields the address."""
    connections = set()

    async def one(reader, writer):
        connections.add(writer)
        try:
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=context)
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
async def test_a_request_that_is_given_up_closes_its_connection(tmp_path, monkeypatch, secured):
    sockets = []

    class Known(http1._Exchange):
        def connection_made(self, transport):
            super().connection_made(transport)
            sockets.append(transport.get_extra_info("socket"))

    monkeypatch.setattr(http1, "_Exchange", Known)
    files = tls.generate(tmp_path, ["127.0.0.1"]) if secured else None
    theirs = server_context(str(files.certificate), str(files.key)) if secured else None
    ours = ssl.create_default_context(cafile=files.authority) if secured else None
    async with silent_server(theirs) as url:
        for turns in range(TURNS):
            pool = Http1Pool(url, ours, limit=1)
            asking = asyncio.create_task(pool.request("GET", "/", {}, None, None))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await pool.close()

            assert [] == [each for each in sockets if each.fileno() != -1], turns
    assert sockets


@pytest.mark.parametrize("turns", range(4))
async def test_a_stream_ends_when_its_transport_is_closed(turns):
    """Also one whose application has not begun to run."""

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    async def read():
        async with transport.stream("GET", "/", {}) as answer:
            return [chunk async for chunk in answer.chunks]

    transport = AsgiTransport(application)
    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    await transport.close()

    with pytest.raises(TransportError, match="closed"):
        await reading
