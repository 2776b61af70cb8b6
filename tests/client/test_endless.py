"""Servers that never come to an end: their answers are refused early, and the remedy is told."""

import tracemalloc

import msgspec
import pytest

from bayplan.api import Pod
from bayplan.client import Client, Connection, Informer, connect, http1_connection, rest
from bayplan.client.asgi_transport import AsgiTransport
from bayplan.client.errors import AnswerTooLong, Forbidden
from bayplan.client.resources import PODS
from tests.client.test_stream import CHUNKED, serving

OK = b"HTTP/1.1 200 OK\r\n"
PART = b"x" * 8192
ANSWERS = {
    "a header": (OK + b"a: ", PART),
    "headers": (OK, b"a: b\r\n" * 1000),
    "interim answers": (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 300),
    "a body in chunks": (CHUNKED, b"2000\r\n" + PART + b"\r\n"),
    "a body with a length": (OK + b"Content-Length: 99999999999\r\n\r\n", PART),
    "a body until the end": (OK + b"\r\n", PART),
}


@pytest.fixture
def asked(monkeypatch):
    """How often the server was asked, with bounds that a test reaches soon."""
    monkeypatch.setattr(http1_connection, "MAX_HEAD", 1 << 17)
    monkeypatch.setattr(http1_connection, "MAX_ANSWER", 1 << 18)
    monkeypatch.setattr(rest, "MAX_EVENT", 1 << 18)
    monkeypatch.setattr(rest, "MAX_REFUSAL", 1 << 18)
    return []


def endless(asked, begin, part):
    async def answer(writer):
        asked.append(begin)
        writer.write(begin)
        while True:
            writer.write(part)
            await writer.drain()

    return answer


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_endless_answer_is_refused_at_once(name, asked):
    async with serving(endless(asked, *ANSWERS[name])) as url:
        client = connect(Connection(url))
        with pytest.raises(AnswerTooLong, match="check its address in the kubeconfig"):
            await client.list(PODS)
        await client.close()

    assert 1 == len(asked)


async def test_of_one_object_less_is_read_than_of_a_list(asked, monkeypatch):
    monkeypatch.setattr(http1_connection, "MAX_ANSWER", 1 << 30)
    monkeypatch.setattr(http1_connection, "MAX_OBJECT", 1 << 18)
    async with serving(endless(asked, *ANSWERS["a body in chunks"])) as url:
        client = connect(Connection(url))
        with pytest.raises(AnswerTooLong, match=str(1 << 18)):
            await client.get(PODS, "p", "default")
        with pytest.raises(AnswerTooLong, match=str(1 << 18)):
            await client.create(PODS, {}, "default")
        await client.close()


@pytest.mark.parametrize(
    ("method", "target", "one"),
    [
        ("POST", "/api/v1/namespaces/a/pods", True),
        ("PATCH", "/api/v1/namespaces/a/pods/p/status", True),
        ("GET", "/api/v1/namespaces/a/pods/p", True),
        ("GET", "/api/v1/nodes/n?pretty=1", True),
        ("GET", "/api/v1/namespaces/a", True),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/d", True),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments/d", True),
        ("GET", "/api/v1/namespaces/a/pods/p/log", False),
        ("GET", "/api/v1/namespaces/a/pods?limit=5", False),
        ("GET", "/api/v1/nodes", False),
        ("GET", "/apis/apps/v1/deployments", False),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments", False),
        ("GET", "/apis", False),
        ("GET", "/openapi/v2", False),
    ],
)
def test_what_is_asked_for_tells_how_long_an_answer_may_be(method, target, one):
    limit = http1_connection.MAX_OBJECT if one else http1_connection.MAX_ANSWER

    assert limit == http1_connection.most(method, target)


async def test_chunks_of_few_bytes_take_no_more_than_their_length():
    """A list of them would take more than ten times as much."""

    async def answer(writer):
        writer.write(CHUNKED)
        for _ in range(100):
            writer.write(b"2\r\nxy\r\n" * 10_000)
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with serving(answer) as url:
        client = connect(Connection(url))
        tracemalloc.start()
        try:
            assert 2_000_000 == len(await client.list(PODS))
            assert tracemalloc.get_traced_memory()[1] < 16_000_000
        finally:
            tracemalloc.stop()
        await client.close()


@pytest.mark.parametrize("name", ["a header", "interim answers", "a body in chunks"])
async def test_so_is_a_watch_with_a_head_or_a_line_without_end(name, asked):
    async with serving(endless(asked, *ANSWERS[name])) as url:
        client = connect(Connection(url))
        with pytest.raises(AnswerTooLong, match="check its address in the kubeconfig"):
            async for _ in client.watch(PODS):
                pass
        await client.close()


async def test_of_an_endless_refusal_the_beginning_is_told(asked):
    begin = CHUNKED.replace(b"200 OK", b"403 Forbidden")
    async with serving(endless(asked, begin, b"2000\r\n" + PART + b"\r\n")) as url:
        client = connect(Connection(url))
        with pytest.raises(Forbidden, match="403 Forbidden: xxx"):
            async for _ in client.watch(PODS):
                pass
        await client.close()


def page(number, size=0):
    items = [{"metadata": {"name": f"p{number}", "uid": "x" * size}}]
    return {"metadata": {"continue": f"t{number}", "resourceVersion": "1"}, "items": items}


@pytest.mark.parametrize("size", [0, 100_000], ids=["too many", "too long"])
async def test_pages_without_end_are_not_read_for_ever(asked, monkeypatch, size):
    monkeypatch.setattr(rest, "MAX_PAGES", 50)

    async def app(scope, receive, send):
        asked.append(scope["path"])
        body = msgspec.json.encode(page(len(asked), size))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    client = Client(AsgiTransport(app))
    informer = Informer(client, PODS, Pod)
    for read in (client.pages(PODS), informer_pages(informer)):
        asked.clear()
        with pytest.raises(AnswerTooLong, match="the list of the answer is longer than"):
            async for _ in read:
                pass
        assert len(asked) == (3 if size else 51)


async def informer_pages(informer):
    await informer._relist()
    yield
