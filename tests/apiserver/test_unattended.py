"""Whoever makes an object on which nothing here acts is told so."""

import json

import pytest

from bayplan.apiserver.pipeline import LEFT_TO_OTHERS
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport
from bayplan.store import MemoryStore

BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
NETWORKING = "/apis/networking.k8s.io/v1"
CREATED = {
    "ingresses": (f"{NETWORKING}/namespaces/default/ingresses", {"defaultBackend": BACKEND}),
    "ingressclasses": (f"{NETWORKING}/ingressclasses", {"controller": "example.com/c"}),
    "networkpolicies": (f"{NETWORKING}/namespaces/default/networkpolicies", {"podSelector": {}}),
    "volumeattachments": (
        "/apis/storage.k8s.io/v1/volumeattachments",
        {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    ),
}


async def warning(resource: str, *, whole: bool) -> str:
    path, spec = CREATED[resource]
    server = ApiServer(MemoryStore())
    await server.start()
    server.backend.whole_cluster = whole
    transport = AsgiTransport(server, token=server.admin_token)
    body = json.dumps({"metadata": {"name": "x"}, "spec": spec}).encode()
    headers = {"content-type": "application/json"}
    answer = await transport.request("POST", path, headers, body, None)
    await server.close()
    assert 201 == answer.status, answer.body
    return answer.headers.get("warning", "")


def test_every_kind_that_nobody_attends_to_is_tried():
    assert {resource for _, resource in LEFT_TO_OTHERS} == set(CREATED)


@pytest.mark.parametrize("resource", CREATED)
async def test_in_a_whole_cluster_it_is_told(resource):
    assert "nothing in this cluster acts on" in await warning(resource, whole=True)


@pytest.mark.parametrize("resource", CREATED)
async def test_beside_a_lone_server_others_may_act(resource):
    assert "" == await warning(resource, whole=False)
