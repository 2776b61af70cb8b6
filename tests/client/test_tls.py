"""TLS of the client: whom it believes, who it says it is, and what wrong files say."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest

from bayplan.apiserver import tls
from bayplan.apiserver.web import server_context
from bayplan.client import KubeconfigError, TransportError
from bayplan.client.aiohttp_transport import AiohttpTransport
from bayplan.client.http1 import Http1Pool
from bayplan.client.kubeconfig import Connection
from bayplan.client.socket_transport import SocketTransport
from bayplan.client.tls import client_context
from tests.pki import client_pair


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tls.generate(tmp_path_factory.mktemp("pki"), ["here.example"])


@pytest.fixture(scope="module")
def own(files):
    """A client's certificate and key, signed by the server's authority."""
    return client_pair(files)


@asynccontextmanager
async def server(files):
    """Tells everybody the name in the client's certificate."""
    context = server_context(str(files.certificate), str(files.key))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(files.authority)

    connections = set()

    async def one(reader, writer):
        connections.add(writer)
        await reader.readuntil(b"\r\n\r\n")
        shown = writer.get_extra_info("peercert") or {}
        named = dict(pair for part in shown.get("subject", ()) for pair in part)
        body = named.get("commonName", "nobody").encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Y: z\r\nConnection: close\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()

    listener = await asyncio.start_server(one, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for writer in connections:
            writer.transport.abort()
        await asyncio.sleep(0)


async def asked(connection, kind):
    transport = kind(connection)
    try:
        return (await transport.request("GET", "/", {}, None, 20)).body
    finally:
        await transport.close()


BOTH = pytest.mark.parametrize("kind", [SocketTransport, AiohttpTransport])


@BOTH
async def test_a_certificate_must_be_of_the_name_that_was_given(kind, files):
    async with server(files) as url:
        trusted = {"ca_data": files.authority.read_bytes()}
        with pytest.raises(TransportError, match="certificate is not trusted"):
            await asked(Connection(url, tls_server_name="other.example", **trusted), kind)
        named = Connection(url, tls_server_name="here.example", **trusted)

        assert b"nobody" == await asked(named, kind)


@BOTH
async def test_who_does_not_care_believes_anybody(kind, files):
    async with server(files) as url:
        assert b"nobody" == await asked(Connection(url, insecure=True), kind)


@BOTH
@pytest.mark.parametrize("given", ["data", "files"])
async def test_a_client_says_who_it_is(kind, files, own, given, tmp_path):
    cert, key = own
    shown = {"cert_data": cert, "key_data": key}
    if given == "files":
        (tmp_path / "cert").write_bytes(cert)
        (tmp_path / "key").write_bytes(key)
        shown = {"cert_file": str(tmp_path / "cert"), "key_file": str(tmp_path / "key")}
    async with server(files) as url:
        said = await asked(Connection(url, insecure=True, **shown), kind)

    assert b"me" == said


@pytest.mark.parametrize(
    ("own", "text"),
    [
        pytest.param({"cert_data": b"x"}, "client-certificate needs client-key", id="no key"),
        pytest.param(
            {"cert_data": b"x", "key_data": b"y"}, r"used \((?!None).*belong together", id="no PEM"
        ),
        pytest.param({"cert_data": b"x", "key_file": "/no/key"}, "check client-key", id="no file"),
        pytest.param({"ca_file": "/no/ca"}, "check certificate-authority", id="no authority"),
    ],
)
def test_what_cannot_be_used_is_named(own, text):
    with pytest.raises(KubeconfigError, match=text):
        client_context(Connection("https://a", source="here", **own))


def test_a_pair_given_now_takes_the_place_of_the_connections_own(own):
    stale = Connection("https://a", insecure=True, cert_data=b"x", key_data=b"y")

    context = client_context(stale, cert=own[0], key=own[1])

    assert (False, ssl.CERT_NONE) == (context.check_hostname, context.verify_mode)


def test_names_are_checked_unless_told_otherwise():
    context = client_context(Connection("https://a"))

    assert (True, ssl.CERT_REQUIRED) == (context.check_hostname, context.verify_mode)


def test_plain_http_has_no_context():
    assert client_context(Connection("http://a", cert_data=b"x")) is None


def test_a_header_with_a_line_break_is_not_sent():
    pool = Http1Pool("http://127.0.0.1:1", None)

    with pytest.raises(TransportError, match="line break; check the token"):
        pool._header_bytes({"authorization": "Bearer a\r\nx: y"})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a", ("a", 80, "", "a")),
        ("https://a", ("a", 443, "", "a")),
        ("https://u:p@a:7/k/", ("a", 7, "/k", "a:7")),
    ],
)
def test_where_a_server_is(url, expected):
    pool = Http1Pool(url, None)

    assert expected == (pool._host, pool._port, pool._prefix, pool._authority)
