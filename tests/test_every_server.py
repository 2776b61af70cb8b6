"""Whatever listens stands behind one edge: the same attacks on every server, on real sockets."""

import asyncio
import gzip
import json
import ssl
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import NamedTuple

import pytest

from bayplan import edge, intake
from bayplan.apiserver.serving import Settings
from bayplan.apiserver.serving import running as running_apiserver
from bayplan.asgi import begin
from bayplan.client import Client
from bayplan.extender import Extender
from bayplan.extender.serve import Listen, uvicorn_config
from bayplan.global_scheduler.run import Options
from bayplan.global_scheduler.run import running as running_global
from bayplan.inspect import PREFIX, Cluster
from bayplan.inspect.http import Questions
from bayplan.inspect.serving import InspectServer
from bayplan.listening import listen
from bayplan.page.serving import serving as serving_page
from bayplan.page.sources import Picture
from bayplan.scheduler.certificates import server_context
from bayplan.scheduler.delegated import Gatekeeper
from bayplan.scheduler.serving import Endpoints, Server

BOMB = gzip.compress(b" " * (65 << 20), 1)
DEEP = b"[" * 100_000
SAMPLE = files("bayplan.global_scheduler") / "sample"


class Target(NamedTuple):
    port: int
    token: str = ""
    health: str = "/healthz"
    write: str = ""
    """A path that reads a body, if there is one."""
    secure: bool = False

    async def connect(self):
        context = None
        if self.secure:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    def head(self, method, path, *more, host="127.0.0.1"):
        lines = [f"{method} {path} HTTP/1.1", f"host: {host}:{self.port}"]
        if self.token:
            lines.append(f"authorization: Bearer {self.token}")
        lines.append("content-type: application/json")
        return "\r\n".join([*lines, *more]).encode() + b"\r\n\r\n"


@asynccontextmanager
async def apiserver(_):
    async with running_apiserver(Settings(store="memory", tls_generate=False)) as served:
        port = int(served.url.rpartition(":")[2])
        yield Target(port, served.token, write="/api/v1/namespaces/default/configmaps")


@asynccontextmanager
async def global_scheduler(_):
    options = Options(directory=SAMPLE, host="127.0.0.1", port=0, store="memory")
    async with running_global(options) as scheduler:
        yield Target(scheduler.port, write="/v1/allocations")


@asynccontextmanager
async def extender(_):
    app = Extender()
    app.filter(lambda names: names)
    listener = listen("127.0.0.1", 0, "--bind")
    port = listener.getsockname()[1]
    end = await begin(uvicorn_config(app, Listen()), listener)
    yield Target(port, write="/filter")
    await end()


@asynccontextmanager
async def page(_):
    async with serving_page(Picture(Cluster.from_objects([]))) as url:
        yield Target(int(url.partition("/?")[0].rpartition(":")[2]), health="/")


async def empty():
    return Cluster.from_objects([])


@asynccontextmanager
async def inspect(_):
    server = InspectServer(Questions(empty), "secret")
    await server.start("127.0.0.1", 0)
    yield Target(server.port, "secret", PREFIX + "cluster", PREFIX + "cluster")
    await server.stop()


@asynccontextmanager
async def scheduler(secure):
    nobody = Client(None)
    questions = Questions(empty).answer
    server = Server(
        Endpoints({}, {}, {}, {}, inspect=questions),
        Gatekeeper(nobody, nobody, local_token="local"),
    )
    port = await server.listen("127.0.0.1", 0, server_context() if secure else None)
    write = PREFIX + "cluster" if secure else ""
    yield Target(port, "local", write=write, secure=secure)
    await server.close()


SERVERS = {
    "apiserver": (apiserver, False),
    "global": (global_scheduler, False),
    "extender": (extender, False),
    "page": (page, False),
    "inspect": (inspect, False),
    "scheduler": (scheduler, True),
    "scheduler's plain port": (scheduler, False),
}
WRITTEN = [name for name in SERVERS if name not in ("page", "scheduler's plain port")]
every_server = pytest.mark.parametrize("name", SERVERS)
every_written = pytest.mark.parametrize("name", WRITTEN)


def started(name):
    begin_it, secure = SERVERS[name]
    return begin_it(secure)


async def send_all(writer, pieces):
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass  # the server has had enough


async def ended(reader):
    """All that comes until the server ends the connection, in whichever way."""
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    except OSError:
        return b""


async def answer(target, sent):
    """What the server answers to one request, after which it is asked to close."""
    reader, writer = await target.connect()
    await send_all(writer, [sent])
    found = await ended(reader)
    writer.close()
    return found


@every_server
async def test_a_header_without_end_and_headers_without_number(name):
    async with started(name) as target:
        begun = f"GET {target.health} HTTP/1.1\r\n".encode()
        for pieces in ([b"a: ", *[b"x" * 8192] * 40], [b"a: b\r\n" * 2000] * 5):
            reader, writer = await target.connect()
            await send_all(writer, [begun, *pieces])

            assert await ended(reader) in (b"", edge.TOO_LARGE)  # reset if more is under way
            writer.close()


@every_server
async def test_requests_ahead_of_their_answers_are_bounded(name):
    async with started(name) as target:
        reader, writer = await target.connect()
        await send_all(writer, [target.head("GET", target.health) * 1000] * 3)

        assert (await ended(reader)).count(b"HTTP/1.1 ") <= edge.MAX_AHEAD + 2
        writer.close()


@every_server
async def test_a_head_must_come_in_time(name, monkeypatch):
    monkeypatch.setattr(edge, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(edge, "LOOK_EVERY", 0.05)
    async with started(name) as target:
        reader, writer = await target.connect()
        writer.write(f"GET {target.health} HTTP/1.1\r\nhost: ".encode())

        assert b"" == await ended(reader)
        writer.close()


@every_written
async def test_a_body_must_come_in_time(name, monkeypatch):
    monkeypatch.setattr(edge, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(edge, "LOOK_EVERY", 0.05)
    async with started(name) as target:
        reader, writer = await target.connect()
        writer.write(target.head("POST", target.write, "content-length: 100") + b"{")

        assert b"" == await ended(reader)
        writer.close()


@every_written
@pytest.mark.parametrize("begun", [b"0\r\na: ", b"5;"], ids=["trailer", "extension"])
async def test_what_is_no_body_behind_a_head_is_bounded(name, begun):
    async with started(name) as target:
        reader, writer = await target.connect()
        await send_all(
            writer, [target.head("POST", target.write, "transfer-encoding: chunked") + begun]
        )
        await send_all(writer, [b"x" * 8192] * 99)

        assert await ended(reader) in (b"", edge.TOO_LARGE)
        writer.close()


@every_written
async def test_bodies_that_grow_or_are_nested_are_refused(name):
    async with started(name) as target:
        for body, more in ((BOMB, ("content-encoding: gzip",)), (DEEP, ())):
            length = f"content-length: {len(body)}"
            sent = target.head("POST", target.write, "connection: close", length, *more) + body

            assert (await answer(target, sent)).split(b" ")[1] in (b"400", b"413", b"415")


@every_written
async def test_half_sent_bodies_share_one_bound_and_small_ones_pass(name, monkeypatch):
    monkeypatch.setattr(intake, "MAX_INTAKE", 200 * 1024)
    part, small = b" " * (160 * 1024), b"{}"
    async with started(name) as target:
        head = target.head("POST", target.write, f"content-length: {2 * len(part)}")
        ends = [await target.connect() for _ in range(2)]
        for _, writer in ends:
            await send_all(writer, [head + part])
        waits = [asyncio.create_task(reader.readline()) for reader, _ in ends]
        async with asyncio.timeout(60):
            first, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        length = ("connection: close", f"content-length: {len(small)}")
        passed = await answer(target, target.head("POST", target.write, *length) + small)
        for wait, (_, writer) in zip(waits, ends, strict=True):
            wait.cancel()
            writer.close()
        await asyncio.gather(*waits, return_exceptions=True)

        assert [b"429"] == [wait.result().split(b" ")[1] for wait in first]
        assert passed.split(b" ")[1] not in (b"429", b"500")


@pytest.mark.parametrize("name", ["global", "extender", "page"])
async def test_pages_of_other_sites_are_not_answered(name):
    """Those that ask for no token, and the page, whose cookie a browser sends by itself."""
    async with started(name) as target:
        path = target.write or "/"
        method = "POST" if target.write else "GET"
        length = ("connection: close", "content-length: 2")
        strange = target.head(method, path, *length, host="evil.example") + b"{}"
        crossed = target.head(method, path, *length, "origin: http://evil.example") + b"{}"

        assert (await answer(target, strange)).split(b" ")[1] in (b"403", b"421")
        assert (await answer(target, crossed)).split(b" ")[1] == b"403"


@every_server
async def test_no_server_takes_an_upgrade_that_it_has_no_use_for(name, capfd):
    async with started(name) as target:
        more = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13")
        key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
        reader, writer = await target.connect()
        path = f"{target.health}?access_token=hush"
        await send_all(writer, [target.head("GET", path, *more, key)])
        async with asyncio.timeout(60):
            status = await reader.readline()
        writer.close()

        assert b" 101 " not in status
    assert "hush" not in "".join(capfd.readouterr())


async def test_an_extender_s_answer_is_still_given():
    """The edge takes what schedulers send."""
    async with started("extender") as target:
        body = json.dumps({"pod": {"metadata": {"name": "p"}}, "nodenames": ["a"]}).encode()
        sent = target.head("POST", "/filter", "connection: close", f"content-length: {len(body)}")

        assert b" 200 " in await answer(target, sent + body)
