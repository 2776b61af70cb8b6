"""Requests: paths and bodies, retries, limits, errors, and the lean connections underneath."""

import asyncio
import gzip
import json

import pytest

from bayplan.client import (
    AlreadyExists,
    ApiError,
    AsgiTransport,
    Client,
    Conflict,
    Connection,
    Gone,
    NotFound,
    RateLimiter,
    TransportError,
    connect,
)
from bayplan.client.errors import RequestTimeout, ServerFault, error_from
from bayplan.client.http1 import Http1Pool
from bayplan.client.resources import DEPLOYMENTS, NODES, PODS
from bayplan.client.rest import BROKEN_READ_RETRIES, _query_text, _retry_after, is_retriable
from bayplan.client.transport import Response
from bayplan.clock import run_virtual
from tests.client.fake_api import FakeApi, status


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("ns", "p", "status"), "/api/v1/namespaces/ns/pods/p/status"),
        (NODES.path("", "n"), "/api/v1/nodes/n"),
        (DEPLOYMENTS.path("ns"), "/apis/apps/v1/namespaces/ns/deployments"),
    ],
)
def test_paths(path, want):
    assert want == path


@pytest.mark.parametrize(
    ("code", "body", "family", "reason"),
    [
        (404, status(404, "NotFound")[1], NotFound, "NotFound"),
        (409, status(409, "Conflict")[1], Conflict, "Conflict"),
        (409, status(409, "AlreadyExists")[1], AlreadyExists, "AlreadyExists"),
        (500, status(410, "Expired")[1], Gone, "Expired"),
        (404, "404 page not found", NotFound, "NotFound"),
        (418, "tea", ApiError, "Unknown"),
    ],
)
def test_errors_follow_code_and_reason(code, body, family, reason):
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()

    problem = error_from(code, raw)

    assert family is type(problem)
    assert reason == problem.reason


def test_busy_answers_are_tried_again_after_the_time_they_name():
    async def main():
        api = FakeApi()
        api.answers = [(*status(429, "TooManyRequests"), {"retry-after": "3"})] * 2
        await Client(AsgiTransport(api)).list(NODES)
        return asyncio.get_running_loop().time(), len(api.requests)

    assert (6.0, 3) == run_virtual(main())


def test_busy_answers_without_a_time_and_an_endless_series_are_raised():
    async def main():
        api = FakeApi()
        client = Client(AsgiTransport(api))
        api.answers = [(*status(429, "TooManyRequests"), {})]
        with pytest.raises(ApiError) as first:
            await client.list(NODES)
        api.fault = lambda method, path: (*status(503, "ServiceUnavailable"), {"retry-after": "1"})
        with pytest.raises(ApiError) as second:
            await client.list(NODES)
        return first.value.code, second.value.code, len(api.requests), is_retriable(second.value)

    assert (429, 503, 12, True) == run_virtual(main())


def test_every_request_is_observed_with_its_code_and_time():
    async def main():
        seen = []

        async def app(scope, receive, send):
            await asyncio.sleep(2)
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

        client = Client(AsgiTransport(app), observe=lambda *call: seen.append(call), timeout=3)
        await client.create(PODS, {}, "ns")
        with pytest.raises(RequestTimeout):
            await client.request("POST", "/x", timeout=1)
        return seen

    assert [("POST", 201, 2.0), ("POST", 0, 1.0)] == run_virtual(main())


def test_bind_posts_a_binding():
    async def main():
        bodies = []

        async def app(scope, receive, send):
            bodies.append((scope["path"], json.loads((await receive())["body"])))
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

        await Client(AsgiTransport(app, token="secret")).bind("ns", "p", "u", "n")
        return bodies

    assert [
        (
            "/api/v1/namespaces/ns/pods/p/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": "ns", "name": "p", "uid": "u"},
                "target": {"kind": "Node", "name": "n"},
            },
        )
    ] == run_virtual(main())


def test_limiter_lets_a_burst_pass_and_then_keeps_the_pace():
    async def main():
        limiter = RateLimiter(10, 5)
        moments = []

        async def one():
            await limiter.acquire()
            moments.append(round(asyncio.get_running_loop().time(), 3))

        await asyncio.gather(*[one() for _ in range(8)])
        await asyncio.sleep(10)
        before = asyncio.get_running_loop().time()
        await asyncio.gather(*[limiter.acquire() for _ in range(5)])
        return moments, asyncio.get_running_loop().time() - before

    assert ([0, 0, 0, 0, 0, 0.1, 0.2, 0.3], 0) == run_virtual(main())


def test_a_limiter_that_rested_for_long_lets_no_more_than_its_burst_pass():
    async def main():
        limiter = RateLimiter(10, 5)
        await limiter.acquire()
        await asyncio.sleep(3600)
        before = asyncio.get_running_loop().time()
        await asyncio.gather(*[limiter.acquire() for _ in range(8)])
        return round(asyncio.get_running_loop().time() - before, 3)

    assert 0.3 == run_virtual(main()), "the sixth to the eighth wait a tenth of a second each"


def test_a_lease_is_renewed_past_the_queue_of_a_backlog():
    async def main():
        client = Client(AsgiTransport(FakeApi()), limiter=RateLimiter(1, 1))
        backlog = [asyncio.ensure_future(client.list(NODES)) for _ in range(50)]
        await asyncio.sleep(0)
        await client.unlimited().list(NODES)
        passed = asyncio.get_running_loop().time()
        await asyncio.gather(*backlog)
        return passed, asyncio.get_running_loop().time()

    assert (0.0, 49.0) == run_virtual(main())


def test_pages_follow_the_continue_token():
    async def main():
        tokens = ["next", ""]

        async def app(scope, receive, send):
            page = {"metadata": {"continue": tokens.pop(0)}, "items": []}
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps(page).encode()})

        return len([page async for page in Client(AsgiTransport(app)).pages(PODS)])

    assert run_virtual(main()) == 2


def test_in_process_timeout():
    async def main():
        async def app(scope, receive, send):
            await asyncio.sleep(100)

        with pytest.raises(RequestTimeout):
            await Client(AsgiTransport(app), timeout=5).create(PODS, {}, "ns")
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *(("3", 3.0), ("0.5", 0.5), ("0", 0.0), ("-2", 0.0)),
        *((odd, None) for odd in ("", "tomorrow", "nan", "inf")),
    ],
)
def test_a_header_may_say_when_to_come_back(value, seconds):
    assert seconds == _retry_after({"retry-after": value})
    assert _retry_after({}) is None


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"a": None}, ""),
        ({"a": True, "b": False, "c": None}, "?a=true&b=false"),
        ({"a": 0, "b": "x y"}, "?a=0&b=x+y"),
    ],
)
def test_a_query_says_what_is_given(query, text):
    assert text == _query_text(query)


@pytest.mark.parametrize(
    ("failure", "again"),
    [
        (TransportError("gone"), True),
        (error_from(429, b""), True),
        (error_from(500, b""), True),
        (error_from(503, b""), True),
        (error_from(404, b""), False),
        (error_from(409, b""), False),
        (error_from(422, b""), False),
        (ValueError("no"), False),
    ],
)
def test_what_may_succeed_later_is_told_apart(failure, again):
    assert again is is_retriable(failure)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        pytest.param({"retryAfterSeconds": 3}, 3.0, id="seconds"),
        pytest.param({"retryAfterSeconds": 0}, None, id="zero is none"),
        pytest.param({"retryAfterSeconds": "3"}, None, id="a text is none"),
        pytest.param({}, None, id="not given"),
    ],
)
def test_a_status_may_say_when_to_come_back(details, expected):
    body = json.dumps({"kind": "Status", "code": 429, "details": details}).encode()

    assert expected == error_from(429, body).retry_after
    assert 7.0 == error_from(429, body, retry_after=7.0).retry_after


def test_headers_say_what_is_sent_and_what_is_wanted():
    """Each combination has its own; the same one is the same object, which transports rely on."""
    client = Client(AsgiTransport(FakeApi()))

    nothing = client._headers_for(None, "application/json", "")
    json_ = client._headers_for(b"{}", "application/json", "")
    patch = client._headers_for(b"{}", "application/merge-patch+json", "")
    table = client._headers_for(None, "application/json", "application/json;as=Table")

    assert "content-type" not in nothing
    assert "application/json" == json_["content-type"]
    assert "application/merge-patch+json" == patch["content-type"]
    assert ("application/json;as=Table", None) == (table["accept"], table.get("content-type"))
    assert patch is client._headers_for(b"[]", "application/merge-patch+json", "")


def test_a_read_over_broken_connections_is_tried_three_times_and_a_write_once():
    class Broken:
        def __init__(self):
            self.methods = []

        async def request(self, method, *rest):
            self.methods.append(method)
            raise TransportError("broken")

    async def main():
        transport = Broken()
        client = Client(transport)
        for call in (client.list(PODS), client.create(PODS, {}, "ns")):
            with pytest.raises(TransportError):
                await call
        return transport.methods

    assert ["GET"] * (1 + BROKEN_READ_RETRIES) + ["POST"] == run_virtual(main())


class RawServer:
    """Answers each request on a connection with the next of the given byte strings."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.tasks: list[asyncio.Task] = []
        self.requests: list[bytes] = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *problem):
        if problem[0] is not None:  # the connections may be open still
            for task in self.tasks:
                task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=problem[0] is not None)
        self.server.close()
        await self.server.wait_closed()

    async def serve(self, reader, writer):
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if b"connection: close" in answer.lower():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        await writer.wait_closed()


def reply(body: bytes, *extra: bytes, code: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + code, b"Content-Length: %d" % len(body), *extra]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def test_connections_are_kept_and_replaced_when_the_server_closes_them():
    async with RawServer(
        reply(b"one"), reply(b"two", b"Connection: close"), reply(b"three")
    ) as server:
        pool = Http1Pool(server.url, None)
        bodies = [
            (await pool.request("POST", "/x?y=1", {"a": "b"}, b"{}", 5)).body for _ in range(3)
        ]
        await pool.close()

    assert [b"one", b"two", b"three"] == bodies
    assert 0 == pool.connections
    assert server.connections == 2
    assert server.requests[0].startswith(b"POST /x?y=1 HTTP/1.1\r\nhost: 127.0.0.1:")
    assert server.requests[0].endswith(b"a: b\r\ncontent-length: 2\r\n\r\n{}")


async def test_compressed_and_chunked_answers_are_read():
    packed = gzip.compress(b"text")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    async with RawServer(reply(packed, b"Content-Encoding: gzip"), chunked) as server:
        pool = Http1Pool(server.url, None)
        first = await pool.request("GET", "/", {}, None, 5)
        second = await pool.request("GET", "/", {}, None, 5)
        await pool.close()

    assert (b"text", b"abc") == (first.body, second.body)


async def test_an_answer_that_cannot_be_unpacked_is_an_error_and_ends_its_connection():
    broken = reply(b"no gzip", b"Content-Encoding: gzip")
    async with RawServer(broken, reply(b"ok")) as server:
        pool = Http1Pool(server.url, None)
        with pytest.raises(TransportError, match="cannot be unpacked"):
            await pool.request("GET", "/", {}, None, 5)
        between = pool.connections
        second = await pool.request("GET", "/", {}, None, 5)
        await pool.close()

    assert (0, b"ok", 2) == (between, second.body, server.connections)


async def test_an_interim_answer_is_passed_over():
    async with RawServer(b"HTTP/1.1 103 Early Hints\r\n\r\n" + reply(b"ok")) as server:
        pool = Http1Pool(server.url, None)
        answer = await pool.request("GET", "/", {}, None, 5)
        await pool.close()

    assert (200, b"ok") == (answer.status, answer.body)


async def test_a_connection_that_the_server_will_close_is_closed_here_first():
    """It would stay open for as long as the server keeps its side."""
    left = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(b"ok", b"Connection: close"))
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        pool = Http1Pool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None)
        answer = await pool.request("GET", "/", {}, None, 5)
        await asyncio.wait_for(left.wait(), 60)

    assert (b"ok", 0) == (answer.body, pool.connections)


async def test_a_connection_that_ended_while_idle_is_not_used_again():
    async with RawServer(reply(b"one"), reply(b"two")) as server:
        pool = Http1Pool(server.url, None)
        await pool.request("GET", "/", {}, None, 5)
        (idle,) = pool._idle
        idle.fail(TransportError("closed by the server"))
        second = await pool.request("GET", "/", {}, None, 5)
        await pool.close()

    assert (b"two", 2) == (second.body, server.connections)


async def test_a_connection_that_ends_without_an_answer_is_an_error_for_writes():
    async with RawServer(None) as server:
        client = connect(Connection(server.url))
        with pytest.raises(TransportError, match="closed by the server"):
            await client.create(PODS, {}, "ns")
        await client.close()

    assert len(server.requests) == 1


async def test_a_read_is_tried_again_on_a_new_connection():
    async with RawServer(None, reply(b'{"items": []}')) as server:
        client = connect(Connection(server.url))
        body = await client.list(PODS)
        await client.close()

    assert body == b'{"items": []}'


async def test_an_answer_that_comes_too_late():
    async with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nslow") as server:
        pool = Http1Pool(server.url, None)
        with pytest.raises(RequestTimeout):
            await pool.request("GET", "/", {}, None, 0.05)
        await pool.close()


async def test_no_server_says_so():
    client = connect(Connection("http://127.0.0.1:1"), timeout=60)
    with pytest.raises(TransportError, match=r": Connection refused; is the API server running"):
        await client.create(PODS, {}, "ns")
    await client.close()


async def test_401_fetches_new_credentials_once(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    refused = reply(b"{}", code=b"401 Unauthorized")
    async with RawServer(refused, reply(b"{}"), refused, refused) as server:
        client = connect(Connection(server.url, token_file=str(token)))
        await client.create(PODS, {}, "ns")
        with pytest.raises(ApiError, match="401"):
            await client.create(PODS, {}, "ns")
        await client.close()

    assert len(server.requests) == 4


async def test_watch_over_sockets_splits_lines_across_pieces():
    part = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{}\n{\r\n3\r\n1}\n\r\n0\r\n\r\n"
    )
    async with RawServer(part) as server:
        client = connect(Connection(server.url))
        lines = [line async for batch in client.watch(PODS) for line in batch]
        await client.close()

    assert [b"{}", b"{1}"] == lines


async def test_watch_refused_with_410():
    body = json.dumps(status(410, "Expired")[1]).encode()
    async with RawServer(reply(body, code=b"410 Gone")) as server:
        client = connect(Connection(server.url))
        with pytest.raises(Gone):
            async for _ in client.watch(PODS):
                pass
        await client.close()


async def test_an_error_that_is_no_text_is_an_error_all_the_same():
    class Odd(AsgiTransport):
        async def request(self, *given):
            return Response(503, {}, b'{"message\xed":"x","reason":"\xff"}')

    with pytest.raises(ServerFault):
        await Client(Odd(None)).get(PODS, "p", "default")
