"""Access reviews: what must be asked, and what an answer always has."""

import pytest

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
async def test_a_review_asks_about_a_resource_or_a_path(api, spec, field, text):
    answer = await ask(api, spec)

    assert 422 == answer.status
    (cause,) = answer.body["details"]["causes"]
    assert field == cause["field"]
    assert text in cause["message"]
    assert 201 == (await ask(api, {"nonResourceAttributes": PATH})).status


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
