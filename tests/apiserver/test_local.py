"""The door for clients of the server's own process."""

import asyncio

import pytest

from bayplan.apiserver.local import LocalTransport
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client, Forbidden, Informer, TransportError
from bayplan.client.errors import RequestTimeout
from bayplan.client.resources import CONFIG_MAPS
from bayplan.controllers.objects import Bare
from bayplan.store import MemoryStore


@pytest.fixture
async def server():
    suffixes = iter(range(1000))
    made = ApiServer(MemoryStore(), clock=lambda: 1e9, uid=lambda: f"uid-{next(suffixes)}")
    await made.start()
    yield made
    await made.close()


def local(server, **options):
    return LocalTransport(server, token=server.admin_token, **options)


JSON = {"accept": "application/json", "content-type": "application/json"}
REQUESTS = [
    ("POST", "/api/v1/namespaces/default/configmaps", JSON, b'{"metadata":{"name":"a%"}}'),
    ("POST", "/api/v1/namespaces/default/configmaps", JSON, b'{"metadata":{"name":"a"},"odd":1}'),
    ("POST", "/api/v1/namespaces/default/configmaps", JSON, b'{"metadata":{"name":"a"}}'),
    ("GET", "/api/v1/namespaces/default/configmaps/%61?pretty=true", JSON, None),
    ("HEAD", "/api/v1/namespaces/default/configmaps/a", JSON, None),
    ("GET", "/api/v1/configmaps?limit=1", {"accept": "application/yaml"}, None),
    ("GET", "/version", {}, None),
    ("GET", "/nothing/here", {}, None),
    ("PATCH", "/api/v1/nodes", JSON, b"{}"),
    ("GET", "/api/v1/nodes", {"impersonate-group": "some"}, None),
    ("POST", "/api/v1/namespaces", {"content-encoding": "gzip"}, b"no"),
]


async def test_answers_are_those_of_the_http_server(server):
    twin = ApiServer(MemoryStore(), clock=lambda: 1e9, uid=iter_uids())
    await twin.start()
    over_http = AsgiTransport(twin, token=twin.admin_token)
    here = local(server)
    for method, target, headers, body in REQUESTS:
        expected = await over_http.request(method, target, headers, body, None)
        found = await here.request(method, target, headers, body, None)

        assert (expected.status, expected.body) == (found.status, found.body), target
        assert found.headers.get("content-type") == expected.headers["content-type"]
        assert found.headers.get("warning") == expected.headers.get("warning")
    await twin.close()


def iter_uids():
    numbers = iter(range(1000))
    return lambda: f"uid-{next(numbers)}"


async def test_a_stranger_is_refused_and_counted(server):
    refused = await LocalTransport(server).request("GET", "/api/v1/pods", {}, None, None)
    wrong = LocalTransport(server, token="wrong")

    assert refused.status == 401
    assert (await wrong.request("GET", "/api/v1/pods", {}, None, None)).status == 401


async def test_a_body_may_not_be_longer_than_elsewhere(server):
    large = b'{"metadata":{"name":"a"},"data":{"a":"' + b"a" * (3 << 20) + b'"}}'
    path = "/api/v1/namespaces/default/configmaps"

    assert (await local(server).request("POST", path, JSON, large, None)).status == 413


async def test_who_may_not_is_forbidden():
    strict = ApiServer(MemoryStore(), rbac=True)
    await strict.start()
    posing = {"impersonate-user": "nobody"}
    client = Client(LocalTransport(strict, token=strict.admin_token), headers=posing)
    with pytest.raises(Forbidden):
        await client.list(CONFIG_MAPS)
    await strict.close()


async def test_a_request_has_its_time(server):
    held = asyncio.get_running_loop().create_future()

    async def never(*_):
        await held
        return 200, b"{}"

    server.questions["/slow"] = never
    with pytest.raises(RequestTimeout):
        await local(server).request("GET", "/slow", {}, None, 0.01)


async def test_a_watch_shows_changes_and_is_counted_while_it_is_open(server):
    transport = local(server)
    client = Client(transport)
    events = client.watch(CONFIG_MAPS, resource_version=str(server.store.revision))

    assert await anext(events) == []
    assert "apiserver_longrunning_requests" in server.backend.metrics.text()
    assert open_watches(server) == 1
    await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "default")
    (line,) = await anext(events)
    assert b'"ADDED"' in line
    await events.aclose()
    assert open_watches(server) == 0
    assert not server.backend.watchers


def open_watches(server):
    text = server.backend.metrics.text()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_longrunning")]
    return sum(int(line.rpartition(" ")[2]) for line in lines)


@pytest.mark.parametrize("end", ["server", "transport"])
async def test_a_watch_ends_with_its_server_and_with_its_transport(server, end):
    transport = local(server)
    events = Client(transport).watch(CONFIG_MAPS, resource_version=str(server.store.revision))
    assert await anext(events) == []
    rest = asyncio.ensure_future(anext(events, None))
    await asyncio.sleep(0)
    if end == "server":
        server.end_watches()
    else:
        await transport.close()

    assert await rest is None


async def test_what_breaks_a_watch_is_a_broken_connection(server, monkeypatch):
    client = Client(local(server))
    events = client.watch(CONFIG_MAPS, resource_version=str(server.store.revision))
    assert await anext(events) == []
    monkeypatch.setattr(server.backend, "cache_of", lambda event: 1 / 0)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "default")

    with pytest.raises(TransportError, match="stream broke"):
        await anext(events)


async def test_a_refused_watch_says_why(server):
    client = Client(LocalTransport(server, token="wrong"))

    with pytest.raises(Exception, match="Unauthorized"):
        await anext(client.watch(CONFIG_MAPS))


async def test_an_informer_hears_of_changes_without_a_turn_of_its_own(server):
    client = Client(local(server))
    informer = Informer(client, CONFIG_MAPS, Bare)
    heard = []
    informer.add_handler(
        lambda changes: heard.extend(change.new.metadata.name for change in changes)
    )
    running = asyncio.ensure_future(informer.run())
    await informer.wait_watching()
    await asyncio.sleep(0)  # it waits for the first event now
    await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "default")
    await asyncio.sleep(0)

    assert heard[-1] == "b"
    assert open_events(server) >= 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("size", [10, 10_000], ids=["small", "large"])
async def test_informers_hear_what_comes_to_match_their_selectors_and_ceases_to(server, size):
    client, heard, running = Client(local(server)), {}, []
    for selector in ("", "tier in (a,b)", "tier!=a", "tier"):
        informer = Informer(client, CONFIG_MAPS, Bare, label_selector=selector)
        told = heard[selector] = []
        informer.add_handler(
            lambda changes, told=told: told.extend(
                change.type[0] for change in changes if change.new.metadata.name == "b"
            )
        )
        running.append(asyncio.ensure_future(informer.run()))
        await informer.wait_watching()
    await asyncio.sleep(0)  # they wait for the first event now
    labels, data = {"tier": "a"}, {"text": "x" * size}
    body = {"metadata": {"name": "b", "labels": labels}, "data": data}
    await client.create(CONFIG_MAPS, body, "default")
    for tier in ("b", "c", None, "a"):
        patch = {"metadata": {"labels": {"tier": tier}}}
        await client.patch(CONFIG_MAPS, "b", patch, "default", kind="merge")
        await asyncio.sleep(0)
    await client.delete(CONFIG_MAPS, "b", "default")
    await asyncio.sleep(0)
    for each in running:
        each.cancel()
    await asyncio.gather(*running, return_exceptions=True)

    told = {selector: "".join(letters) for selector, letters in heard.items()}
    assert {"": "AMMMMD", "tier in (a,b)": "AMDAD", "tier!=a": "AMMD", "tier": "AMMDAD"} == told


def open_events(server):
    lines = server.backend.metrics.text().splitlines()
    shown = [line for line in lines if line.startswith("apiserver_watch_events_total{")]
    return sum(int(line.rpartition(" ")[2]) for line in shown if "configmaps" in line)


async def test_lines_that_are_not_taken_come_as_all_others(server):
    client = Client(local(server))
    refused = []

    def refuse(lines):
        refused.append(lines)
        return False

    version = str(server.store.revision)
    events = client.watch(CONFIG_MAPS, resource_version=version, straight=refuse)
    assert await anext(events) == []
    coming = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "default")

    assert [await coming] == refused
    await events.aclose()
