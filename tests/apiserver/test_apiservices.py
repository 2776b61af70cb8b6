"""APIServices: one for each version that is served, and the rules for those that people write."""

import pytest

from bayplan.apiserver.server import ApiServer
from bayplan.store import MemoryStore
from tests.apiserver.api import Api
from tests.apiserver.crd.test_objects import definition
from tests.definitions import DEFINITIONS

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


async def names(api):
    return {item["metadata"]["name"]: item for item in (await api.ok("GET", SERVICES))["items"]}


async def test_what_is_served_has_a_service_which_comes_and_goes_with_its_definition():
    server = ApiServer(MemoryStore())
    server.complete = True
    await server.start()
    api = Api(server)
    try:
        found = await names(api)
        assert {"v1.", "v1.apps", "v2.autoscaling"} <= set(found)
        assert "Local" == found["v1.apps"]["status"]["conditions"][0]["reason"]
        assert 17800 == found["v1.apps"]["spec"]["groupPriorityMinimum"]

        made = await api.ok("POST", DEFINITIONS, definition())
        assert "v1.sea.example" in await names(api)
        await api.ok("DELETE", f"{DEFINITIONS}/{made['metadata']['name']}")
        assert "v1.sea.example" not in await names(api)
    finally:
        await api.close()


def service(**spec):
    wanted = {
        "group": "x.example",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "service": {"namespace": "default", "name": "s"},
    }
    metadata = {"name": "v1.x.example"}
    return {"metadata": metadata, "spec": {**wanted, **spec}}


async def test_a_service_of_another_server_has_a_port(api):
    made = await api.ok("POST", SERVICES, service())

    assert 443 == made["spec"]["service"]["port"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"group": "y.example"}, "metadata.name"),
        ({"groupPriorityMinimum": 0}, "spec.groupPriorityMinimum"),
        ({"versionPriority": 1001}, "spec.versionPriority"),
        ({"service": None, "caBundle": "QUJD"}, "spec.caBundle"),
        ({"service": {"name": "s"}}, "spec.service.namespace"),
    ],
)
async def test_a_wrong_service_is_refused(api, spec, field):
    answer = await api.call("POST", SERVICES, service(**spec))

    assert 422 == answer.status
    assert [field] == [cause["field"] for cause in answer.body["details"]["causes"]]


async def test_the_kubernetes_service_leads_here_after_each_start():
    store = MemoryStore()
    for port in (6443, 7443):
        server = ApiServer(store)
        server.advertised = ("127.0.0.1", port)
        await server.start()
        api = Api(server)
        found = await api.ok("GET", "/api/v1/namespaces/default/endpoints/kubernetes")
        assert port == found["subsets"][0]["ports"][0]["port"]
        where = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        found = await api.ok("GET", where)
        assert port == found["ports"][0]["port"]
        await server.close()
    await store.close()
