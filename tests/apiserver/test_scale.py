"""Scales: the number of replicas of a workload in one form, read and written."""

from types import SimpleNamespace

import pytest

from bayplan.apiserver.subresources.scale import Paths, _write, scale_of, selector_text

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SCALE = f"{DEPLOYMENTS}/web/scale"
TABLE = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"


@pytest.fixture
async def web(api):
    """A Deployment that wants three replicas and has two."""
    labels = {"app": "web"}
    container = {"name": "c", "image": "registry.example/app:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    made = await api.ok("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    await api.ok("PATCH", f"{DEPLOYMENTS}/web/status", {"status": {"replicas": 2}})
    return made


async def replicas(api):
    return (await api.ok("GET", f"{DEPLOYMENTS}/web"))["spec"]["replicas"]


async def test_a_scale_shows_what_is_wanted_and_what_is_there(api, web):
    shown = await api.ok("GET", SCALE)

    assert ("Scale", "autoscaling/v1") == (shown["kind"], shown["apiVersion"])
    assert ("web", web["metadata"]["uid"]) == (shown["metadata"]["name"], shown["metadata"]["uid"])
    assert {"replicas": 3} == shown["spec"]
    assert {"replicas": 2, "selector": "app=web"} == shown["status"]


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
async def test_a_table_is_of_the_version_asked_for(api, web, verb):
    body = {"spec": {"replicas": 3}} if verb == "PATCH" else None
    table = await api.ok(verb, SCALE, body, headers={"accept": TABLE})

    assert ("Table", "meta.k8s.io/v1beta1") == (table["kind"], table["apiVersion"])
    assert ["web", 3, 2] == table["rows"][0]["cells"][:3]
    now = await api.ok("GET", SCALE)
    assert now["metadata"]["resourceVersion"] == table["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/merge-patch+json", {"spec": {"replicas": 5}}),
        ("application/strategic-merge-patch+json", {"spec": {"replicas": 5}}),
        (
            "application/json-patch+json",
            [{"op": "replace", "path": "/spec/replicas", "value": 5}],
        ),
    ],
    ids=["merge", "strategic", "json"],
)
async def test_a_patch_changes_the_workload(api, web, media, body):
    shown = await api.ok("PATCH", SCALE, body, headers={"content-type": media})

    assert ("Scale", 5) == (shown["kind"], shown["spec"]["replicas"])
    assert 5 == await replicas(api)


async def test_an_update_holds_for_the_version_that_it_names(api, web):
    before = await api.ok("GET", SCALE)
    to_zero = await api.ok("PUT", SCALE, before | {"spec": {}})
    late = await api.call("PUT", SCALE, before | {"spec": {"replicas": 9}})
    other = to_zero["metadata"] | {"uid": "of-somebody-else"}
    of_another = await api.call("PUT", SCALE, to_zero | {"metadata": other})

    assert {} == to_zero["spec"]  # zero is left out, as by Go
    assert (409, 409) == (late.status, of_another.status)
    assert 0 == await replicas(api)


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        (
            {"spec": {"replicas": -1}},
            422,
            'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: '
            "must be greater than or equal to 0",
        ),
        ({"metadata": {"name": "other"}}, 400, "does not match the name on the URL (web)"),
        ({"spec": {"replicas": "many"}}, 400, "replicas"),
    ],
    ids=["negative", "another name", "no number"],
)
async def test_a_scale_that_cannot_be_is_refused(api, web, change, status, text):
    answer = await api.call("PATCH", SCALE, change)

    assert (status, True) == (answer.status, text in answer.body["message"]), answer.body
    assert 3 == await replicas(api)


async def test_a_patch_that_does_not_apply_is_invalid(api, web):
    body = [{"op": "test", "path": "/spec/replicas", "value": 4}]
    media = {"content-type": "application/json-patch+json"}
    answer = await api.call("PATCH", SCALE, body, headers=media)

    assert (422, "Invalid") == (answer.status, answer.body["reason"])


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ("b=2,a=1", "b=2,a=1"),
        ({"b": "2", "a": "1"}, "a=1,b=2"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"m": "1"},
                "matchExpressions": [
                    {"key": "z", "operator": "DoesNotExist"},
                    {"key": "e", "operator": "Exists"},
                    {"key": "n", "operator": "NotIn", "values": ["y", "x"]},
                    {"key": "i", "operator": "In", "values": ["b", "a"]},
                ],
            },
            "e,i in (a,b),m=1,n notin (x,y),!z",
        ),
        ({"matchExpressions": [{"key": "e", "operator": "Exists"}]}, "e"),
    ],
    ids=["none", "text", "map", "labels", "all", "expressions"],
)
def test_a_selector_is_shown_as_text(selector, text):
    assert text == selector_text(selector)


def test_a_custom_kind_keeps_its_numbers_where_it_says():
    paths = Paths(("spec", "size", "n"), ("status", "n"), ())
    metadata = {"name": "w", "labels": {"a": "b"}}
    full = scale_of({"metadata": metadata, "spec": {"size": {"n": 2}}, "status": {"n": 1}}, paths)
    odd = scale_of({"metadata": metadata, "spec": {"size": "large"}}, paths)

    assert ({"replicas": 2}, {"replicas": 1}) == (full["spec"], full["status"])
    assert ({}, {"replicas": 0}) == (odd["spec"], odd["status"])
    assert {"name": "w"} == full["metadata"]


def test_a_number_is_written_as_deep_as_its_path_says():
    obj = {"metadata": {}}
    wanted = {"spec": {"replicas": 3}}

    _write(SimpleNamespace(name="b"), obj, wanted, Paths(("spec", "crew", "size")))

    assert {"metadata": {}, "spec": {"crew": {"size": 3}}} == obj
