"""Pages of other sites get nothing from servers that ask for no token."""

import pytest

from bayplan import origin
from bayplan.extender.kit import Extender


def scope(server="127.0.0.1", **headers):
    found = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "server": (server, 80), "headers": found}


@pytest.mark.parametrize(
    ("server", "host", "page", "answered"),
    [
        pytest.param("127.0.0.1", "127.0.0.1:8080", None, True, id="by address"),
        pytest.param("127.0.0.1", "localhost:8080", None, True, id="by name"),
        pytest.param("::1", "[::1]:8080", None, True, id="by IPv6 address"),
        pytest.param("127.0.0.1", "evil.example:8080", None, False, id="a rebound name"),
        pytest.param("127.0.0.1", "10.0.0.1", None, False, id="another address"),
        pytest.param("127.0.0.1", "127.0.0.1:1@evil.example", None, False, id="no port"),
        pytest.param("127.0.0.1", "[::1]evil.example", None, False, id="no end at the bracket"),
        pytest.param("127.0.0.1", "[::1", None, False, id="no bracket at the end"),
        pytest.param("127.0.0.1", "", "null", False, id="a page of no site, and no name"),
        pytest.param("127.0.0.1", "localhost:1", "evil://localhost:1", False, id="another scheme"),
        pytest.param("127.0.0.1", "localhost:1", "https://localhost:1", True, id="behind TLS"),
        pytest.param("127.0.0.1", "localhost", "http://evil.example", False, id="a foreign page"),
        pytest.param("127.0.0.1", "localhost", "null", False, id="a page of no site"),
        pytest.param("127.0.0.1", "localhost:1", "http://localhost:1", True, id="its own page"),
        pytest.param("10.0.0.1", "10.0.0.1:80", None, True, id="beyond loopback, by address"),
        pytest.param("10.0.0.1", "ext.kube-system.svc", None, True, id="a cluster's name"),
        pytest.param("10.0.0.1", "evil.example", None, False, id="beyond loopback, rebound"),
        pytest.param("10.0.0.1", "allowed.example", None, True, id="a name that was allowed"),
    ],
)
def test_which_requests_are_answered(server, host, page, answered):
    headers = {"host": host} | ({"origin": page} if page else {})

    assert answered == (not origin.problem(scope(server, **headers), ("allowed.example",)))


@pytest.mark.parametrize("name", ["host", "origin"])
def test_a_header_that_comes_twice_is_no_answer_to_who_asks(name):
    asked = scope(host="localhost", origin="http://localhost")
    asked["headers"].append(
        (name.encode(), b"http://localhost" if name == "origin" else b"localhost")
    )

    assert "one Host and one Origin" in origin.problem(asked)


async def ask(extender, body=b"{}", **headers):
    sent = []
    found = {"host": "localhost"} | headers
    asked = scope(**found) | {"path": "/filter", "method": "POST"}

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        sent.append(message)

    await extender(asked, receive, send)
    return sent[0]["status"]


def extender(**options):
    made = Extender(**options)
    made.filter(lambda pod, nodes: nodes)
    return made


async def test_an_extender_without_a_token_looks_at_host_and_origin():
    assert 403 == await ask(extender(), host="evil.example")
    assert 403 == await ask(extender(), origin="http://evil.example")


async def test_deep_json_is_the_caller_s_fault():
    deep = b'{"Pod":' + b"[" * 100_000 + b"]" * 100_000 + b',"NodeNames":["a"]}'

    assert 400 == await ask(extender(), deep)
