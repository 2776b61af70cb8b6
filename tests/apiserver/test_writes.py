"""Creating, replacing, applying and deleting: who wins, what is refused, what a dry run leaves."""

from types import SimpleNamespace

import pytest

from bayplan.apiserver.verbs.update import is_version, ready_to_go
from tests.apiserver.api import CONFIGMAPS, PODS, configmap, pod
from tests.definitions import DEFINITIONS, definition

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NAMESPACES = "/api/v1/namespaces"
APPLY = "application/apply-patch+yaml"


async def apply(api, target, body, **query):
    text = "&".join(f"{key}={value}" for key, value in ({"fieldManager": "me"} | query).items())
    return await api.call("PATCH", f"{target}?{text}", body, headers={"content-type": APPLY})


def applied(name="a", **more):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"a": "1"},
        **more,
    }


# -- PUT


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        pytest.param({"name": "a"}, 201, id="a new one"),
        pytest.param({"name": "a", "resourceVersion": "7"}, 201, id="the version of one gone"),
        pytest.param({"name": "a", "uid": "another"}, 409, id="another one was meant"),
        pytest.param({"name": "b"}, 400, id="another name"),
    ],
)
async def test_some_kinds_are_created_by_replacing_them(api, metadata, status):
    answer = await api.call("PUT", f"{LEASES}/a", {"metadata": metadata, "spec": {}})

    assert status == answer.status, answer.body
    assert (200 if status == 201 else 404) == (await api.call("GET", f"{LEASES}/a")).status


async def test_others_are_not(api):
    assert 404 == (await api.call("PUT", f"{PODS}/a", pod("a"))).status
    assert (
        404 == (await api.call("PUT", f"{NAMESPACES}/a/status", {"metadata": {"name": "a"}})).status
    )


async def test_a_replacement_that_is_only_tried_changes_nothing(api):
    tried = await api.call("PUT", f"{LEASES}/a?dryRun=All", {"metadata": {"name": "a"}})
    before = await api.ok("POST", CONFIGMAPS, configmap("a"))
    changed = before | {"data": {"a": "2"}}
    shown = await api.ok("PUT", f"{CONFIGMAPS}/a?dryRun=All", changed)

    assert 201 == tried.status
    assert 404 == (await api.call("GET", f"{LEASES}/a")).status
    assert {"a": "2"} == shown["data"]
    assert before == await api.ok("GET", f"{CONFIGMAPS}/a")


async def test_what_is_equal_is_not_written(api):
    before = await api.ok("POST", CONFIGMAPS, configmap("a"))

    again = await api.ok("PUT", f"{CONFIGMAPS}/a", before)

    assert before["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


async def test_the_last_finalizer_takes_a_deleted_object_along(api):
    await api.ok("POST", CONFIGMAPS, configmap("a", finalizers=["example.com/x", "example.com/y"]))
    await api.ok("DELETE", f"{CONFIGMAPS}/a")

    async def left(*names, query=""):
        body = {"metadata": {"finalizers": list(names)}}
        shown = await api.ok("PATCH", f"{CONFIGMAPS}/a{query}", body)
        return shown["metadata"].get("finalizers")

    assert ["example.com/x"] == await left("example.com/x")
    assert 200 == (await api.call("GET", f"{CONFIGMAPS}/a")).status
    assert None is await left(query="?dryRun=All")
    assert 200 == (await api.call("GET", f"{CONFIGMAPS}/a")).status
    assert None is await left()
    assert 404 == (await api.call("GET", f"{CONFIGMAPS}/a")).status


GOING = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("storage", "obj", "ready"),
    [
        (("", "pods"), {"metadata": {}}, False),
        (("", "pods"), {"metadata": GOING}, True),
        (("", "pods"), {"metadata": GOING | {"finalizers": ["x"]}}, False),
        (("", "pods"), {"metadata": GOING | {"deletionGracePeriodSeconds": 1}}, False),
        (("", "pods"), {"metadata": GOING | {"deletionGracePeriodSeconds": 0}}, True),
        (("", "namespaces"), {"metadata": GOING}, True),
        (("", "namespaces"), {"metadata": GOING, "spec": {"finalizers": ["k"]}}, False),
        (("", "namespaces"), {"metadata": GOING, "spec": {"finalizers": []}}, True),
    ],
)
def test_when_nothing_holds_a_deleted_object_back(storage, obj, ready):
    assert ready is ready_to_go(SimpleNamespace(storage=storage), obj)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("0", True),
        ("9" * 20, True),
        ("9" * 21, False),
        ("", False),
        ("x", False),
        ("\u0661", False),
    ],
    ids=["zero", "long", "too long", "none", "a letter", "a digit of others"],
)
def test_what_a_version_is(text, good):
    assert good is is_version(text)


@pytest.mark.parametrize(
    ("target", "version", "status", "text"),
    [
        pytest.param(CONFIGMAPS, None, 200, "", id="none is needed"),
        pytest.param(CONFIGMAPS, "0", 200, "", id="zero is any"),
        pytest.param(CONFIGMAPS, "1", 409, "the object has been modified", id="an old one"),
        pytest.param(CONFIGMAPS, "x", 422, "must be an integer", id="no number"),
        pytest.param(LEASES, None, 422, "must be specified for an update", id="it is needed"),
        pytest.param(LEASES, "0", 422, "must be specified for an update", id="zero is none"),
    ],
)
async def test_which_version_a_replacement_is_made_from(api, target, version, status, text):
    made = await api.ok("POST", target, {"metadata": {"name": "a"}})
    made["metadata"].pop("resourceVersion")
    if version is not None:
        made["metadata"]["resourceVersion"] = version

    answer = await api.call("PUT", f"{target}/a", made)

    assert status == answer.status, answer.body
    assert text in answer.body.get("message", "")


async def test_a_replacement_of_another_object_of_that_name_is_refused(api):
    await api.ok("POST", CONFIGMAPS, configmap("a"))

    answer = await api.call("PUT", f"{CONFIGMAPS}/a", configmap("a", uid="another"))

    assert 409 == answer.status
    assert "Precondition failed: UID in precondition: another" in answer.body["message"]


# -- apply


async def test_applying_creates_and_then_changes(api):
    created = await apply(api, f"{CONFIGMAPS}/a", applied())
    changed = await apply(api, f"{CONFIGMAPS}/a", applied(data={"b": "2"}))

    assert (201, 200, {"b": "2"}) == (created.status, changed.status, changed.body["data"])
    (entry,) = changed.body["metadata"]["managedFields"]
    assert ("me", "Apply") == (entry["manager"], entry["operation"])


async def test_what_another_manager_owns_is_a_conflict_unless_forced(api):
    await apply(api, f"{CONFIGMAPS}/a", applied())
    other = applied(data={"a": "2"})

    refused = await apply(api, f"{CONFIGMAPS}/a", other, fieldManager="you")
    forced = await apply(api, f"{CONFIGMAPS}/a", other, fieldManager="you", force="true")

    (cause,) = refused.body["details"]["causes"]
    assert (409, "FieldManagerConflict", ".data.a") == (
        refused.status,
        cause["reason"],
        cause["field"],
    )
    assert (200, {"a": "2"}) == (forced.status, forced.body["data"])


async def test_an_applied_version_is_insisted_on(api):
    await apply(api, f"{CONFIGMAPS}/a", applied())
    old = applied(metadata={"name": "a", "resourceVersion": "1"}, data={"a": "2"})

    assert 409 == (await apply(api, f"{CONFIGMAPS}/a", old)).status


@pytest.mark.parametrize(
    ("body", "query", "status", "text"),
    [
        pytest.param(applied(), {"fieldManager": ""}, 422, "is required for apply", id="nobody"),
        pytest.param(applied("b"), {}, 400, "the name of the object (b) does not", id="another"),
        pytest.param(
            applied(metadata={"name": "a", "namespace": "other"}),
            {},
            400,
            "the namespace of the provided object does not match",
            id="another namespace",
        ),
        pytest.param(applied(metadata=None), {}, 400, "name must be provided", id="no name"),
        pytest.param(applied(metadata={}), {}, 400, "name must be provided", id="an empty name"),
        pytest.param(
            applied(metadata={"name": "a", "managedFields": [{"manager": "x"}]}),
            {},
            400,
            "metadata.managedFields must be nil",
            id="with owners",
        ),
    ],
)
async def test_what_may_not_be_applied(api, body, query, status, text):
    answer = await apply(api, f"{CONFIGMAPS}/a", body, **query)

    assert status == answer.status, answer.body
    assert text in answer.body["message"]
    assert 404 == (await api.call("GET", f"{CONFIGMAPS}/a")).status


async def test_the_status_of_what_is_not_there_is_not_applied(api):
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {}}

    assert 404 == (await apply(api, f"{PODS}/a/status", body)).status


# -- patches


@pytest.mark.parametrize(
    ("patch", "status", "text"),
    [
        pytest.param(
            {"kind": "Pod"}, 422, "the kind of a ConfigMap cannot change", id="another kind"
        ),
        pytest.param({"kind": "ConfigMap"}, 200, "", id="its own kind"),
        pytest.param({"kind": None}, 200, "", id="its kind left out"),
        pytest.param(
            {"apiVersion": "v2"}, 422, "the API version of a ConfigMap", id="another version"
        ),
        pytest.param({"apiVersion": ""}, 400, "", id="no version"),
        pytest.param({"metadata": 7}, 422, "the metadata of the result is not", id="no metadata"),
        pytest.param(
            {"data": {"a": 7}}, 422, "json: cannot unmarshal number", id="a number for a text"
        ),
        pytest.param([], 400, "", id="no object"),
    ],
)
async def test_what_a_patch_may_make_of_an_object(api, patch, status, text):
    before = await api.ok("POST", CONFIGMAPS, configmap("a"))

    answer = await api.call("PATCH", f"{CONFIGMAPS}/a", patch)

    assert status == answer.status, answer.body
    assert text in answer.body.get("message", "")
    assert before == await api.ok("GET", f"{CONFIGMAPS}/a")


@pytest.mark.parametrize(
    ("mode", "status", "warned"), [("Strict", 422, False), ("Warn", 200, True), ("Ignore", 200, 0)]
)
async def test_fields_that_nobody_knows_in_a_patch(api, mode, status, warned):
    await api.ok("POST", CONFIGMAPS, configmap("a"))

    answer = await api.call("PATCH", f"{CONFIGMAPS}/a?fieldValidation={mode}", {"odd": 1})

    assert (status, bool(warned)) == (answer.status, "warning" in answer.headers)
    assert "odd" not in await api.ok("GET", f"{CONFIGMAPS}/a")


BOATS = definition(
    "boats",
    properties={"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
)


@pytest.mark.parametrize(
    ("mode", "status", "warned"), [("Strict", 422, False), ("Warn", 200, True), ("Ignore", 200, 0)]
)
async def test_fields_that_a_definition_does_not_know_in_a_patch(api, mode, status, warned):
    await api.ok("POST", DEFINITIONS, BOATS)
    boats = "/apis/example.com/v1/namespaces/default/boats"
    boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}}
    await api.ok("POST", boats, boat)

    patch = {"spec": {"n": 1, "odd": 1}}
    answer = await api.call("PATCH", f"{boats}/b?fieldValidation={mode}", patch)

    assert (status, bool(warned)) == (answer.status, "warning" in answer.headers)
    kept = (await api.ok("GET", f"{boats}/b")).get("spec")
    assert ({"n": 1} if status == 200 else None) == kept


async def test_only_an_apply_is_forced(api):
    await api.ok("POST", CONFIGMAPS, configmap("a"))

    answer = await api.call("PATCH", f"{CONFIGMAPS}/a?force=true", {})

    assert (422, "force") == (answer.status, answer.body["details"]["causes"][0]["field"])
    assert "may not be specified for non-apply patch" in answer.body["message"]


@pytest.mark.parametrize(
    ("media", "text"),
    [("merge-patch", "error decoding patch: "), ("strategic-merge-patch", "")],
)
async def test_a_patch_that_is_no_json_says_so(api, media, text):
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    headers = {"content-type": f"application/{media}+json"}

    answer = await api.call("PATCH", f"{CONFIGMAPS}/a", b"{", headers=headers)

    assert 400 == answer.status
    assert answer.body["message"].startswith(text or "unexpected")


# -- creating


async def test_a_create_that_is_only_tried_says_what_would_be(api):
    tried = await api.call("POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"))
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    taken = await api.call("POST", f"{CONFIGMAPS}?dryRun=All", configmap("a"))

    assert (201, 409) == (tried.status, taken.status)
    assert "AlreadyExists" == taken.body["reason"]


# -- deleting


async def test_a_namespace_goes_when_its_finalizers_have_gone(api):
    await api.ok("POST", NAMESPACES, {"metadata": {"name": "team"}})
    tried = await api.ok("DELETE", f"{NAMESPACES}/team?dryRun=All")
    untouched = await api.ok("GET", f"{NAMESPACES}/team")
    first = await api.ok("DELETE", f"{NAMESPACES}/team")
    again = await api.call("DELETE", f"{NAMESPACES}/team")

    assert "Terminating" == tried["status"]["phase"]
    assert "Active" == untouched["status"]["phase"]
    assert ("Terminating", True) == (
        first["status"]["phase"],
        "deletionTimestamp" in first["metadata"],
    )
    assert again.status in (200, 409)
    held = await api.ok("GET", f"{NAMESPACES}/team")
    held["spec"]["finalizers"] = []
    await api.ok("PUT", f"{NAMESPACES}/team/finalize", held)
    assert 404 == (await api.call("GET", f"{NAMESPACES}/team")).status


async def test_all_that_match_are_deleted_and_shown_as_they_were(api):
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.ok("POST", CONFIGMAPS, configmap(name, labels={"l": label}))

    tried = await api.ok("DELETE", f"{CONFIGMAPS}?labelSelector=l%3Dx&dryRun=All")
    shown = await api.ok("DELETE", f"{CONFIGMAPS}?labelSelector=l%3Dx")

    left = (await api.ok("GET", CONFIGMAPS))["items"]
    assert ["a", "c"] == [item["metadata"]["name"] for item in tried["items"]]
    assert ("ConfigMapList", ["a", "c"]) == (
        shown["kind"],
        [item["metadata"]["name"] for item in shown["items"]],
    )
    assert ["b"] == [item["metadata"]["name"] for item in left if "l" in item["metadata"]["labels"]]


async def test_what_went_meanwhile_is_not_among_the_deleted(api, monkeypatch):
    for name in ("a", "b"):
        await api.ok("POST", CONFIGMAPS, configmap(name))
    must_get, gone = api.server.backend.must_get, []

    async def later(codec, namespace, name):
        if name == "a" and not gone:
            gone.append(name)
            await api.server.store.delete(codec.key(namespace, name))
        return await must_get(codec, namespace, name)

    api.server.backend.must_get = later
    shown = await api.ok("DELETE", CONFIGMAPS)

    assert ["b"] == [
        item["metadata"]["name"] for item in shown["items"] if len(item["metadata"]["name"]) == 1
    ]


@pytest.mark.parametrize("body", [b"5", b"{}", b'"x"', b"null", b"true"])
async def test_what_is_no_list_of_operations_is_refused(api, body):
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    headers = {"content-type": "application/json-patch+json"}

    answer = await api.call("PATCH", f"{CONFIGMAPS}/a", body, headers=headers)

    assert answer.status in (400, 422), answer.body
