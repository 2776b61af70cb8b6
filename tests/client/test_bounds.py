"""Where the client's bounds lie exactly, and what its smaller parts decide."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from bayplan import packed
from bayplan.client import AsgiTransport, Client, Informer, TransportError, http1_connection, rest
from bayplan.client.errors import AnswerTooLong, ApiError
from bayplan.client.http1 import _Exchange
from bayplan.client.resources import PODS, Resource
from bayplan.client.rest import Paging
from bayplan.client.transport import StreamResponse
from tests.client.test_informer_model import Object

MOST = 100


class Pieces:
    """A transport whose streams have these pieces."""

    def __init__(self, pieces, status=200):
        self.pieces, self.status = pieces, status

    @asynccontextmanager
    async def stream(self, method, target, headers):
        async def chunks():
            for piece in self.pieces:
                yield piece

        yield StreamResponse(self.status, {}, chunks())


async def lines_of(*pieces):
    return [batch async for batch in Client(Pieces(pieces)).watch(PODS)]


async def test_a_line_may_be_as_long_as_its_bound_and_no_longer(monkeypatch):
    monkeypatch.setattr(rest, "MAX_EVENT", MOST)
    half = b"x" * (MOST // 2)

    # what came before the line, and other lines, are not counted
    found = await lines_of(half, half, b"\n", half, half, b"y\n\nz", b"\n")
    assert [[], [half + half], [half + half + b"y"], [b"z"]] == found
    with pytest.raises(AnswerTooLong, match=str(MOST)):
        await lines_of(half, b"\n", half, half, b"x")


async def test_of_a_refusal_enough_is_read_and_no_more(monkeypatch):
    monkeypatch.setattr(rest, "MAX_REFUSAL", MOST)
    read = []

    def pieces():
        for number in range(5):
            read.append(number)
            yield b"x" * (MOST // 2)

    with pytest.raises(ApiError):
        async for _ in Client(Pieces(pieces(), 403)).watch(PODS):
            pass

    assert [0, 1, 2] == read


def chunks_of(size, body):
    cut = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in cut) + b"0\r\n\r\n"


FRAMES = {
    "a length": lambda body: b"content-length: %d\r\n\r\n%b" % (len(body), body),
    "one chunk": lambda body: b"transfer-encoding: chunked\r\n\r\n" + chunks_of(4096, body),
    "chunks": lambda body: b"transfer-encoding: chunked\r\n\r\n" + chunks_of(1, body),
    "gzip": lambda body: b"content-encoding: gzip\r\n" + FRAMES["a length"](packed.pack(body)),
}


@pytest.mark.parametrize("at_once", [1, 4096], ids=["in many reads", "in one read"])
@pytest.mark.parametrize("frame", FRAMES)
async def test_a_body_may_be_as_long_as_its_bound_and_no_longer(frame, at_once):
    """What stands around it is not counted."""

    async def read(size):
        exchange = _Exchange()
        answer = exchange.answer = asyncio.get_running_loop().create_future()
        exchange.limit = MOST
        sent = b"HTTP/1.1 200 OK\r\n" + FRAMES[frame](b"x" * size)
        for at in range(0, len(sent), at_once):
            exchange.data_received(sent[at : at + at_once])
        return len((await answer).body)

    assert MOST == await read(MOST)
    with pytest.raises(TransportError, match=f"(longer|larger) than {MOST} bytes"):
        await read(MOST + 1)


@pytest.mark.parametrize("pages", [2, 200], ids=["long ones", "many"])
def test_a_list_may_be_as_long_as_its_bound_and_no_longer(pages, monkeypatch):
    monkeypatch.setattr(http1_connection, "MAX_ANSWER", MOST)
    monkeypatch.setattr(rest, "MAX_PAGES", 200)
    paging = Paging()
    for _ in range(pages):
        paging.check(b"x" * (MOST // pages))

    with pytest.raises(AnswerTooLong):
        paging.check(b"x")


@pytest.mark.parametrize(
    ("code", "optional", "absent"),
    [
        *((code, True, code in (403, 404)) for code in (402, 403, 404, 405, 500)),
        (404, False, False),
    ],
)
def test_a_kind_that_need_not_be_there_is_absent(code, optional, absent):
    informer = Informer(Client(AsgiTransport(None)), PODS, Object, optional=optional)

    assert absent is informer._absent(ApiError(code, "Reason", "text"))
    assert not informer._absent(TransportError("x"))


@pytest.mark.parametrize(
    ("synced", "again", "told"),
    [(False, False, 1), (False, True, 1), (True, False, 0), (True, True, 1)],
)
def test_a_break_is_told_when_nothing_is_known_yet_or_it_lasts(synced, again, told):
    informer = Informer(Client(AsgiTransport(None)), PODS, Object)
    if synced:
        informer.mark_synced()
    failed = []
    informer._outage.failed = failed.append

    informer._tell(TransportError("x"), again=again)

    assert told == len(failed)


def test_how_a_version_is_named():
    assert "v1" == PODS.api_version
    assert "g/v2" == Resource("g", "v2", "things", "Thing").api_version


async def test_nothing_is_kept_of_a_stream_in_the_process():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await asyncio.Event().wait()

    transport = AsgiTransport(app)
    for _ in range(3):
        async with transport.stream("GET", "/", {}) as response:
            assert b"x" == await anext(response.chunks)

    assert not transport._streams
    await transport.close()
