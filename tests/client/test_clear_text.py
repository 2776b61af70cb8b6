"""A credential never crosses the network in clear text."""

import asyncio

import pytest

from bayplan.api import yaml
from bayplan.cli.remembering import scheduler_at
from bayplan.client import load_kubeconfig
from bayplan.client.auth import Credentials
from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.client.kubeconfig import Connection
from bayplan.client.socket_transport import SocketTransport


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
