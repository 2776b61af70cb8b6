"""Policies: what they refuse, warn of and change, with bindings, parameters and variables."""

import pytest

from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod
from tests.apiserver.dynamic.hooks import HOOKS

CONFIGMAP_RULES = {
    "resourceRules": [
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }
    ]
}
POD_RULES = {"resourceRules": [{**CONFIGMAP_RULES["resourceRules"][0], "resources": ["pods"]}]}


async def policy(api: Api, kind: str = "Validating", binding: dict | None = None, **spec) -> None:
    stem = f"{HOOKS}/{kind.lower()}admissionpolic"
    whole = {"matchConstraints": CONFIGMAP_RULES, **spec}
    await api.ok("POST", f"{stem}ies", {"metadata": {"name": "p"}, "spec": whole})
    bound = {"policyName": "p", **(binding or {})}
    if kind == "Validating":
        bound.setdefault("validationActions", ["Deny"])
    await api.ok("POST", f"{stem}ybindings", {"metadata": {"name": "b"}, "spec": bound})


DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


@pytest.mark.parametrize(
    ("validation", "code", "message"),
    [
        ({"expression": "object.data.a == '1'"}, 201, ""),
        ({"expression": "object.data.a == '2'"}, 422, "failed expression: object.data.a == '2'"),
        ({"expression": "false", "message": "no way"}, 422, "no way"),
        (
            {"expression": "false", "messageExpression": "'no ' + object.metadata.name"},
            422,
            "no a",
        ),
        ({"expression": "false", "reason": "Forbidden", "message": "x"}, 403, "x"),
        (
            {"expression": "object.data.none == '2'"},
            422,
            "expression 'object.data.none == '2'' resulted in error: no such key: none",
        ),
        ({"expression": "request.userInfo.groups.exists(g, g == 'system:masters')"}, 201, ""),
        ({"expression": "namespaceObject.metadata.name == 'default'"}, 201, ""),
        ({"expression": "oldObject == null"}, 201, ""),
        (
            {"expression": "authorizer.group('').resource('pods').check('get').allowed()"},
            201,
            "",
        ),
        ({"expression": "authorizer.requestResource.check('create').allowed()"}, 201, ""),
    ],
)  # fmt: skip
async def test_a_validation_is_judged(api, validation, code, message):
    await policy(api, validations=[validation])

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert code == answer.status, answer.body
    if message:
        assert f'configmaps "a" is forbidden: {DENIED}{message}' == answer.body["message"]


async def test_actions_other_than_deny_let_pass(api):
    validations = [{"expression": "false", "message": "m"}]
    await policy(api, validations=validations, binding={"validationActions": ["Warn", "Audit"]})

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert 201 == answer.status
    assert (
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m"
        in answer.headers["warning"]
    )


async def test_variables_and_conditions(api):
    await policy(
        api,
        variables=[
            {"name": "v", "expression": "object.data.a"},
            {"name": "w", "expression": "variables.v + '!'"},
        ],
        matchConditions=[{"name": "c", "expression": "object.metadata.name != 'free'"}],
        validations=[{"expression": "variables.w == 'x!'", "messageExpression": "variables.w"}],
    )

    assert 201 == (await api.call("POST", CONFIGMAPS, configmap("free"))).status
    answer = await api.call("POST", CONFIGMAPS, configmap("bound"))

    assert answer.body["message"].endswith(f"{DENIED}1!")


@pytest.mark.parametrize(("missing", "code"), [("Allow", 201), ("Deny", 422)])
async def test_parameters_are_read_from_objects(api, missing, code):
    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": missing}
    await policy(
        api,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        validations=[{"expression": "object.metadata.name == params.data.only"}],
        binding={"paramRef": reference},
    )

    assert code == (await api.call("POST", CONFIGMAPS, configmap("a"))).status
    limits = configmap("limits") | {"data": {"only": "limits"}}
    if missing == "Allow":
        await api.ok("POST", CONFIGMAPS, limits)

        answer = await api.call("POST", CONFIGMAPS, configmap("b"))

        assert 422 == answer.status


async def test_a_policy_that_does_not_compile_is_refused_when_it_is_written(api):
    spec = {"matchConstraints": CONFIGMAP_RULES, "validations": [{"expression": "object.x +"}]}
    path = f"{HOOKS}/validatingadmissionpolicies"

    answer = await api.call("POST", path, {"metadata": {"name": "p"}, "spec": spec})

    assert 422 == answer.status
    (cause,) = answer.body["details"]["causes"]
    assert "spec.validations[0].expression" == cause["field"]
    assert (
        "compilation failed: ERROR: <input>:1:11: Syntax error: mismatched input '<EOF>'"
        in (cause["message"])
    )


@pytest.mark.parametrize(
    "mutation",
    [
        {
            "patchType": "JSONPatch",
            "jsonPatch": {
                "expression": "[JSONPatch{op: 'add', path: '/metadata/labels', value: "
                "{'made': string(object.spec.containers.size())}}]"
            },
        },
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {
                "expression": "Object{metadata: Object.metadata{labels: {'made': '1'}}}"
            },
        },
    ],
    ids=["patch", "apply"],
)
async def test_a_mutating_policy_changes_the_object(api, mutation):
    await policy(api, "Mutating", matchConstraints=POD_RULES, mutations=[mutation])

    made = await api.ok("POST", PODS, pod("a"))

    assert {"made": "1"} == made["metadata"]["labels"]


async def test_an_applied_mutation_merges_lists_by_their_keys(api):
    expression = (
        "Object{spec: Object.spec{containers: object.spec.containers.map(c, "
        "Object.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}"
    )
    await policy(
        api,
        "Mutating",
        matchConstraints=POD_RULES,
        mutations=[
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
        ],
    )

    made = await api.ok("POST", PODS, pod("a"))

    (container,) = made["spec"]["containers"]
    assert ("Always", "registry.example/app:1") == (
        container["imagePullPolicy"],
        container["image"],
    )
