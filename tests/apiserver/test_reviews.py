"""Access reviews: what must be asked, and what an answer always has."""

import pytest

from bayplan.apiserver.authorization import Action
from bayplan.apiserver.subresources.reviews import action_of

REVIEWS = "/apis/authorization.k8s.io/v1/"
PATH = {"path": "/healthz", "verb": "get"}
PODS = {"verb": "get", "resource": "pods"}


async def ask(api, spec, resource="selfsubjectaccessreviews"):
    return await api.call("POST", REVIEWS + resource, {"spec": spec})


async def test_an_answer_has_metadata_though_none_were_given(api):
    answer = await ask(api, {"resourceAttributes": PODS})

    assert (201, True) == (answer.status, answer.body["status"]["allowed"])
    assert "metadata" in answer.body


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        pytest.param({}, "spec.resourceAttributes", "exactly one of", id="neither"),
        pytest.param(
            {"resourceAttributes": PODS, "nonResourceAttributes": PATH},
            "spec.nonResourceAttributes",
            "cannot be specified in combination with resourceAttributes",
            id="both",
        ),
    ],
)
@pytest.mark.parametrize("who", ["selfsubjectaccessreviews", "subjectaccessreviews"])
async def test_a_review_asks_about_a_resource_or_a_path(api, spec, field, text, who):
    named = {"user": "bob"} if who.startswith("subject") else {}
    answer = await ask(api, spec | named, who)

    assert 422 == answer.status
    (cause,) = answer.body["details"]["causes"]
    assert field == cause["field"]
    assert text in cause["message"]
    assert 201 == (await ask(api, {"nonResourceAttributes": PATH} | named, who)).status


async def test_a_review_of_others_names_them(api):
    attributes = {"resourceAttributes": PODS}

    nobody = await ask(api, attributes, "subjectaccessreviews")
    bob = await ask(api, attributes | {"user": "bob"}, "subjectaccessreviews")
    crew = await ask(api, attributes | {"groups": ["crew"]}, "subjectaccessreviews")

    assert (422, 201, 201) == (nobody.status, bob.status, crew.status)
    assert "spec.user" == nobody.body["details"]["causes"][0]["field"]


async def test_my_rules_are_those_of_resources_and_those_of_paths(api):
    answer = await ask(api, {"namespace": "default"}, "selfsubjectrulesreviews")

    assert (201, {}) == (answer.status, answer.body["spec"])
    assert {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    } == answer.body["status"]


async def test_rules_are_asked_for_in_a_namespace(api):
    answer = await ask(api, {}, "selfsubjectrulesreviews")

    assert (400, "no namespace on request") == (answer.status, answer.body["message"])


LOCAL = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"


@pytest.mark.parametrize(
    ("attributes", "status"),
    [
        pytest.param({**PODS, "namespace": "default"}, 201, id="its own namespace"),
        pytest.param({**PODS, "namespace": "other"}, 422, id="another namespace"),
        pytest.param(PODS, 422, id="all namespaces"),
        pytest.param(None, 422, id="nothing"),
    ],
)
async def test_a_local_review_asks_about_its_own_namespace(api, attributes, status):
    spec = {"user": "bob"}
    if attributes is not None:
        spec["resourceAttributes"] = attributes

    answer = await api.call("POST", LOCAL, {"metadata": {"namespace": "default"}, "spec": spec})

    assert status == answer.status
    if status == 422:
        (cause,) = answer.body["details"]["causes"]
        assert "spec.resourceAttributes.namespace" == cause["field"]
        assert "must match metadata.namespace" in cause["message"]


async def test_a_review_of_a_token_needs_one_and_tells_whose_it_is(api):
    path = "/apis/authentication.k8s.io/v1/tokenreviews"

    empty = await api.call("POST", path, {"spec": {}})
    wrong = await api.ok("POST", path, {"spec": {"token": "nonsense"}})
    right = await api.ok("POST", path, {"spec": {"token": api.server.admin_token}})

    assert (400, "token is required for TokenReview in authentication") == (
        empty.status,
        empty.body["message"],
    )
    assert "authenticated" not in wrong["status"]
    assert wrong["status"]["error"]
    assert right["status"]["authenticated"] is True
    assert "system:masters" in right["status"]["user"]["groups"]


async def test_a_review_has_no_table(api):
    headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    body = {"spec": {"resourceAttributes": PODS}}

    answer = await api.call("POST", REVIEWS + "selfsubjectaccessreviews", body, headers=headers)

    assert 406 == answer.status


def test_what_a_review_asks_is_an_action():
    path = {"verb": "get", "path": "/healthz"}
    resource = {"verb": "get", "group": "g", "resource": "r", "subresource": "s"}
    there = {"namespace": "ns", "name": "n"}

    assert Action("get", path="/healthz") == action_of({"nonResourceAttributes": path})
    wanted = Action("get", "g", "r", "s", "ns", "n")
    assert wanted == action_of({"resourceAttributes": resource | there})
