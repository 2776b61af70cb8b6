"""What each verb of the client sends: method, path, query, type and body."""

import asyncio
import json
from urllib.parse import parse_qsl

import pytest

from bayplan.client import ApiError, AsgiTransport, Client, Conflict, RateLimiter, TransportError
from bayplan.client.resources import DEPLOYMENTS, PODS
from bayplan.clock import run_virtual


class Heard:
    """Answers everything with one status and keeps what was asked."""

    def __init__(self, status=200, body=b"{}"):
        self.status, self.body, self.asked = status, body, []

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"]
        headers = dict(scope["headers"])
        query = dict(parse_qsl(scope["query_string"].decode()))
        kind = headers.get(b"content-type", b"").decode()
        sent = json.loads(body) if body else None
        self.asked.append((scope["method"], scope["raw_path"].decode(), query, kind, sent))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": self.body})


IN_NS = "/api/v1/namespaces/ns/pods"
JSON = "application/json"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(
            lambda c: c.get(PODS, "p", "ns", subresource="status"),
            ("GET", f"{IN_NS}/p/status", {}, "", None),
            id="get",
        ),
        pytest.param(lambda c: c.list(PODS), ("GET", "/api/v1/pods", {}, "", None), id="list"),
        pytest.param(
            lambda c: c.list(
                PODS,
                "ns",
                label_selector="a=b",
                field_selector="c=d",
                resource_version="0",
                resource_version_match="NotOlderThan",
                limit=1,
                continue_="more",
            ),
            (
                "GET",
                IN_NS,
                {
                    "labelSelector": "a=b",
                    "fieldSelector": "c=d",
                    "resourceVersion": "0",
                    "resourceVersionMatch": "NotOlderThan",
                    "limit": "1",
                    "continue": "more",
                },
                "",
                None,
            ),
            id="list with everything",
        ),
        pytest.param(
            lambda c: c.create(PODS, {"a": 1}, "ns", query={"dryRun": "All", "x": False}),
            ("POST", IN_NS, {"dryRun": "All", "x": "false"}, JSON, {"a": 1}),
            id="create",
        ),
        pytest.param(
            lambda c: c.update(PODS, "p", b'{"a": 1}', "ns", subresource="status"),
            ("PUT", f"{IN_NS}/p/status", {}, JSON, {"a": 1}),
            id="update",
        ),
        pytest.param(
            lambda c: c.patch(PODS, "p", {}, "ns"),
            ("PATCH", f"{IN_NS}/p", {}, "application/merge-patch+json", {}),
            id="patch",
        ),
        pytest.param(
            lambda c: c.patch(DEPLOYMENTS, "d", {}, "ns", kind="apply", field_manager="m", force=1),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/ns/deployments/d",
                {"fieldManager": "m", "force": "1"},
                "application/apply-patch+yaml",
                {},
            ),
            id="apply",
        ),
        pytest.param(
            lambda c: c.patch_status(PODS, "p", {}, "ns"),
            ("PATCH", f"{IN_NS}/p/status", {}, "application/strategic-merge-patch+json", {}),
            id="patch of the status",
        ),
        pytest.param(
            lambda c: c.delete(PODS, "p", "ns"), ("DELETE", f"{IN_NS}/p", {}, "", None), id="delete"
        ),
        pytest.param(
            lambda c: c.delete(PODS, "p", "ns", grace_period=0, uid="u", propagation="Orphan"),
            (
                "DELETE",
                f"{IN_NS}/p",
                {},
                JSON,
                {
                    "gracePeriodSeconds": 0,
                    "preconditions": {"uid": "u"},
                    "propagationPolicy": "Orphan",
                },
            ),
            id="delete with everything",
        ),
        pytest.param(
            lambda c: c.delete_collection(PODS, "ns", label_selector="a=b"),
            ("DELETE", IN_NS, {"labelSelector": "a=b"}, "", None),
            id="delete all that match",
        ),
        pytest.param(
            lambda c: c.delete_collection(PODS, "ns"),
            ("DELETE", IN_NS, {}, "", None),
            id="delete all",
        ),
        pytest.param(
            lambda c: c.evict("ns", "p", uid="u", grace_period=0),
            (
                "POST",
                f"{IN_NS}/p/eviction",
                {},
                JSON,
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": "p", "namespace": "ns"},
                    "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}},
                },
            ),
            id="evict",
        ),
        pytest.param(
            lambda c: c.evict("ns", "p"),
            (
                "POST",
                f"{IN_NS}/p/eviction",
                {},
                JSON,
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": "p", "namespace": "ns"},
                    "deleteOptions": {},
                },
            ),
            id="evict without options",
        ),
        pytest.param(
            lambda c: c.get(PODS, "a b/c?", "ns"),
            ("GET", f"{IN_NS}/a%20b/c%3F", {}, "", None),
            id="a name is quoted",
        ),
    ],
)
def test_what_a_verb_sends(call, expected):
    app = Heard(body=b'{"the": "answer"}')

    answer = run_virtual(call(Client(AsgiTransport(app))))

    assert [expected] == app.asked
    assert answer in (b'{"the": "answer"}', None)  # None: of an eviction nothing is kept


@pytest.mark.parametrize(
    ("options", "query"),
    [
        pytest.param({}, {"watch": "true", "allowWatchBookmarks": "true"}, id="plain"),
        pytest.param(
            {
                "resource_version": "7",
                "label_selector": "a=b",
                "field_selector": "c=d",
                "bookmarks": False,
                "timeout_seconds": 0,
            },
            {
                "watch": "true",
                "resourceVersion": "7",
                "labelSelector": "a=b",
                "fieldSelector": "c=d",
                "timeoutSeconds": "0",
            },
            id="from a version",
        ),
        pytest.param(
            {"send_initial_events": True},
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
            },
            id="with all objects first",
        ),
    ],
)
def test_what_a_watch_asks_for(options, query):
    app = Heard(body=b'{"a": 1}\n\n{"b": 2}\n{"not whole"')

    async def main():
        return [lines async for lines in Client(AsgiTransport(app)).watch(PODS, "ns", **options)]

    assert [[], [b'{"a": 1}', b'{"b": 2}']] == run_virtual(main())
    assert [("GET", IN_NS, query, "", None)] == app.asked


def test_a_watch_takes_its_turn_in_the_rate_limit():
    async def main():
        client = Client(AsgiTransport(Heard()), limiter=RateLimiter(1, 1))
        await client.list(PODS)
        async for _ in client.watch(PODS):
            return asyncio.get_running_loop().time()

    assert 1.0 == run_virtual(main())


def test_no_rate_means_no_limit():
    async def main():
        limiter = RateLimiter(0, 0)
        for _ in range(10):
            await limiter.acquire()
        return asyncio.get_running_loop().time()

    assert 0.0 == run_virtual(main())


@pytest.mark.parametrize("status", [400, 409, 500])
def test_what_is_refused_is_raised(status):
    async def main():
        client = Client(AsgiTransport(Heard(status)))
        codes = []
        for call in (client.list(PODS), client.bind("ns", "p", "u", "n")):
            with pytest.raises(ApiError) as problem:
                await call
            codes.append(problem.value.code)
        with pytest.raises(ApiError):
            async for _ in client.watch(PODS):
                pass
        return codes

    assert [status, status] == run_virtual(main())


def test_a_pod_that_is_bound_already_is_a_conflict():
    with pytest.raises(Conflict):
        run_virtual(Client(AsgiTransport(Heard(409))).bind("ns", "p", "u", "n"))


def test_a_read_over_broken_connections_waits_longer_each_time():
    class Broken:
        async def request(self, *rest):
            moments.append(asyncio.get_running_loop().time())
            raise TransportError("broken")

    moments = []

    async def main():
        with pytest.raises(TransportError):
            await Client(Broken()).list(PODS)

    run_virtual(main())

    assert [0.0, 0.1, 0.3, 0.7] == pytest.approx(moments)


def test_a_watch_without_credentials_fetches_new_ones():
    class Asked(AsgiTransport):
        refreshed = 0

        async def refresh_credentials(self):
            self.refreshed += 1
            return True

    async def main():
        for status in (401, 403):
            with pytest.raises(ApiError):
                async for _ in Client(transport[status]).watch(PODS):
                    pass

    transport = {status: Asked(Heard(status)) for status in (401, 403)}
    run_virtual(main())

    assert {401: 1, 403: 0} == {status: each.refreshed for status, each in transport.items()}
