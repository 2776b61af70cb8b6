"""Clients that send too much, too slowly or never read, on real sockets."""

import asyncio
import gc
import itertools
import sqlite3
import weakref
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from bayplan import edge
from bayplan.apiserver import health
from bayplan.apiserver.serving import Settings, running
from bayplan.apiserver.verbs import watch
from bayplan.asgi import begin, config
from bayplan.listening import listen
from bayplan.scope import PIECE
from bayplan.store import Compacted, MemoryStore, SqliteStore, StoreError, history
from tests.apiserver.api import CONFIGMAPS, Api, configmap


@asynccontextmanager
async def serving(**settings):
    async with running(Settings(store="memory", tls_generate=False, **settings)) as served:
        yield served


async def connect(served):
    port = int(served.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port)


async def answer(reader):
    """All that comes until the server ends the connection, in whichever way."""
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""


def head(served, method="GET", path="/healthz", *more):
    lines = [f"{method} {path} HTTP/1.1", "host: x", f"authorization: Bearer {served.token}"]
    return "\r\n".join([*lines, *more]).encode() + b"\r\n\r\n"


async def send_all(writer, pieces):
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass  # the server has had enough


async def test_space_around_a_header_s_value_is_none_of_it():
    """As in Go: a user who is impersonated is not another with a space behind the name."""
    async with serving() as served:
        reader, writer = await connect(served)
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
        more = (
            "Impersonate-User: \t carol \t ",
            "connection: close",
            f"content-length: {len(body)}",
        )
        writer.write(head(served, "POST", path, *more) + body)

        assert b'"username":"carol"' in await answer(reader)
        writer.close()


async def test_a_body_larger_than_a_head_may_be_is_taken():
    async with serving() as served:
        reader, writer = await connect(served)
        more = ("transfer-encoding: chunked", "content-type: application/json", "connection: close")
        body = b'{"metadata":{"name":"x"},"data":{"a":"%b"}}' % (b"x" * (edge.MAX_HEAD + 8192))
        chunked = b"%x\r\n%b\r\n0\r\na: b\r\n\r\n" % (len(body), body)
        await send_all(writer, [head(served, "POST", CONFIGMAPS, *more) + chunked])

        assert b" 201 " in await answer(reader)
        writer.close()


async def test_requests_ahead_of_their_answers_are_answered_in_order():
    async with serving() as served:
        reader, writer = await connect(served)
        writer.write(head(served) * edge.MAX_AHEAD + head(served, "GET", "/x", "connection: close"))

        said = await answer(reader)
        assert said.count(b" 200 OK") == edge.MAX_AHEAD
        assert said.count(b" 404 ") == 1
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: "], ids=["nothing", "half"])
async def test_a_head_must_come_in_time(monkeypatch, sent):
    monkeypatch.setattr(edge, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(edge, "LOOK_EVERY", 0.05)
    async with serving() as served:
        reader, writer = await connect(served)
        writer.write(sent)

        assert b"" == await answer(reader)
        writer.close()


async def test_bodies_that_trickle_in_hold_nobody_up():
    async with serving(max_mutating_requests_inflight=2) as served:
        slow = [await connect(served) for _ in range(8)]
        for _, writer in slow:
            writer.write(head(served, "POST", CONFIGMAPS, "content-length: 100") + b"{")
            await writer.drain()
        reader, writer = await connect(served)
        body = b'{"metadata":{"name":"x"}}'
        more = ("content-type: application/json", f"content-length: {len(body)}")
        writer.write(head(served, "POST", CONFIGMAPS, "connection: close", *more) + body)

        assert b" 201 " in await answer(reader)
        for _, each in [*slow, (reader, writer)]:
            each.close()


# -- watches -------------------------------------------------------------------------------------


async def test_an_unread_watch_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 100_000)
    store = MemoryStore(max_bytes=10_000)
    slow = store.watch("a/", after=store.revision)
    kept = store.watch("a/", after=store.revision)
    for number in range(300):
        await store.put(f"a/{number % 3}", b"x" * 1000)
        kept.take()

    with pytest.raises(Compacted):
        slow.take()
    await store.close()


ASKED = [
    ("GET", "/api/v1/namespaces/default", ""),
    ("GET", "/api/v1/namespaces/nobody", ""),
    ("HEAD", "/api/v1/namespaces/default", ""),
    ("POST", CONFIGMAPS + "?dryRun=All", "{"),
    ("GET", "/api/v1/namespaces/default", "x-last: yes\r\nconnection: close"),
]


async def all_answers(served):
    """What comes for all of them, sent at once on one connection."""
    reader, writer = await connect(served)
    for method, path, text in ASKED:
        body = text if method == "POST" else ""
        more = [f"content-length: {len(body)}", *([text] if text and not body else [])]
        writer.write(head(served, method, path, *more) + body.encode())
    found = await answer(reader)
    writer.close()
    return found


async def test_answers_in_one_piece_are_those_in_two(monkeypatch):
    at_once, used = edge.at_once, []

    def noted(*given):
        used.append(at_once(*given))
        return used[-1]

    async with serving() as served:
        monkeypatch.setattr(edge, "at_once", noted)
        found = await all_answers(served)
        monkeypatch.setattr(edge, "at_once", lambda *_: False)
        in_two = await all_answers(served)

    assert [True, True, True, False] == used, "not to one who wants the connection closed"
    assert in_two == found
    assert 5 == found.count(b"HTTP/1.1 ")


async def test_a_header_s_value_cannot_end_the_head():
    written = []
    cycle = RequestResponseCycle(
        scope={},
        transport=SimpleNamespace(write=written.append),
        flow=SimpleNamespace(write_paused=False),
        logger=None,
        access_logger=None,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=lambda: None,
    )
    length = (b"content-length", b"2")

    for value in (b"a\r\nx: y", b"a\n", b"a\r", b"a\0"):
        assert not edge.at_once(cycle.send, 200, [(b"warning", value), length], b"{}")
    assert edge.at_once(cycle.send, 200, [length], b"{}")
    assert not edge.at_once(cycle.send, 200, [length], b"{}"), "it was answered"
    assert [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"] == written


async def open_watch(served):
    """Open a watch on a socket of its own and read the answer's head."""
    reader, writer = await connect(served)
    writer.write(head(served, path=f"{CONFIGMAPS}?watch=1&labelSelector=bench"))
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def chunks(reader):
    """Yield the chunks of an answer, which must be framed as HTTP/1.1 asks."""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        data = await reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        yield data[:-2]


async def shown_to(reader, events, found):
    """Tell type and name or code of each event, until there are so many or an error."""
    data = b""
    async with asyncio.timeout(60):
        async for chunk in chunks(reader):
            data += chunk
            *lines, data = data.split(b"\n")
            for event in map(msgspec.json.decode, lines):
                about = event["object"]
                found.append((event["type"], about.get("code") or about["metadata"]["name"]))
            if len(found) >= events or (found and found[-1][0] == "ERROR"):
                return


async def test_watches_on_sockets_are_written_to_together_and_a_slow_one_ends_alone(monkeypatch):
    monkeypatch.setattr(history, "MAX_LAG_BYTES", 1 << 20)
    straight, written = edge.straight, []

    def counted(send):
        write = straight(send)
        return lambda framed: write(framed) and (written.append(framed) or True)

    monkeypatch.setattr(edge, "straight", counted)
    async with serving() as served:
        quick = [await open_watch(served) for _ in range(5)]
        slow, _ = unread = await open_watch(served)
        seen = [[] for _ in quick]
        reading = [
            asyncio.create_task(shown_to(reader, 300, found))
            for (reader, _), found in zip(quick, seen, strict=True)
        ]
        api = Api(served.server)
        for number in range(300):  # small ones, then more than sockets hold, some of several pieces
            size = 100 if number < 100 else 200_000 if number % 50 == 0 else 50_000
            shown = configmap(f"c{number}", labels={"bench": "1"}) | {"data": {"a": "x" * size}}
            await api.ok("POST", CONFIGMAPS, shown)
            while min(map(len, seen)) < number - 3:
                await asyncio.sleep(0)
        await asyncio.gather(*reading)
        told = []
        await shown_to(slow, 300, told)

        expected = [("ADDED", f"c{number}") for number in range(300)]
        assert [expected] * 5 == seen
        assert len(written) > 100, "small ones, without waking a task"
        assert ("ERROR", 410) == told[-1]
        assert expected[: len(told) - 1] == told[:-1], "what it was told is a beginning"
        for _, writer in [*quick, unread]:
            writer.close()


async def test_a_watch_that_has_ended_holds_nothing_without_the_collector(monkeypatch):
    straight, kept = edge.straight, []

    def noted(send):
        write = straight(send)
        kept.append(weakref.ref(write))
        return write

    monkeypatch.setattr(edge, "straight", noted)
    async with serving() as served:
        _, writer = await open_watch(served)
        gc.disable()  # servers seldom collect what has grown old
        try:
            writer.close()
            async with asyncio.timeout(60):
                while kept[0]() is not None:
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()


async def test_nothing_is_made_for_watches_whose_readers_have_gone(monkeypatch):
    made, batch_of = [], watch._Watch._batch

    def counted(self, batch):
        made.append(len(batch))
        return batch_of(self, batch)

    async with serving() as served:
        opened = [await open_watch(served) for _ in range(4)]
        watchers, api = served.server.backend.watchers, Api(served.server)
        text = {"data": {"a": "x" * 200_000}}
        for number in itertools.count():
            await api.ok("POST", CONFIGMAPS, configmap(f"c{number}", labels={"bench": "1"}) | text)
            if all(watcher._group.end - watcher.cursor > 40 for watcher in watchers):
                break
        monkeypatch.setattr(watch._Watch, "_batch", counted)
        for _, writer in opened:
            writer.transport.abort()
        async with asyncio.timeout(60):
            while watchers:
                await asyncio.sleep(0)

        assert len(made) < 40, "of more than 160 batches; some may have been under way"


async def test_a_watch_takes_bounded_batches_and_misses_nothing():
    store = MemoryStore()
    start = store.revision
    for number in range(50):
        await store.put(f"a/{number}", b"x" * 1000)
    watcher = store.watch("a/", after=start)
    watcher.batch_bytes = 5000
    for number in range(50, 100):
        await store.put(f"a/{number}", b"x" * 1000)

    seen, sizes = [], []
    while len(seen) < 100:
        batch = await anext(watcher)
        sizes.append(len(batch))
        seen += [event.kv.key for event in batch]
        assert watcher.progress <= batch[-1].kv.mod_revision or len(seen) == 100

    assert [f"a/{number}" for number in range(100)] == seen
    assert max(sizes) == 5
    assert store.revision == watcher.progress
    await store.close()


async def test_what_watchers_share_is_bounded_in_bytes(api, monkeypatch):
    monkeypatch.setattr("bayplan.apiserver.verbs.watch.MAX_ENCODED", 10_000)
    stream = await api.watch(f"{CONFIGMAPS}?watch=1")
    for number in range(20):
        await api.ok("POST", CONFIGMAPS, configmap(f"x{number}") | {"data": {"a": "x" * 1000}})
        await stream.until(number + 1)

    assert api.server.backend.encoded_bytes <= 10_000
    assert len(api.server.backend.encoded_events) < 10
    await stream.leave()


# -- a store that fails --------------------------------------------------------------------------


async def test_readiness_tells_the_truth(api, monkeypatch):
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.0)
    ready = await api.call("GET", "/readyz")

    async def broken():
        raise StoreError("gone")

    monkeypatch.setattr(api.server.store, "check", broken)
    answers = [await api.call("GET", path) for path in ("/readyz", "/healthz", "/livez")]

    assert (200, b"ok") == (ready.status, ready.raw)
    assert [500, 500, 200] == [each.status for each in answers]
    assert b"[-]etcd failed: reason withheld" in answers[0].raw
    assert b"gone" not in answers[0].raw


class FullDisk:
    """Lets SQLite find no room while the reserve is held."""

    def __init__(self, file):
        self.file, self.full, self.write = file, False, file._write
        self.restore = file._reserve.restore

    def write_now(self, events):
        if self.full and self.file._reserve._there:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        self.write(events)

    def restore_now(self):
        return self.file._reserve._there if self.full else self.restore()


async def test_on_a_full_disk_objects_can_be_deleted_and_nothing_is_created(tmp_path, monkeypatch):
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.0)
    store = await SqliteStore.open(tmp_path)
    api = await Api.start(store)
    await api.ok("POST", CONFIGMAPS, configmap("x"))
    disk = FullDisk(store._writer._commits.file)
    monkeypatch.setattr(disk.file, "_write", disk.write_now)
    monkeypatch.setattr(disk.file._reserve, "restore", disk.restore_now)

    disk.full = True
    refused = await api.call("POST", CONFIGMAPS, configmap("y"))
    deleted = await api.call("DELETE", f"{CONFIGMAPS}/x")
    still = await api.call("POST", CONFIGMAPS, configmap("y"))
    unready = await api.call("GET", "/readyz")
    disk.full = False
    made = await api.call("POST", CONFIGMAPS, configmap("y"))
    ready = await api.call("GET", "/readyz")

    found = [each.status for each in (refused, deleted, still, unready, made, ready)]
    assert [507, 200, 507, 500, 201, 200] == found
    assert "InsufficientStorage" == refused.body["reason"]
    assert 0 == api.server.failures
    await api.close()


async def test_a_watch_that_is_not_read_holds_a_piece_of_a_large_object(api):
    stream = await api.watch(f"{CONFIGMAPS}?watch=1")
    made = configmap("large") | {"data": {"a": "x" * 900_000}}
    await api.ok("POST", CONFIGMAPS, made)

    (event,) = await stream.until(1)
    await stream.leave()

    assert 900_000 == len(event["object"]["data"]["a"])
    assert PIECE >= max(map(len, stream.pieces))


def test_what_waits_for_a_slow_reader_is_shared_with_others():
    short, long = b"s" * 1000, b"l" * (PIECE - 999)
    lines = [*[short] * 100, long, long, short]

    chunks = list(watch.gathered(lines))

    assert b"".join(lines) == b"".join(chunks)
    assert PIECE >= max(map(len, chunks))
    assert [long, long] == [chunk for chunk in chunks if chunk is long]
    assert 5 == len(chunks)
    assert [] == list(watch.gathered([]))


async def test_who_takes_nothing_of_an_answer_is_cut_off(monkeypatch):
    monkeypatch.setattr(edge, "UNREAD_SECONDS", 0.1)
    monkeypatch.setattr(edge, "LOOK_EVERY", 0.05)
    gone = asyncio.Event()

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(512):
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
        gone.set()

    listener = listen("127.0.0.1", 0, "address")
    end = await begin(config(app, lifespan="off"), listener)
    _, writer = await asyncio.open_connection(*listener.getsockname(), limit=1024)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    try:
        async with asyncio.timeout(60):
            await gone.wait()
    finally:
        writer.close()
        await end()
