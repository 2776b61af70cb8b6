"""Calls to etcd: what is tried again, what is not, and what an answer means."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from bayplan.clock import run_virtual
from bayplan.store import StoreError, Unavailable
from bayplan.store.errors import Full, TooLarge
from bayplan.store.etcd_client import EtcdClient, Refused


@asynccontextmanager
async def answering(*answers: bytes | None):
    """A server that gives one answer a connection, then the last one always; None: it hangs up."""
    heard: list[bytes] = []
    left = list(answers)

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        heard.append(await reader.readexactly(length))
        answer = left.pop(0) if len(left) > 1 else left[0]
        if answer is not None:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = EtcdClient([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"], deadline=60.0)
    try:
        yield client, heard
    finally:
        await client.close()
        server.close()


def reply(body: object, status: bytes = b"200 OK") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(data)) + data


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        pytest.param(
            reply({"message": "mvcc: database space exceeded"}, b"400 Bad"),
            Full,
            "etcd answered: mvcc: database space exceeded",
            id="full",
        ),
        pytest.param(
            reply({"error": "request is too large"}, b"400 Bad"),
            TooLarge,
            "etcd answered: request is too large",
            id="too large",
        ),
        pytest.param(
            reply({"error": "trying to send message larger than max"}, b"429 Bad"),
            TooLarge,
            "larger than max",
            id="larger than max",
        ),
        pytest.param(
            reply({"message": "what?"}, b"400 Bad"), Refused, "etcd answered: what?", id="refused"
        ),
        pytest.param(reply(b"no JSON", b"400 No"), Refused, "etcd answered: no JSON", id="no JSON"),
        pytest.param(
            reply({"message": "no lease"}, b"404 No"), Refused, "etcd answered: no lease", id="404"
        ),
        pytest.param(reply(b"a page", b"404 No"), Refused, "does not answer as etcd", id="a page"),
        pytest.param(reply(b"", b"404 No"), Refused, "does not answer as etcd", id="no word"),
        pytest.param(
            reply({"message": "x"}, b"503 No"),
            Unavailable,
            "writing to etcd: outcome unknown: etcd answered: x",
            id="unavailable",
        ),
        pytest.param(None, Unavailable, "writing to etcd: outcome unknown", id="it hangs up"),
    ],
)
async def test_what_an_answer_to_a_write_means_and_that_it_is_sent_once(answer, kind, text):
    async with answering(answer) as (client, heard):
        with pytest.raises(kind) as problem:
            await client.call("/v3/kv/put", {"key": "a"}, dict, safe=False)

    assert text in str(problem.value)
    assert [b'{"key":"a"}'] == heard


@pytest.mark.parametrize("first", [None, reply({"message": "x"}, b"503 No")], ids=["gone", "busy"])
async def test_a_read_is_tried_again(first):
    async with answering(first, reply({"a": 1})) as (client, heard):
        assert {"a": 1} == await client.call("/v3/kv/range", {}, dict, safe=True)

    assert 2 == len(heard)


async def test_a_watch_that_is_refused_says_why():
    refused = reply(b'{"error": {"message": "no"}}\n')
    async with answering(refused) as (client, heard):
        with pytest.raises(Unavailable, match="watching etcd: "):
            await anext(client.watch({"key": "a"}))

    assert [b'{"createRequest":{"key":"a"}}'] == heard


async def test_a_watch_that_breaks_is_unavailable():
    async with answering(None) as (client, _):
        with pytest.raises(Unavailable, match="watching etcd: "):
            await anext(client.watch({}))


async def test_a_watch_that_breaks_is_tried_at_the_next_endpoint():
    async with answering(None) as (client, _):
        client._endpoints.append("http://next")
        with pytest.raises(Unavailable):
            await anext(client.watch({}))

        assert "http://next" == client._endpoint()


class Pieces:
    """What a connection says, piece by piece."""

    connection = None

    def __init__(self, pieces):
        self.content, self.pieces = self, pieces

    async def iter_any(self):
        for piece in self.pieces:
            yield piece

    async def __aenter__(self):
        return self

    async def __aexit__(self, *given):
        return None


async def test_what_a_watch_says_is_read_however_it_is_cut(monkeypatch):
    said = b"".join(b'{"result":{"header":{"revision":"%d"}}}\n' % n for n in (7, 8, 9))
    client = EtcdClient(["http://a"])
    for cuts in [*((cut,) for cut in range(len(said))), range(1, len(said))]:
        pieces = [said[low:high] for low, high in pairwise([0, *cuts, len(said)])]
        monkeypatch.setattr(client._session, "post", lambda *a, said=pieces, **k: Pieces(said))
        seen = [result.header.revision async for result in client.watch({})]
        assert [7, 8, 9] == seen, cuts
    await client.close()


async def test_a_page_instead_of_an_answer_is_quoted_by_its_beginning():
    async with answering(reply(b"x" * 300, b"400 No")) as (client, _):
        with pytest.raises(Refused) as problem:
            await client.call("/v3/kv/put", {}, dict, safe=False)

    assert "etcd answered: " + "x" * 200 == str(problem.value)


class Nowhere(EtcdClient):
    """Finds nobody, and tells when and where it looked."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.looked = []

    async def _post(self, path, body):
        self.looked.append((round(asyncio.get_running_loop().time(), 2), self._endpoint()))
        raise Unavailable("away")


@pytest.mark.parametrize(
    ("deadline", "moments"),
    [
        pytest.param(0.04, [0], id="no time for a second try"),
        pytest.param(0.05, [0, 0.05], id="just time for one"),
        pytest.param(4.0, [0, 0.05, 0.15, 0.35, 0.75, 1.55, 2.55, 3.55], id="ever more seldom"),
    ],
)
def test_a_read_is_tried_until_the_deadline_at_one_endpoint_after_the_other(deadline, moments):
    async def main():
        client = Nowhere(["http://a", "http://b"], deadline=deadline)
        where = "ab"[len(moments) % 2]
        with pytest.raises(
            Unavailable, match=f"^calling etcd at http://{where}: away; is it running"
        ):
            await client.call("/v3/kv/range", {}, dict, safe=True)
        await client.close()
        return client.looked

    looked = run_virtual(main())

    assert [(moment, f"http://{'ab'[n % 2]}") for n, moment in enumerate(moments)] == looked


async def test_who_answers_something_else_is_no_etcd():
    async with answering(reply(b"<html>")) as (client, heard):
        with pytest.raises(Refused, match="does not answer as etcd; check --etcd-servers"):
            await client.call("/v3/kv/range", {}, dict, safe=True)

    assert 1 == len(heard)


async def test_an_etcd_is_somewhere():
    with pytest.raises(StoreError, match="no endpoint given"):
        EtcdClient([])


async def test_the_endpoint_that_was_named_first_is_asked_first():
    client = EtcdClient(["http://a/", "http://b"])
    first = client._endpoint()
    await client.close()

    assert "http://a" == first
