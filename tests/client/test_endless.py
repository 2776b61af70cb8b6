"""Servers that never come to an end: their answers are refused early, and the remedy is told."""

import pytest

from bayplan.client import Connection, connect, http1_connection, rest
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
