"""API servers behind this one that lie, and clients that try to speak to them past it."""

import asyncio
import base64
import json
import ssl
from types import SimpleNamespace

import pytest

from bayplan.api.user import User
from bayplan.apiserver import aggregation, passing, tls
from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.serving import Settings, running
from bayplan.clock import run_virtual
from tests.apiserver.api import Api
from tests.apiserver.extension import GROUP, NAMED, ONE, RESOURCES, SERVICES, condition
from tests.apiserver.test_edge import answer, connect, head, serving
from tests.waiting import wait_for

BASE = f"/apis/{GROUP}/v1"
TIDES = f"{BASE}/namespaces/default/tides"
AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(aggregation, "AGAIN_DEAD", 0.02)


class Raw:
    """Speaks TLS and shows every byte; answers are bytes too, by path."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.answers: dict[str, bytes] = {BASE: ok(json.dumps(RESOURCES).encode())}
        self.port = 0
        self.bundle = ""
        self.watches = 0  # that have not ended

    async def serve(self, reader, writer) -> None:
        watches = 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                watches += b"?watch=1" in head
                self.watches += b"?watch=1" in head
                path = head.split(b" ")[1].decode("latin-1").partition("?")[0]
                writer.write(self.answers.get(path, ok(b"{}")))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.watches -= watches
            writer.close()

    def asked(self) -> list[bytes]:
        """The heads of requests for resources."""
        return [head for head in self.heads if b"/namespaces/" in head]


def ok(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode() + body


@pytest.fixture
async def raw(tmp_path):
    server = Raw()
    files = tls.generate(tmp_path, ["localhost", "127.0.0.1", "ext.default.svc"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    server.bundle = base64.b64encode(files.authority.read_bytes()).decode()
    yield server
    listening.close()


def service(port: int, name: str = f"v1.{GROUP}", **spec):
    version, _, group = name.partition(".")
    whole = {"group": group, "version": version, "groupPriorityMinimum": 100}
    whole |= {"versionPriority": 10, "service": {"namespace": "default", "name": "ext"}}
    whole["service"]["port"] = port
    return {"metadata": {"name": name}, "spec": {**whole, **spec}}


def named():
    return {
        "metadata": {"name": "ext"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


async def put_behind(api: Api, raw: Raw, reason: str = "Passed") -> dict:
    await api.ok("POST", NAMED, named())
    await api.ok("POST", SERVICES, service(raw.port, caBundle=raw.bundle))
    return await condition(api, reason)


SMUGGLED = [
    "a%20HTTP/1.1%0D%0AX-Remote-User:%20system:admin%0D%0A%0D%0A",
    "a%0D%0AX-Remote-Group:%20system:masters",
    "a%3Fwatch=1",
    "a%23b",
    "a%2Fstatus",
    "a%2E%2E/%2e%2e",
    "a%00b",
    "%C3%A9",
    "a%25b",
    "a%ff",
]


async def test_paths_are_passed_on_as_they_came(raw):
    async with serving() as served:
        await put_behind(Api(served.server), raw)
        for name in SMUGGLED:
            raw.heads.clear()
            reader, writer = await connect(served)
            writer.write(head(served, "GET", f"{TIDES}/{name}?x=%0d%0ay", "connection: close"))
            told = await answer(reader)
            writer.close()

            assert raw.asked() or told.split()[1] in (b"400", b"404"), name
            for asked in raw.asked():
                lines = asked.decode("latin-1").split("\r\n")
                assert f"GET {TIDES}/{name}?x=%0d%0ay HTTP/1.1" == lines[0]
                users = [line for line in lines if line.lower().startswith("x-remote-user")]
                assert ["X-Remote-User: admin"] == users
                assert not [line for line in lines if line.lower().startswith("authorization")]


DISCOVERIES = {
    "a list": b"[]",
    "a number": b"5",
    "nothing": b"",
    "null": b"null",
    "deep": b"[" * 50_000,
    "resources are a number": b'{"resources": 5}',
    "resources are words": b'{"resources": ["tides", "x"]}',
    "resources are numbers": b'{"resources": [1, null]}',
    "resources are a map": b'{"resources": {"a": 1}}',
    "names are maps": b'{"resources": [{"name": {}, "verbs": 5, "kind": []}]}',
    "verbs are a number": b'{"resources": [{"name": "a", "verbs": 5}]}',
    "a subresource alone": b'{"resources": [{"name": "a/b", "kind": "B", "verbs": ["get"]}]}',
    "many digits": b'{"resources": [{"name": "a", "namespaced": 1' + b"0" * 4000 + b"}]}",
    "surrogates": b'{"resources": [{"name": "\\ud800", "kind": "B", "verbs": ["get"]}]}',
    "not UTF-8": b'{"resources": [{"name": "\xff", "kind": "B", "verbs": ["get"]}]}',
}


@pytest.mark.parametrize("name", sorted(DISCOVERIES))
async def test_whatever_a_server_says_of_itself_discovery_goes_on(api, raw, name):
    raw.answers[BASE] = ok(DISCOVERIES[name])
    raw.answers[f"/openapi/v3/apis/{GROUP}/v1"] = ok(DISCOVERIES[name])
    await api.ok("POST", NAMED, named())
    await api.ok("POST", SERVICES, service(raw.port, caBundle=raw.bundle))
    async with asyncio.timeout(60):
        while not (found := (await api.ok("GET", ONE)).get("status", {}).get("conditions")):
            await asyncio.sleep(0.01)

    assert found[0]["reason"] in ("Passed", "FailedDiscoveryCheck")
    await api.ok("GET", "/apis", headers=AGGREGATED)
    for path in ("/apis", "/openapi/v3", "/openapi/v2"):
        await api.ok("GET", path)
    await api.call("GET", f"/openapi/v3/apis/{GROUP}/v1")
    raw.answers[BASE] = ok(json.dumps(RESOURCES).encode())
    assert "True" == (await condition(api, "Passed"))["status"], "it is still looked at"
    assert 0 == api.server.failures


async def test_a_long_document_is_read_to_its_end(api, raw):
    kind = RESOURCES["resources"][0]
    many = [{**kind, "name": f"tide{n}"} for n in range(5000)]
    raw.answers[BASE] = ok(json.dumps({**RESOURCES, "resources": many}).encode())

    await put_behind(api, raw)
    told = await api.ok("GET", "/apis", headers=AGGREGATED)

    assert 5000 == len(told["items"][-1]["versions"][0]["resources"])


async def test_a_document_without_end_is_not_read(api, raw, monkeypatch):
    monkeypatch.setattr(passing, "MAX_DOCUMENT", 100_000)
    raw.answers[BASE] = ok(b" " * 200_000)

    lost = await put_behind(api, raw, "FailedDiscoveryCheck")

    assert "larger than 100000 bytes" in lost["message"]


async def test_a_server_that_points_elsewhere_is_not_followed(api, raw):
    for status in ("301 Moved Permanently", "307 Temporary Redirect"):
        raw.answers[TIDES] = ok(b"", f"Location: https://127.0.0.1:{raw.port}/x", status=status)
    await put_behind(api, raw)

    assert 307 == (await api.call("GET", TIDES)).status
    assert 1 == len(raw.asked())


async def test_a_server_cannot_leave_cookies_for_others(api, raw):
    raw.answers[TIDES] = ok(b"{}", "Set-Cookie: session=1; Path=/")
    await put_behind(api, raw)

    await api.ok("GET", TIDES)
    await api.ok("GET", TIDES)

    assert [False, False] == [b"ookie" in head for head in raw.asked()]


async def test_what_is_packed_is_passed_back_as_it_is(api, raw):
    raw.answers[TIDES] = ok(b"\x1f\x8bnot really", "Content-Encoding: gzip")
    await put_behind(api, raw)

    found = await api.call("GET", TIDES, headers={"accept-encoding": "gzip"})

    assert b"\x1f\x8bnot really" == found.raw
    assert "gzip" == found.headers["content-encoding"]


async def test_an_answer_that_breaks_off_ends_the_answer(api, raw):
    raw.answers[TIDES] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    await put_behind(api, raw)

    await api.call("GET", TIDES)

    assert 0 == api.server.failures


async def test_nobody_locks_himself_out_of_the_apiservices(api, raw):
    own = "/apis/apiregistration.k8s.io/v1"
    raw.answers[own] = ok(b'{"resources": []}')
    await api.ok("POST", NAMED, named())
    to_itself = service(raw.port, "v1.apiregistration.k8s.io", caBundle=raw.bundle)
    await api.ok("POST", SERVICES, to_itself)
    await api.ok("POST", SERVICES, service(raw.port, caBundle=raw.bundle))
    await wait_for(lambda: any(BASE.encode() in head for head in raw.heads))  # which came later

    assert 200 == (await api.call("GET", SERVICES)).status
    assert not [head for head in raw.heads if own.encode() in head]


@pytest.mark.parametrize(
    "path",
    ["/a/b/c", "/a/b/c/d", "//a", "/a//b", "/../secrets", "/a/b/%2e%2e/%2e%2e/c", "/"],
)
async def test_no_path_is_passed_on_for_who_may_only_discover(raw, path):
    """Everybody may GET below /apis; what stands below a version are resources all the same."""
    api = await Api.start(rbac=True)
    api.server.authenticator.add("bob-token", User("bob", ()))
    try:
        await put_behind(api, raw)
        raw.heads.clear()
        headers = {"authorization": "Bearer bob-token"}
        answer = await api.call("GET", TIDES + path, headers=headers)

        assert answer.status in (403, 404), answer.body
        assert [] == raw.asked()
        assert 200 == (await api.call("GET", BASE, headers=headers)).status, "but it may discover"
    finally:
        await api.close()


async def test_a_server_that_never_answers_gives_back_the_seat(api, raw, monkeypatch):
    monkeypatch.setattr(passing, "ANSWER_SECONDS", 0.05)
    raw.answers[TIDES] = b""
    await put_behind(api, raw)

    answer = await api.call("GET", TIDES)

    assert (504, "Timeout") == (answer.status, answer.body["reason"])


async def test_an_answer_that_never_ends_is_ended_but_a_watch(api, raw, monkeypatch):
    monkeypatch.setattr(passing, "ANSWER_SECONDS", 0.05)
    raw.answers[TIDES] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    await put_behind(api, raw)

    watching = await api.watch(f"{TIDES}?watch=1")
    async with asyncio.timeout(60):
        found = await api.exchange("GET", TIDES)

    # A busy machine may be late with the beginning, too.
    assert (found.status, b"{}" in found.pieces) in [(200, True), (504, False)]
    assert not watching.task.done()
    await watching.leave()
    assert 0 == api.server.failures


async def _stalls():
    await asyncio.Event().wait()


async def _floods():
    return b"x"  # there always is something, so nobody waits


@pytest.mark.parametrize(("readany", "told"), [(_stalls, 0), (_floods, 60)])
def test_an_answer_has_until_its_deadline_whether_it_stalls_or_floods(readany, told):
    answer = SimpleNamespace(content=SimpleNamespace(readany=readany))

    async def read():
        now, pieces = asyncio.get_running_loop().time, []
        begun = now()
        try:
            async with asyncio.timeout(120):
                async for piece in passing._pieces(answer, begun + 60):
                    pieces.append(piece)
                    await asyncio.sleep(1)
        except ApiError as error:
            return error.code, now() - begun, len(pieces)

    assert (504, 60, told) == run_virtual(read())


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500_000, b"HTTP/1.1 102 Processing\r\n\r\n" * 50_000],
    ids=["headers", "interim answers"],
)
async def test_a_head_without_end_is_not_read(api, raw, head, monkeypatch):
    monkeypatch.setattr(passing, "ANSWER_SECONDS", 1.0)
    raw.answers[TIDES] = head
    await put_behind(api, raw)

    async with asyncio.timeout(60):
        answer = await api.call("GET", TIDES)

    assert answer.status in (503, 504), answer.body


async def test_a_server_that_is_put_behind_itself_does_not_go_round(tmp_path):
    """It does not believe the headers in which it tells others who asks."""
    async with running(Settings(store="memory", data=tmp_path)) as served:
        api = Api(served.server)
        port = int(served.url.rpartition(":")[2])
        await api.ok("POST", NAMED, named())
        await api.ok("POST", SERVICES, service(port, insecureSkipTLSVerify=True))
        lost = await condition(api, "FailedDiscoveryCheck")

        assert 503 == (await api.call("GET", TIDES)).status
        assert "failing or missing response" in lost["message"]


MANY = 120  # what an HTTP library opens at most, where nobody says otherwise, is 100


async def test_watches_that_hang_leave_room_for_all_others(api, raw):
    watched = f"{TIDES}/silent"
    raw.answers[watched] = b""
    await put_behind(api, raw)

    watches = [asyncio.create_task(api.watch(f"{watched}?watch=1")) for _ in range(MANY)]
    await wait_for(lambda: raw.watches == MANY)

    assert 200 == (await api.call("GET", TIDES)).status
    for watch in watches:
        watch.cancel()


async def ask_for_a_watch(served, raw):
    reader, writer = await connect(served)
    writer.write(head(served, "GET", f"{TIDES}?watch=1", "connection: close"))
    await wait_for(lambda: raw.watches == 1)
    return reader, writer


async def test_a_watch_that_never_began_ends_with_its_client(raw):
    raw.answers[TIDES] = b""
    async with serving() as served:
        await put_behind(Api(served.server), raw)
        _, writer = await ask_for_a_watch(served, raw)

        writer.close()

        await wait_for(lambda: raw.watches == 0)


async def test_a_watch_that_never_began_ends_with_this_server(raw):
    raw.answers[TIDES] = b""
    async with serving() as served:
        await put_behind(Api(served.server), raw)
        reader, writer = await ask_for_a_watch(served, raw)

        served.server.end_watches()

        assert b"503" == (await answer(reader)).split()[1]
        writer.close()
