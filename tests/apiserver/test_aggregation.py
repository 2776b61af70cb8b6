"""Servers behind this one: requests are passed on, and nobody waits for one that is gone."""

import asyncio

import pytest

from bayplan.apiserver import aggregation
from bayplan.apiserver.front_proxy import CONFIG, FrontProxy, publish
from tests.apiserver.api import Api
from tests.apiserver.extension import DESCRIPTION, GROUP, NAMED, ONE, SERVICES, Extension, condition

TIDES = f"/apis/{GROUP}/v1/namespaces/default/tides"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(aggregation, "AGAIN_DEAD", 0.02)


@pytest.fixture
async def extension(tmp_path):
    async with Extension(tmp_path) as started:
        yield started


async def put_behind(api: Api, extension: Extension, **spec) -> None:
    await api.ok("POST", NAMED, extension.named())
    await api.ok("POST", SERVICES, extension.service(**spec))
    await condition(api, "Passed")


async def test_a_request_is_passed_on_as_its_users(api, extension):
    await put_behind(api, extension)

    answer = await api.call("POST", TIDES + "?dryRun=All", {"kind": "Tide"})

    assert (200, "high") == (answer.status, answer.headers["x-tide"])
    (asked,) = extension.asked
    assert ("POST", TIDES + "?dryRun=All") == (asked["method"], asked["path"])
    assert '{"kind": "Tide"}' == asked["body"]
    assert ["system:masters", "system:authenticated"] == asked["groups"]
    assert (1, None) == (len(asked["user"]), asked["authorization"])
    assert 418 == (await api.call("GET", TIDES + "/teapot")).status


async def test_headers_that_claim_a_user_are_not_passed_on(api, extension):
    await put_behind(api, extension)

    await api.ok("GET", TIDES, headers={"x-remote-user": "eve", "x-remote-group": "masters"})

    (asked,) = extension.asked
    assert "eve" not in asked["user"]
    assert "masters" not in asked["groups"]


async def test_a_watch_is_passed_back_as_it_comes(api, extension):
    await put_behind(api, extension)

    stream = await api.watch(TIDES + "?watch=1")
    events = await stream.until(2)
    await stream.leave()

    assert ["a", "b"] == [event["object"]["metadata"]["name"] for event in events]


async def test_discovery_tells_of_it_also_when_it_is_gone(api, extension):
    await put_behind(api, extension)
    aggregated = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

    groups = await api.ok("GET", "/apis")
    alive = await api.ok("GET", "/apis", headers=aggregated)
    index = await api.ok("GET", "/openapi/v3")
    described = await api.ok("GET", f"/openapi/v3/apis/{GROUP}/v1")
    await extension.__aexit__()
    await api.ok("PATCH", ONE, {"metadata": {"labels": {"look": "now"}}})
    lost = await condition(api, "FailedDiscoveryCheck")
    dead = await api.ok("GET", "/apis", headers=aggregated)
    answer = await api.call("GET", TIDES)

    assert GROUP == groups["groups"][-1]["name"]
    (one,) = alive["items"][-1]["versions"]
    assert ("Current", ["tides"]) == (one["freshness"], [r["resource"] for r in one["resources"]])
    assert "status" == one["resources"][0]["subresources"][0]["subresource"]
    assert f"apis/{GROUP}/v1" in index["paths"]
    assert DESCRIPTION == described
    assert "Stale" == dead["items"][-1]["versions"][0]["freshness"]
    assert "False" == lost["status"]
    assert (503, b"service unavailable\n") == (answer.status, answer.raw)


async def write_endpoints(api: Api, obj) -> None:
    backend = api.server.backend
    codec = backend.codec_of("discovery.k8s.io", "endpointslices")
    await backend.store.put(codec.key("default", "ext-1"), codec.encode(obj))


async def test_its_status_says_what_is_missing(api, extension):
    port = extension.port
    await api.ok("POST", SERVICES, extension.service())
    told = [await condition(api, "ServiceNotFound")]
    await api.ok("POST", NAMED, extension.chosen(80))
    told.append(await condition(api, "ServicePortError"))
    await api.ok("DELETE", f"{NAMED}/ext")
    await api.ok("POST", NAMED, extension.chosen(port))
    told.append(await condition(api, "EndpointsNotFound"))
    await write_endpoints(api, {**extension.endpoints(), "endpoints": []})
    told.append(await condition(api, "MissingEndpoints"))
    await write_endpoints(api, extension.endpoints())
    told.append(await condition(api, "Passed"))

    where = 'service/ext in "default"'
    assert [
        f"{where} is not present",
        f"{where} is not listening on port {port}",
        f"cannot find endpointslices for {where}",
        f'endpoints for {where} have no addresses with port name "https"',
        "all checks passed",
    ] == [each["message"] for each in told]


async def test_a_server_is_believed_only_with_its_authority(api, extension, tmp_path):
    await api.ok("POST", NAMED, extension.named())
    await api.ok("POST", SERVICES, extension.service(caBundle=None))
    lost = await condition(api, "FailedDiscoveryCheck")
    await api.ok("PATCH", ONE, {"spec": {"insecureSkipTLSVerify": True}})

    assert "x509" in lost["message"]
    assert "True" == (await condition(api, "Passed"))["status"]


async def test_this_server_shows_the_certificate_that_it_tells_of(api, tmp_path):
    identity = FrontProxy()
    api.server.identity = identity
    await publish(api.server.backend, identity.authority)
    await publish(api.server.backend, FrontProxy().authority)  # of another server
    config = await api.ok("GET", f"/api/v1/namespaces/kube-system/configmaps/{CONFIG}")
    behind = Extension(tmp_path)
    behind.trusted = config["data"]["requestheader-client-ca-file"]

    async with behind as extension:
        await put_behind(api, extension)
        await api.ok("GET", TIDES)

    assert 2 == behind.trusted.count("BEGIN CERTIFICATE")
    assert '["X-Remote-User"]' == config["data"]["requestheader-username-headers"]


async def test_the_permission_is_asked_for_here(extension):
    api = await Api.start(rbac=True)
    try:
        await put_behind(api, extension)
        as_eve = {"impersonate-user": "eve"}
        answer = await api.call("GET", TIDES, headers=as_eve)

        assert 403 == answer.status
        assert (
            'cannot list resource "tides" in API group "ext.example.com"'
            in (answer.body["message"])
        )
        assert [] == extension.asked
    finally:
        await api.close()


async def test_a_local_server_takes_over_when_the_apiservice_goes(api, extension):
    await put_behind(api, extension)

    await api.ok("DELETE", ONE)

    async with asyncio.timeout(60):
        while (await api.call("GET", TIDES)).status != 404:
            await asyncio.sleep(0.01)
    assert GROUP not in [group["name"] for group in (await api.ok("GET", "/apis"))["groups"]]


async def test_what_is_seen_of_a_server_outlives_a_write_of_its_apiservice(api, extension):
    await put_behind(api, extension)
    remotes = api.server.backend.remotes
    before = remotes.get(GROUP, "v1")

    await api.ok("PATCH", ONE, {"metadata": {"labels": {"a": "b"}}})
    await api.server._aggregator._sync()
    same = remotes.get(GROUP, "v1")
    await api.ok("PATCH", ONE, {"spec": {"versionPriority": 11}})
    await api.server._aggregator._sync()

    assert before is same
    assert remotes.get(GROUP, "v1") is not before
