"""Which proxy a server is reached through: as Go's programs decide."""

import asyncio
import base64
import os

import pytest

from bayplan.client.errors import KubeconfigError
from bayplan.client.kubeconfig import Connection
from bayplan.client.proxy import proxy_of
from bayplan.client.socket_transport import SocketTransport


@pytest.fixture(autouse=True)
def set_variables(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)

    def set_all(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


# What golang.org/x/net/http/httpproxy answers: whether the server is asked directly.
LEFT_OUT = [
    ("", "https://api.example", False),
    ("*", "https://api.example", True),
    ("*:443", "https://api.example", False),
    ("10.0.0.0/8", "https://10.96.0.1", True),
    ("10.0.0.5/8", "https://10.96.0.1:6443", True),
    ("10.0.0.0/8", "https://11.96.0.1", False),
    ("10.0.0.0/8", "https://[::ffff:10.0.0.5]", True),
    ("10.0.0.0/8", "https://ten.example", False),
    ("10.0.0.0/33", "https://10.96.0.1", False),
    ("10.0.0.0/255.0.0.0", "https://10.96.0.1", False),
    ("fd00::/16", "https://[fd00::1]", True),
    ("fd00::/16", "https://10.0.0.1", False),
    ("fd00::1", "https://[fd00::1]:6443", True),
    ("[fd00::1]", "https://[fd00::1]", False),
    ("[fd00::1]:443", "https://[fd00::1]", True),
    ("10.0.0.5", "https://10.0.0.5:6443", True),
    ("::ffff:10.0.0.5", "https://10.0.0.5", True),
    ("10.0.0.5:6443", "https://10.0.0.5:6443", True),
    ("10.0.0.5:443", "https://10.0.0.5", True),
    ("10.0.0.5:443", "https://10.0.0.5:6443", False),
    ("example", "https://api.example", True),
    ("example", "https://example", True),
    ("example", "https://xample", False),
    ("pi.example", "https://api.example", False),
    ("API.example", "https://api.EXAMPLE", True),
    (".example", "https://api.example", True),
    (".api.example", "https://api.example", False),
    ("*.example", "https://api.example", True),
    ("*pi.example", "https://api.example", False),
    ("api.example:443", "https://api.example", True),
    ("api.example:6443", "https://api.example", False),
    ("api.example:", "https://api.example:6443", True),
    (":443, , .", "https://api.example", False),
    ("other.example, .svc ,10.0.0.0/8", "https://kubernetes.default.svc", True),
    ("", "https://127.0.0.9:6443", True),
    ("", "https://[::1]", True),
    ("", "https://localhost", True),
]


@pytest.mark.parametrize(("listed", "server", "directly"), LEFT_OUT)
def test_what_no_proxy_leaves_out_is_asked_directly(set_variables, listed, server, directly):
    set_variables(HTTPS_PROXY="http://p:3128", NO_PROXY=listed)

    assert ("" if directly else "http://p:3128") == proxy_of(Connection(server))


@pytest.mark.parametrize(
    ("variables", "server", "proxy"),
    [
        ({}, "http://other.example", ""),
        ({"http_proxy": "http://p"}, "http://other.example", "http://p"),
        ({"https_proxy": "http://p"}, "http://other.example", ""),
        ({"all_proxy": "http://p", "ALL_PROXY": "http://p"}, "http://other.example", ""),
        ({"HTTPS_PROXY": "http://p", "https_proxy": "http://q"}, "https://a.example", "http://p"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://q"}, "https://a.example", "http://q"),
        ({"HTTPS_PROXY": "p:3128"}, "https://a.example", "http://p:3128"),
        ({"HTTPS_PROXY": "http://p", "no_proxy": "a.example"}, "https://a.example", ""),
    ],
)
def test_the_variables_are_read_as_in_go(set_variables, variables, server, proxy):
    set_variables(**variables)

    assert proxy == proxy_of(Connection(server))


def test_a_kubeconfig_with_a_proxy_needs_no_variable_and_heeds_none(set_variables):
    set_variables(HTTPS_PROXY="http://p", NO_PROXY="*")

    assert "http://own" == proxy_of(Connection("https://a.example", proxy_url="http://own"))


def test_a_proxy_of_a_kind_that_is_not_spoken_is_told_by_where_it_is_named(set_variables):
    with pytest.raises(KubeconfigError, match=r'proxy-url .*: "socks5://s:1" is no http:// or'):
        SocketTransport(Connection("https://a.example", proxy_url="socks5://s:1"))

    set_variables(https_proxy="socks5://s:1")
    with pytest.raises(KubeconfigError, match=r'^https_proxy: "socks5://s:1" is no'):
        SocketTransport(Connection("https://a.example"))
    SocketTransport(Connection("http://a.example"))


async def test_a_proxy_is_asked_for_the_whole_address():
    heard, shown = [], []

    async def note(reader, writer):
        heard.append(await reader.readline())
        shown.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.read()
        writer.close()

    proxy = await asyncio.start_server(note, "127.0.0.1", 0)
    through = f"http://u:w@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    transport = SocketTransport(Connection("http://127.0.0.1:1", proxy_url=through))
    try:
        answer = await transport.request("GET", "/version", {}, None, 20)
    finally:
        await transport.close()
        proxy.close()

    assert (b"ok", [b"GET http://127.0.0.1:1/version HTTP/1.1\r\n"]) == (answer.body, heard)
    word = base64.b64encode(b"u:w")
    assert b"proxy-authorization: basic " + word.lower() in shown[0].lower()
