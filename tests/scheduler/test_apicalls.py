"""Calls as data reach the API server as the right requests, and are retried as upstream does."""

import asyncio
import json

import pytest

from bayplan.client import ApiError, AsgiTransport, Client, NotFound
from bayplan.clock import run_virtual
from bayplan.framework import ApiCall
from bayplan.scheduler.apicalls import carry_out, resource_of


class Answers:
    """Answers with the given codes, then 200, and keeps the requests."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.requests: list[tuple[str, str, object, str]] = []

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"]
        headers = dict(scope["headers"])
        kind = headers.get(b"content-type", b"").decode()
        self.requests.append(
            (scope["method"], scope["path"], json.loads(body) if body else None, kind)
        )
        code = self.codes.pop(0) if self.codes else 200
        await send({"type": "http.response.start", "status": code, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def perform(call, *codes):
    api = Answers(*codes)

    async def main():
        await carry_out(Client(AsgiTransport(api)), call)
        return asyncio.get_running_loop().time()

    return run_virtual(main()), api.requests


STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        (
            ApiCall("patch", "pods", "ns", "p", {"status": {}}, "status"),
            ("PATCH", "/api/v1/namespaces/ns/pods/p/status", {"status": {}}, STRATEGIC),
        ),
        (
            ApiCall("patch", "persistentvolumes", "", "pv", {"spec": {}}, patch=MERGE),
            ("PATCH", "/api/v1/persistentvolumes/pv", {"spec": {}}, MERGE),
        ),
        (
            ApiCall("update", "resourceclaims.resource.k8s.io", "ns", "c", {"a": 1}, "status"),
            (
                "PUT",
                "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status",
                {"a": 1},
                "application/json",
            ),
        ),
        (
            ApiCall("create", "resourceclaims.resource.k8s.io", "ns", "", {"a": 1}),
            (
                "POST",
                "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims",
                {"a": 1},
                "application/json",
            ),
        ),
        (
            ApiCall("delete", "pods", "ns", "p"),
            ("DELETE", "/api/v1/namespaces/ns/pods/p", None, ""),
        ),
    ],
)
def test_requests(call, request_):
    _, (sent,) = perform(call)

    assert request_ == sent


def test_patches_are_sent_again_after_conflicts_and_faults():
    took, requests = perform(ApiCall("patch", "pods", "ns", "p", {}, "status"), 409, 500, 503)

    assert len(requests) == 4
    assert took == pytest.approx(0.31)


def test_patches_give_up_after_four_tries():
    with pytest.raises(ApiError):
        perform(ApiCall("patch", "pods", "ns", "p", {}, "status"), 500, 500, 500, 500)


def test_bindings_are_sent_once():
    body = {"metadata": {"uid": "u"}, "target": {"name": "n"}}
    with pytest.raises(ApiError):
        perform(ApiCall("create", "pods", "ns", "p", body, "binding"), 500)


def test_not_found_can_be_ignored():
    perform(ApiCall("delete", "pods", "ns", "p", ignore_not_found=True), 404)
    with pytest.raises(NotFound):
        perform(ApiCall("delete", "pods", "ns", "p"), 404)


def test_every_resource_of_the_scheduler_is_known():
    for name in ("pods", "persistentvolumeclaims", "resourceclaims.resource.k8s.io"):
        assert resource_of(name).plural == name.partition(".")[0]
