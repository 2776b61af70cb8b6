"""Frames on a websocket that was taken: too large, without end, nonsense, floods, nobody reads."""

import asyncio
import base64
import gc
import struct
import weakref

import pytest
from structlog.testing import capture_logs

from bayplan import edge, edge_socket, intake
from bayplan.apiserver import streams
from bayplan.apiserver.serving import Settings, running
from bayplan.store import Unavailable
from bayplan.store.memory import MemoryStore
from tests.apiserver.api import PODS, Api, pod
from tests.waiting import wait_for

MASK = b"\1\2\3\4"
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
END_OF_STDIN = b"\xff\0"  # in v5
HUSH = "hush-this-is-a-secret"


def frame(opcode, data=b"", *, fin=True, masked=True, size=None):
    size = len(data) if size is None else size
    bit = 0x80 if masked else 0
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 1 << 16:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + data
    return head + MASK + bytes(byte ^ MASK[at % 4] for at, byte in enumerate(data))


class Waiting:
    """Runs commands that wait for all of their input, and pods that print without end."""

    def __init__(self):
        self.got = []
        self.printed = 0

    async def execute(self, pod, container, command, given, write):
        if command == ["fail"]:
            raise ValueError("of the command")
        if command == ["wait"]:
            await asyncio.Event().wait()
        self.got.append(await given() if given else None)
        return 0

    async def attach(self, pod, container):
        while True:
            self.printed += 1
            yield b"x" * 1000


@pytest.fixture
async def served():
    async with running(Settings(store="memory", tls_generate=False)) as started:
        started.server.backend.containers = Waiting()
        body = pod("p") | {"status": {"phase": "Running"}}
        body["spec"] |= {"nodeName": "n"}
        await Api(started.server).ok("POST", PODS, body)
        await Api(started.server).ok("PUT", f"{PODS}/p/status", body)
        yield started


async def opened(served, path="exec?command=cat&stdin=true", *more, protocol="v5.channel.k8s.io"):
    port = int(served.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        f"GET {PODS}/p/{path} HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        *more,
    ]
    if protocol:
        lines.append(f"sec-websocket-protocol: {protocol}")
    if not more:
        lines.append(f"authorization: Bearer {served.token}")
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
    return head, reader, writer


async def told(reader, text):
    """Wait for a text; the end would wait for our answer to the server's closing."""
    async with asyncio.timeout(60):
        await reader.readuntil(text)


async def ended(reader):
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""


async def send_all(writer, pieces):
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass


BIG = edge_socket.MAX_MESSAGE
BAD = {
    "larger than allowed": ([frame(BINARY, size=BIG + 1)], 1009),
    "larger than there is": ([frame(BINARY, size=2**63 - 1)], 1009),
    "large in pieces": (
        [frame(BINARY, b"x" * 65536, fin=False)] + [frame(CONT, b"x" * 65536, fin=False)] * 17,
        1009,
    ),
    "empty pieces": ([frame(BINARY, fin=False), frame(CONT, fin=False) * 100_000], 1009),
    "not masked": ([frame(BINARY, b"\0x", masked=False)], 1002),
    "an unknown kind": ([frame(3, b"x")], 1002),
    "a piece of nothing": ([frame(CONT, b"x")], 1002),
    "a ping in pieces": ([frame(PING, b"x", fin=False)], 1002),
    "a large ping": ([frame(PING, b"x" * 126)], 1002),
    "no text": ([frame(TEXT, b"\xff\xfe")], 1007),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_no_message_ends_the_socket_with_its_code_and_no_words(served, caplog, name):
    pieces, code = BAD[name]
    head, reader, writer = await opened(served)
    assert b" 101 " in head
    await send_all(writer, pieces)

    answer = await ended(reader)
    assert answer[:1] in (b"", b"\x88"), "a close, unless it was reset"
    assert answer[2:4] in (b"", struct.pack(">H", code))
    assert [] == caplog.records
    assert 0 == served.server.failures
    writer.close()


async def test_who_sends_pings_without_reading_is_not_read(served):
    """The answers would pile up: nothing is taken out."""
    head, _, writer = await opened(served)
    assert b" 101 " in head
    (connection,) = connections()
    flood = frame(PING, b"x" * 125) * 1000
    async with asyncio.timeout(60):
        while connection.transport.is_reading():
            if writer.transport.get_write_buffer_size() < len(flood):
                writer.write(flood)
            await asyncio.sleep(0)

    assert connection.transport.get_write_buffer_size() < 1 << 20
    writer.transport.abort()


def connections():
    return [each for each in gc.get_objects() if isinstance(each, edge_socket.EdgeSocket)]


async def test_output_that_nobody_reads_is_not_made(served):
    head, _, writer = await opened(served, "attach")
    assert b" 101 " in head
    containers, before = served.server.backend.containers, -1
    async with asyncio.timeout(60):
        while before != containers.printed:  # until it waits for the reader
            before = containers.printed
            await asyncio.sleep(0.05)

    assert containers.printed * 1000 < 32 << 20, "what sockets hold"
    writer.transport.abort()


async def test_a_good_message_comes_through_in_pieces_and_between_pings(served):
    head, reader, writer = await opened(served)
    assert b" 101 " in head
    pieces = [
        frame(BINARY, b"\0he", fin=False),
        frame(PING, b"?"),
        frame(CONT, b"llo", fin=False),
        frame(CONT, b"\4"),
        frame(BINARY, END_OF_STDIN),
    ]
    await send_all(writer, pieces)

    await told(reader, b"Success")
    assert [b"hello\4"] == served.server.backend.containers.got
    writer.close()


async def test_a_key_ends_the_input_of_a_terminal(served):
    _, reader, writer = await opened(served, "exec?command=cat&stdin=true&tty=true")
    await send_all(writer, [frame(BINARY, b"\0hel"), frame(BINARY, b"\0lo\4?")])

    await told(reader, b"Success")
    assert [b"hello"] == served.server.backend.containers.got
    writer.close()


async def test_more_input_than_is_kept_is_refused_and_runs_nothing(served, monkeypatch):
    monkeypatch.setattr(streams, "MAX_INPUT", 10)
    _, reader, writer = await opened(served)
    await send_all(writer, [frame(BINARY, b"\0" + b"x" * 10), frame(BINARY, b"\0x")])

    await told(reader, b"Request entity too large: limit is 10")
    assert [] == served.server.backend.containers.got
    writer.close()


async def test_input_of_all_websockets_together_is_bounded(served, monkeypatch):
    monkeypatch.setattr(intake, "MAX_INTAKE", 15)
    monkeypatch.setattr(intake, "SMALL", 0)
    held = served.server._intake
    _, _, first = await opened(served)
    await send_all(first, [frame(BINARY, b"\0" + b"x" * 10)])
    await wait_for(lambda: held.held == 10)
    _, reader, second = await opened(served)
    await send_all(second, [frame(BINARY, b"\0" + b"x" * 10)])

    await told(reader, b"too many request bodies at once")
    first.close()
    await wait_for(lambda: held.held == 0)
    second.close()


async def test_input_that_nobody_asked_for_is_not_kept(served):
    _, reader, writer = await opened(served, "exec?command=wait")
    await send_all(writer, [frame(BINARY, b"\0" + b"x" * 10), frame(PING, b"?")])
    async with asyncio.timeout(60):
        await reader.readuntil(frame(PONG, b"?", masked=False))

    assert 0 == served.server._intake.held
    writer.close()


async def test_a_command_that_fails_unforeseen_is_told_and_logged(served):
    with capture_logs() as logs:
        _, reader, writer = await opened(served, "exec?command=fail")
        await told(reader, b"Internal error occurred: ValueError")

    assert ["request failed"] == [line["event"] for line in logs if line["log_level"] == "error"]
    assert 1 == served.server.failures
    writer.close()


async def test_exec_without_a_command_is_refused(served):
    head, _, writer = await opened(served, "exec?stdin=true")

    assert b" 400 " in head
    writer.close()


async def test_a_store_that_is_away_is_told_before_a_websocket_opens(served, caplog, monkeypatch):
    async def away(*_, **__):
        raise Unavailable("nobody there")

    monkeypatch.setattr(MemoryStore, "get", away)
    head, reader, writer = await opened(served)

    assert b" 503 " in head
    assert b"the store is unavailable" in await ended(reader)
    assert [] == [each for each in caplog.records if each.exc_info]
    writer.close()


async def test_no_secret_of_an_opening_is_logged(served, caplog, capfd):
    caplog.set_level(0)
    word = base64.urlsafe_b64encode(served.token.encode()).decode().rstrip("=")
    bearer = f"base64url.bearer.authorization.k8s.io.{word}, v5.channel.k8s.io"
    for more in ((f"x: {HUSH}",), (f"authorization: Bearer {HUSH}",), (f"cookie: {HUSH}",)):
        for protocol in (bearer, f"base64url.bearer.authorization.k8s.io.{HUSH}", ""):
            path = f"exec?command=cat&stdin=true&access_token={HUSH}"
            _, _, writer = await opened(served, path, *more, protocol=protocol)
            writer.close()

    said = caplog.text + "".join(capfd.readouterr())
    assert not [each for each in (HUSH, word, served.token) if each in said]


async def test_an_opening_that_is_none_is_no_failure_of_the_server(served, caplog):
    """More headers, and longer ones, than websockets take, though HTTP does."""
    for more in (tuple(f"a{n}: b" for n in range(200)), ("a: " + "b" * 20_000,)):
        port = int(served.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = [f"GET {PODS}/p/exec HTTP/1.1", "connection: upgrade", "upgrade: websocket", *more]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")

        assert b" 101 " not in await ended(reader)
        writer.close()
    assert [] == caplog.records


async def test_a_socket_leaves_nothing_behind(served, monkeypatch):
    made, init = [], edge.EdgeProtocol.connection_made

    def noted(self, transport):
        made.append(weakref.ref(self))
        init(self, transport)

    monkeypatch.setattr(edge.EdgeProtocol, "connection_made", noted)
    _, reader, writer = await opened(served)
    await send_all(writer, [frame(CLOSE, struct.pack(">H", 1000))])
    await ended(reader)
    writer.close()

    async with asyncio.timeout(60):
        while made[0]() is not None:  # no timer of the protocol before it keeps it
            gc.collect()
            await asyncio.sleep(0.01)
