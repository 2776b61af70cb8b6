"""A credential never crosses the network in clear text."""

import asyncio
import os

import pytest

from bayplan.api import yaml
from bayplan.cli.remembering import scheduler_at
from bayplan.client import load_kubeconfig
from bayplan.client.auth import Credentials
from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.client.kubeconfig import Connection
from bayplan.client.socket_transport import SocketTransport, _uses_proxy


def kubeconfig(tmp_path, **user):
    tree = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://real.example"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.dump(tree))
    return path


@pytest.mark.parametrize(
    ("user", "master", "server"),
    [
        pytest.param(
            {"token": "t"}, "other.example:8080", "https://other.example:8080", id="token"
        ),
        pytest.param({"token": "t"}, "127.0.0.1:8080", "https://127.0.0.1:8080", id="loopback"),
        pytest.param({}, "other.example:8080", "http://other.example:8080", id="nothing to send"),
        pytest.param({}, "other.example:443", "https://other.example:443", id="port 443"),
    ],
)
def test_a_bare_address_means_https_where_there_is_a_credential(tmp_path, user, master, server):
    found = load_kubeconfig(kubeconfig(tmp_path, **user), master=master)

    assert server == found.server


@pytest.mark.parametrize(
    "secret",
    [{"token": "t"}, {"token_file": "/f"}, {"username": "u", "password": "p"}],
    ids=lambda secret: next(iter(secret)),
)
async def test_a_credential_is_not_sent_over_plain_http_to_another_machine(secret):
    with pytest.raises(KubeconfigError, match="clear text"):
        await Credentials(Connection(server="http://other.example", **secret)).get()


async def test_on_loopback_it_may_be():
    for server in ("http://127.0.0.1:1", "http://localhost:1", "https://other.example"):
        found = await Credentials(Connection(server=server, token="t")).get()

        assert "Bearer t" == found.headers["authorization"]


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"])
@pytest.mark.parametrize("acting", [(), (("impersonate-user", "u"),)], ids=["self", "other"])
async def test_what_is_for_this_machine_goes_through_no_proxy(monkeypatch, server, acting):
    """As in Go: the environment's proxy, on another machine, would get the token."""
    asked = []

    async def note(reader, writer):
        asked.append(await reader.readline())
        writer.close()

    proxy = await asyncio.start_server(note, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    transport = SocketTransport(Connection(server=server, token="t", impersonate=acting))
    try:
        with pytest.raises(TransportError):
            await transport.request("GET", "/version", {}, None, 10)
    finally:
        await transport.close()
        proxy.close()

    assert [] == asked


@pytest.mark.parametrize(
    ("variables", "server", "asked"),
    [
        pytest.param({}, "http://other.example", False, id="none is named"),
        pytest.param({"http_proxy": "http://p"}, "http://other.example", True, id="for all"),
        pytest.param({"http_proxy": "http://p"}, "http://127.0.0.1", False, id="this machine"),
        pytest.param({"https_proxy": "http://p"}, "http://other.example", False, id="another kind"),
        pytest.param(
            {"http_proxy": "http://p", "no_proxy": "other.example"},
            "http://other.example",
            False,
            id="left out by name",
        ),
    ],
)
def test_which_servers_are_asked_through_a_proxy(monkeypatch, variables, server, asked):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert asked is _uses_proxy(Connection(server))


async def test_a_proxy_is_asked_for_the_whole_address():
    heard = []

    async def note(reader, writer):
        heard.append(await reader.readline())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.read()
        writer.close()

    proxy = await asyncio.start_server(note, "127.0.0.1", 0)
    through = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    transport = SocketTransport(Connection("http://127.0.0.1:1", proxy_url=through))
    try:
        answer = await transport.request("GET", "/version", {}, None, 20)
    finally:
        await transport.close()
        proxy.close()

    assert (b"ok", [b"GET http://127.0.0.1:1/version HTTP/1.1\r\n"]) == (answer.body, heard)


async def test_a_proxy_on_another_machine_gets_no_credential_either():
    through = Connection(server="http://127.0.0.1:1", token="t", proxy_url="http://other.example:1")
    with pytest.raises(KubeconfigError, match="clear text"):
        await Credentials(through).get()

    tunnel = Connection(server="https://real.example", token="t", proxy_url="http://other.example")
    assert "Bearer t" == (await Credentials(tunnel).get()).headers["authorization"]


def test_explain_tells_an_unverified_scheduler_no_secret():
    here = Connection(server="https://real.example", token="t", ca_data=b"ca")

    guessed = scheduler_at(here, "https://127.0.0.1:10259")
    verified = scheduler_at(here, "https://scheduler.example:10259")

    assert ("", False) == (guessed.token, bool(guessed.cert_data or guessed.exec_plugin))
    assert ("t", b"ca", False) == (verified.token, verified.ca_data, verified.insecure)
