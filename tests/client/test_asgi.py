"""An application of this process as the server: what it is told, and what a reader sees of it."""

import asyncio

import pytest

from bayplan.client import AsgiTransport, TransportError
from bayplan.clock import run_virtual


async def answer(send, *parts, status=200):
    await send({"type": "http.response.start", "status": status, "headers": [(b"A-B", b"c")]})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})


def test_an_application_is_told_what_a_server_would_tell_it():
    scopes = []

    async def app(scope, receive, send):
        scopes.append((scope, await receive()))
        await answer(send, b"o", b"", b"k", status=201)

    async def main():
        transport = AsgiTransport(app, token="secret")
        return await transport.request("PUT", "/a%20b?c=d%20e", {"X-Y": "z"}, b"body", None)

    got = run_virtual(main())
    ((scope, message),) = scopes

    assert (201, {"a-b": "c"}, b"ok") == (got.status, got.headers, got.body)
    assert {"type": "http.request", "body": b"body", "more_body": False} == message
    assert ("PUT", "/a b", b"/a%20b", b"c=d%20e") == (
        scope["method"],
        scope["path"],
        scope["raw_path"],
        scope["query_string"],
    )
    assert [
        (b"host", b"in-process"),
        (b"x-y", b"z"),
        (b"authorization", b"Bearer secret"),
    ] == scope["headers"]
    assert (("127.0.0.1", 0), ("in-process", 80)) == (scope["client"], scope["server"])


def test_no_token_is_no_header():
    async def app(scope, receive, send):
        await answer(send, b",".join(name for name, _ in scope["headers"]))

    got = run_virtual(AsgiTransport(app).request("GET", "/", {}, None, 5))

    assert b"host" == got.body


def test_a_client_stays_until_it_has_its_answer():
    """An application that looks whether its client has left hears nothing."""

    async def app(scope, receive, send):
        await receive()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 3)
        await answer(send, b"ok")

    assert b"ok" == run_virtual(AsgiTransport(app).request("GET", "/", {}, None, 5)).body


@pytest.mark.parametrize("way", ["request", "stream"])
def test_an_application_that_says_nothing_is_an_error(way):
    async def app(scope, receive, send):
        if way == "stream":
            raise ValueError("no words")

    async def main():
        transport = AsgiTransport(app)
        if way == "request":
            await transport.request("GET", "/x", {}, None, None)
        async with transport.stream("GET", "/x", {}):
            pass

    with pytest.raises(TransportError, match=r"GET /x: (the application sent no|no words)"):
        run_virtual(main())


def test_a_stream_that_fails_says_so_after_what_came():
    async def app(scope, receive, send):
        await answer(send, b"one", b"two")
        raise ValueError("gone")

    async def main():
        seen = []
        async with AsgiTransport(app).stream("GET", "/", {}) as response:
            seen += [response.status, response.headers]
            seen += [await anext(response.chunks), await anext(response.chunks)]
            with pytest.raises(TransportError, match="stream broke: gone"):
                await anext(response.chunks)
        return seen

    assert [200, {"a-b": "c"}, b"one", b"two"] == run_virtual(main())


def test_a_reader_who_leaves_is_told_to_the_application_once_it_asked_for_the_request():
    heard = []

    async def app(scope, receive, send):
        heard.append(await receive())
        await answer(send, b"one")
        listening = asyncio.ensure_future(receive())
        try:
            heard.append((await asyncio.wait({listening}, timeout=60))[0])
        except asyncio.CancelledError:
            heard.append(await listening)

    async def main():
        transport = AsgiTransport(app)
        async with transport.stream("GET", "/", {}) as response:
            await anext(response.chunks)
            await asyncio.sleep(1)
            assert 1 == len(heard)
        return heard, await transport.refresh_credentials()

    told, again = run_virtual(main())

    assert [
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ] == told
    assert again is False
