"""Others that are always faster: what is tried again, how often, and what the client is told."""

from __future__ import annotations

import asyncio
import json

import pytest

from bayplan.apiserver.verbs.delete import ATTEMPTS as DELETIONS
from bayplan.apiserver.verbs.update import ATTEMPTS
from bayplan.store import MemoryStore
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod
from tests.definitions import DEFINITIONS, definition

HPAS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"


class Rivals(MemoryStore):
    """Somebody writes the same again just before the next `left` changes of what ends so."""

    ending, left, seen = "/x", 0, 0

    async def _first(self, key, expect):
        if expect and self.left and key.endswith(self.ending):
            self.left -= 1
            self.seen += 1
            found = await super().get(key)
            if found is not None:
                await MemoryStore.put(self, key, found.value)

    async def put(self, key, value, *, expect=None):
        await self._first(key, expect)
        return await super().put(key, value, expect=expect)

    async def delete(self, key, *, expect=None):
        await self._first(key, expect)
        return await super().delete(key, expect=expect)

    async def transact(self, ops):
        for op in ops:
            await self._first(op.key, op.expect)
        return await super().transact(ops)


@pytest.fixture
async def rivals():
    api = await Api.start(Rivals())
    yield api
    await api.close()


async def ask(api, what, path, value, version=""):
    if what == "patch":
        return await api.call("PATCH", path, {"data": {"a": value}})
    if what == "delete":
        return await api.call("DELETE", path)
    body = configmap("x", **({"resourceVersion": version} if what == "insist" else {}))
    return await api.call("PUT", path, body | {"data": {"a": value}})


@pytest.mark.parametrize(
    ("what", "attempts"),
    [("patch", ATTEMPTS), ("put", ATTEMPTS), ("delete", DELETIONS)],
)
async def test_a_change_is_tried_so_often_and_then_told_to_be_a_conflict(rivals, what, attempts):
    store, path = rivals.server.store, f"{CONFIGMAPS}/x"
    for left, status in ((attempts - 1, 200), (attempts, 409)):
        made = await rivals.call("POST", CONFIGMAPS, configmap("x"))
        assert made.status in (201, 409)
        store.left, store.seen = left, 0
        answer = await ask(rivals, what, path, str(status))

        assert (status, left) == (answer.status, store.seen)
    assert ("Conflict", "x") == (answer.body["reason"], answer.body["details"]["name"])
    kept = (await rivals.ok("GET", path))["data"]["a"]
    assert kept == ("1" if what == "delete" else "200")


async def test_who_insists_on_a_version_is_told_at_once(rivals):
    made = await rivals.ok("POST", CONFIGMAPS, configmap("x"))
    rivals.server.store.left = 9

    answer = await ask(
        rivals, "insist", f"{CONFIGMAPS}/x", "2", made["metadata"]["resourceVersion"]
    )

    assert (409, 8) == (answer.status, rivals.server.store.left)
    assert "the object has been modified" in answer.body["message"]


HPA = {
    "metadata": {"name": "x"},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
}


@pytest.mark.parametrize(
    ("version", "left", "status", "replicas"),
    [(None, 1, 200, 5), (None, 99, 409, 3), ("insist", 1, 409, 3)],
    ids=["faster once", "always faster", "the client insists"],
)
async def test_a_patch_of_the_other_form_is_tried_again_unless_it_insists(
    rivals, version, left, status, replicas
):
    made = await rivals.ok("POST", HPAS.format("v1"), HPA)
    rivals.server.store.left = left
    patch = {"spec": {"maxReplicas": 5}}
    if version:
        patch["metadata"] = {"resourceVersion": made["metadata"]["resourceVersion"]}
    answer = await rivals.call("PATCH", f"{HPAS.format('v1')}/x", patch)

    assert status == answer.status, answer.body
    assert replicas == (await rivals.ok("GET", f"{HPAS.format('v2')}/x"))["spec"]["maxReplicas"]


@pytest.mark.parametrize(
    ("query", "finalizers"),
    [
        ("orphanDependents=true", ["orphan"]),
        ("orphanDependents=1", ["orphan"]),
        ("orphanDependents=", ["orphan"]),
        ("orphanDependents=false", None),
        ("orphanDependents=0", None),
        ("propagationPolicy=Orphan", ["orphan"]),
        ("propagationPolicy=Foreground", ["foregroundDeletion"]),
        ("propagationPolicy=Background", None),
        ("propagationPolicy=", None),
    ],
)
async def test_how_dependents_go_may_be_said_in_the_query(api, query, finalizers):
    await api.ok("POST", CONFIGMAPS, configmap("x"))

    await api.ok("DELETE", f"{CONFIGMAPS}/x?{query}")
    left = await api.call("GET", f"{CONFIGMAPS}/x")

    if finalizers is None:
        assert 404 == left.status
    else:
        assert finalizers == left.body["metadata"]["finalizers"]


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", None])
async def test_a_namespace_keeps_how_its_dependents_go(api, policy):
    """As other objects do; only tried, nothing of it stays."""
    wanted = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(policy)
    path = "/api/v1/namespaces/x"
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    body = {"kind": "DeleteOptions", "propagationPolicy": policy} if policy else None

    tried = await api.ok("DELETE", f"{path}?dryRun=All", body and body | {"dryRun": ["All"]})
    before = await api.ok("GET", path)
    done = await api.ok("DELETE", path, body)

    for shown in (tried, done):
        assert ("Terminating", wanted) == (
            shown["status"]["phase"],
            shown["metadata"].get("finalizers"),
        )
    assert "Active" == before["status"]["phase"]
    assert "deletionTimestamp" not in before["metadata"]


@pytest.mark.parametrize("grace", [0, 30])
@pytest.mark.parametrize("held", [False, True])
async def test_a_deletion_of_a_pod_that_is_only_tried_says_whether_it_would_wait(api, grace, held):
    """One that waits is shown with its end; one that would go at once, as it is."""
    body = pod("x", nodeName="n", terminationGracePeriodSeconds=grace)
    body["metadata"]["finalizers"] = ["example.com/held"] if held else []
    await api.ok("POST", PODS, body)

    shown = await api.ok("DELETE", f"{PODS}/x?dryRun=All")
    after = await api.ok("GET", f"{PODS}/x")

    assert ("Pod", grace) == (shown["kind"], shown["metadata"]["deletionGracePeriodSeconds"])
    assert "deletionTimestamp" not in after["metadata"]


@pytest.mark.parametrize("media", ["application/yaml", "application/json;pretty", "protobuf"])
@pytest.mark.parametrize("count", [2, 120])
async def test_what_was_deleted_together_is_shown_in_each_form(api, media, count):
    for n in range(count):
        await api.ok("POST", CONFIGMAPS, configmap(f"x{n}"))
    pretty = "pretty" in media
    kind = "application/vnd.kubernetes.protobuf" if media == "protobuf" else media.split(";")[0]
    query = "&pretty=true" if pretty else ""
    names = "fieldSelector=metadata.name!%3Dkube-root-ca.crt"

    answer = await api.exchange(
        "DELETE", f"{CONFIGMAPS}?{names}{query}", None, {"accept": f"{kind},application/json;q=0.1"}
    )
    raw = b"".join(answer.pieces)

    assert 200 == answer.status, raw
    assert answer.headers["content-type"].startswith(kind)
    assert all(f"x{n}".encode() in raw for n in range(count))
    if pretty:
        shown = json.loads(raw)
        assert ("ConfigMapList", count) == (shown["kind"], len(shown["items"]))
        assert b'\n  "kind": "ConfigMapList"' in raw
    left = (await api.ok("GET", f"{CONFIGMAPS}?{names}"))["items"]
    assert [] == left


async def test_a_definition_goes_also_where_its_objects_are_changed_meanwhile(rivals):
    """The deletion of one gives up, and the next round sees to it."""
    name, path = "wheels.example.com", "/apis/example.com/v1/namespaces/default/wheels"
    await rivals.ok("POST", DEFINITIONS, definition("wheels"))
    body = {"apiVersion": "example.com/v1", "kind": "Wheel", "metadata": {"name": "x"}}
    async with asyncio.timeout(60):
        while (await rivals.call("POST", path, body)).status != 201:
            await asyncio.sleep(0)
    rivals.server.store.left = DELETIONS + 1

    await rivals.ok("DELETE", f"{DEFINITIONS}/{name}")
    async with asyncio.timeout(60):
        while (await rivals.call("GET", f"{DEFINITIONS}/{name}")).status != 404:
            await asyncio.sleep(0)

    assert 0 == rivals.server.store.left
    assert 404 == (await rivals.call("GET", path)).status
