"""The server on a socket: files it writes, TLS and plain HTTP on one port, two on one etcd."""

import asyncio
import errno
import json
import socket
import ssl
import stat
import urllib.request

import pytest

from bayplan.apiserver import expiry, tls
from bayplan.apiserver.serving import Settings, running
from bayplan.errors import ConfigError
from bayplan.origin import is_loopback
from bayplan.testing.servers import start_embedded
from tests.apiserver.api import Api

EVENTS = "/api/v1/namespaces/default/events"


def fetch(url, token, context=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return json.load(answer)


async def test_one_port_speaks_tls_and_plain_http_on_loopback(tmp_path):
    settings = Settings(data=tmp_path / "data", store="memory", kubeconfig_out=tmp_path / "kc")
    async with running(settings) as served:
        trusted = ssl.create_default_context(cadata=served.authority.decode())
        path = "/api/v1/namespaces/default"
        secure = await asyncio.to_thread(fetch, served.url + path, served.token, trusted)
        plain = await asyncio.to_thread(
            fetch, served.url.replace("https", "http") + path, served.token
        )

    assert "default" == secure["metadata"]["name"]
    assert secure == plain


async def test_connections_are_accepted_again_after_an_error_that_nobody_thought_of(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("bayplan.supervised.FIRST_PAUSE", 0.01)
    accept, failing = socket.socket.accept, [True]

    def broken(listener):
        if failing:
            failing.pop()
            raise OSError(errno.ENOBUFS, "no buffer space available")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", broken)
    settings = Settings(data=tmp_path / "data", store="memory", tls_generate=False)
    async with running(settings) as served:
        path = "/api/v1/namespaces/default"
        found = await asyncio.to_thread(fetch, served.url + path, served.token)
        failures = dict(served.server.backend.background_failures)

    assert "default" == found["metadata"]["name"]
    assert {"accepting connections": 1} == failures


async def test_secrets_are_readable_by_their_owner_only(tmp_path):
    settings = Settings(data=tmp_path / "data", store="sqlite", kubeconfig_out=tmp_path / "kc")
    async with running(settings):
        files = [
            tmp_path / "kc",
            tmp_path / "data" / "admin-token",
            tmp_path / "data" / "tls" / "apiserver.key",
        ]
        modes = [stat.S_IMODE(path.stat().st_mode) for path in files]

    assert [0o600] * 3 == modes


async def test_token_certificate_and_objects_outlive_a_restart(tmp_path):
    settings = Settings(data=tmp_path, store="sqlite")
    async with running(settings) as first:
        token, authority = first.token, first.authority
        uid = (await _namespace(first))["metadata"]["uid"]
    async with running(settings) as second:
        assert (token, authority) == (second.token, second.authority)
        assert uid == (await _namespace(second))["metadata"]["uid"]


async def _namespace(served):
    return await Api(served.server).ok("GET", "/api/v1/namespaces/default")


async def test_a_client_that_says_nothing_holds_nobody_up(tmp_path):
    async with running(Settings(data=tmp_path, store="memory")) as served:
        host, port = served.url.split("//")[1].split(":")
        silent = socket.create_connection((host, int(port)))
        context = ssl._create_unverified_context()
        found = await asyncio.to_thread(
            fetch, f"{served.url}/api/v1/namespaces", served.token, context
        )
        silent.close()

    assert 4 == len(found["items"])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param({"store": "sqlite"}, "--data", id="a durable store needs a place"),
        pytest.param({"store": "etcd"}, "--etcd-servers", id="etcd needs an address"),
        pytest.param(
            {"store": "memory", "tls_certificate": "x"}, "together", id="half a certificate"
        ),
        pytest.param({"store": "memory", "authorization_mode": "ABAC"}, "RBAC", id="unknown mode"),
        pytest.param({"store": "memory", "host": "203.0.113.9"}, "203.0.113.9", id="not ours"),
    ],
)
async def test_wrong_settings_say_what_to_change(settings, text):
    with pytest.raises(ConfigError, match=text):
        async with running(Settings(**settings)):
            pass


def test_a_certificate_is_made_anew_for_a_new_host(tmp_path):
    first = tls.generate(tmp_path, ["127.0.0.1"]).certificate.read_bytes()

    assert first == tls.generate(tmp_path, ["127.0.0.1"]).certificate.read_bytes()
    assert first != tls.generate(tmp_path, ["example.org"]).certificate.read_bytes()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_loopback(host, expected):
    assert expected == is_loopback(host)


async def test_events_go_after_their_time():
    now = 1_700_000_000.0
    api = await Api.start(clock=lambda: now)
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    for name, extra in (("old", {}), ("repeated", {"lastTimestamp": "2023-11-14T23:00:00Z"})):
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": "R", **extra}
        await api.ok("POST", EVENTS, body)
    now += 3601

    removed = await expiry.Expiry(api.server.backend, 3600).remove()

    left = [item["metadata"]["name"] for item in (await api.ok("GET", EVENTS))["items"]]
    assert (1, ["repeated"]) == (removed, left)
    await api.close()


async def test_events_are_read_when_they_may_be_old_and_not_each_minute(monkeypatch):
    now = 1_700_000_000.0
    api = await Api.start(clock=lambda: now)
    monkeypatch.setattr(expiry, "PAGE", 3)
    last_seen, read = expiry.last_seen, []
    monkeypatch.setattr(expiry, "last_seen", lambda value: read.append(value) or last_seen(value))
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    minutes = expiry.Expiry(api.server.backend, 3600)
    removed = []
    for minute in range(70):
        if minute < 8:  # one a minute
            body = {"metadata": {"name": f"e{minute}"}, "involvedObject": about, "reason": "R"}
            await api.ok("POST", EVENTS, body)
        now += 60
        removed.append(await minutes.remove())

    assert [0] * 60 + [1] * 8 + [0] * 2 == removed
    assert len(read) <= 16, "each when its time has come"
    assert not (await api.ok("GET", EVENTS))["items"]
    await api.close()


def test_the_program_ends_at_once_when_told(tmp_path):
    with start_embedded(tmp_path, "--store=memory") as cluster:
        watcher = urllib.request.Request(
            f"{cluster.server.replace('https', 'http')}/api/v1/pods?watch=1",
            headers={"Authorization": f"Bearer {cluster.token}"},
        )
        with urllib.request.urlopen(watcher, timeout=60):
            code = cluster.apiserver.stop()

    assert 0 == code
