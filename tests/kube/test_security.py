"""What the real kube-apiserver refuses, ours refuses: the same requests to both, with RBAC.

Users are played by impersonation, which both servers must honour for anything here to work.
"""

from __future__ import annotations

import base64
import json
import time

import pytest

from tests import definitions
from tests.kube.twins import MEDIA, guarded_twins

pytestmark = pytest.mark.kube
GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
DEFAULT = "/api/v1/namespaces/default"
DEFINITIONS = definitions.DEFINITIONS
BOB = {"Impersonate-User": "bob"}
OLD_WATCH = "/api/v1/watch/namespaces/default/secrets"


@pytest.fixture(scope="module")
def twins():
    with guarded_twins(lambda each: grant(each, "everything-but-granting", WRITE)) as both:
        yield both


def rule(verbs, resources, groups=("",), **more):
    return {"apiGroups": list(groups), "resources": resources, "verbs": verbs, **more}


WRITE = [
    rule(["create", "patch", "update", "get"], ["*"], [GROUP]),
    rule(["patch", "update", "get"], ["configmaps"]),
    rule(["list", "watch"], ["secrets"], resourceNames=["x"]),
]


def role(name, rules):
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole"}
    return {**kind, "metadata": {"name": name}, "rules": rules}


def binding(name, of, user="bob"):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": of},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


def grant(server, name, rules):
    assert server.ask("POST", f"{RBAC}/clusterroles", role(name, rules))[0] == 201
    assert server.ask("POST", f"{RBAC}/clusterrolebindings", binding(name, name))[0] == 201


def definition(plural, group, pattern="", rules=(), **metadata):
    field = {"type": "string", **({"pattern": pattern} if pattern else {})}
    if rules:
        field["x-kubernetes-validations"] = [{"rule": text} for text in rules]
    properties = {"spec": {"type": "object", "properties": {"a": field}}}
    return definitions.definition(plural, group, properties=properties, metadata=metadata)


AGGREGATION = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
APPROVAL = "api-approved.kubernetes.io"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
COPIES = [{"op": "copy", "from": "/data", "path": f"/data/k{n}"} for n in range(40)]
CASES = {
    "bind cluster-admin": (
        "POST", f"{RBAC}/clusterrolebindings", binding("x", "cluster-admin"), "", BOB),
    "bind a role that is not there": (
        "POST", f"{RBAC}/clusterrolebindings", binding("x", "none"), "", BOB),
    "bind a role that is not there in a namespace": (
        "POST", f"{RBAC}/namespaces/default/rolebindings",
        {**binding("x", "none"), "kind": "RoleBinding"}, "", BOB),
    "write a role that may do more": (
        "POST", f"{RBAC}/clusterroles", role("x", [rule(["get"], ["secrets"])]), "", BOB),
    "write a role within one's own": (
        "POST", f"{RBAC}/clusterroles", role("y", [rule(["get"], ["configmaps"])]), "", BOB),
    "aggregate": (
        "POST", f"{RBAC}/clusterroles",
        {**role("z", []), "aggregationRule": AGGREGATION},
        "", BOB),
    "act as somebody else while acting as bob": (
        "GET", f"{DEFAULT}/configmaps", None, "",
        {"Impersonate-Group": "system:masters"}),
    "create by apply": (
        "PATCH", f"{DEFAULT}/configmaps/new?fieldManager=b", CONFIG, MEDIA["apply"], BOB),
    "list one name": (
        "GET", f"{DEFAULT}/secrets?fieldSelector=metadata.name%3Dx", None, "", BOB),
    "list another name": (
        "GET", f"{DEFAULT}/secrets?fieldSelector=metadata.name%3Dy", None, "", BOB),
    "watch one name and another in the old way": (
        "GET", f"{OLD_WATCH}/x?fieldSelector=metadata.name%3Dy", None, "", BOB),
    "watch one name and all others in the old way": (
        "GET", f"{OLD_WATCH}/x?fieldSelector=metadata.name!%3Dx", None, "", BOB),
    "watch another name in the old way": ("GET", f"{OLD_WATCH}/y", None, "", BOB),
    "watch one name everywhere in the old way": (
        "GET", "/api/v1/watch/secrets/x", None, "", {}),
    "create where watches were": (
        "POST", OLD_WATCH, {"metadata": {"name": "x"}}, "", {}),
    "delete where watches were": ("DELETE", f"{OLD_WATCH}/x", None, "", {}),
    "delete all where watches were": ("DELETE", OLD_WATCH, None, "", {}),
    "delete a system class": (
        "DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", None, "", {}),
    "a protected group": ("POST", DEFINITIONS, definition("ships", "sea.k8s.io"), "", {}),
    "a protected group, approved of wrongly": (
        "POST", DEFINITIONS,
        definition("ships", "sea.k8s.io", annotations={APPROVAL: "yes"}), "", {}),
    "a built-in group": ("POST", DEFINITIONS, definition("deployments", "apps"), "", {}),
    "a pattern with a look-ahead": (
        "POST", DEFINITIONS, definition("ships", "sea.example.com", "(?=a)"), "", {}),
    "a pattern that is not closed": (
        "POST", DEFINITIONS, definition("ships", "sea.example.com", "(a"), "", {}),
    "copies of copies": (
        "PATCH", f"{DEFAULT}/configmaps/base", COPIES, MEDIA["json"], {}),
    "a short-lived token": (
        "POST", f"{DEFAULT}/serviceaccounts/base/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
         "spec": {"expirationSeconds": 10}}, "", {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(twins):
    for each in twins:
        each.ask("POST", f"{DEFAULT}/configmaps", {
            **CONFIG, "metadata": {"name": "base"}, "data": {"a": "x" * 1000}})  # fmt: skip
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "base"}}
        each.ask("POST", f"{DEFAULT}/serviceaccounts", account)
    return twins


@pytest.mark.parametrize("name", CASES)
def test_both_answer_alike(prepared, name):
    method, path, body, media, headers = CASES[name]
    answers = [
        each.ask(method, path, body, media or "application/json", headers) for each in prepared
    ]

    (status, theirs), (our_status, ours) = answers
    assert status == our_status, (theirs, ours)
    if status >= 400:
        assert theirs.get("reason") == ours.get("reason")
        if "without impersonating" not in theirs["message"]:
            assert theirs["message"] == ours["message"]


def test_a_watch_of_one_name_in_the_old_way_shows_no_other(prepared):
    shown = []
    for each in prepared:
        for name in "xy":
            each.ask("POST", f"{DEFAULT}/secrets", {"metadata": {"name": name}})
        path = f"{OLD_WATCH}/x?timeoutSeconds=1"
        status, text = each.ask("GET", path, extra=BOB, plain=True)
        events = [json.loads(line)["object"]["metadata"]["name"] for line in text.splitlines()]
        shown.append((status, events))

    assert [(200, ["x"])] * 2 == shown


def test_tokens_go_with_their_account(prepared):
    for each in prepared:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gone"}}
        each.ask("POST", f"{DEFAULT}/serviceaccounts", account)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        status, made = each.ask("POST", f"{DEFAULT}/serviceaccounts/gone/token", asked)
        assert status == 201
        token = made["status"]["token"]
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        assert {"aud", "exp", "iat", "iss", "jti", "kubernetes.io", "nbf", "sub"} == set(claims)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path, mine = (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"Authorization": f"Bearer {token}"},
        )
        assert each.ask("POST", path, review, extra=mine)[0] == 201
        assert each.ask("DELETE", f"{DEFAULT}/serviceaccounts/gone")[0] == 200
        refused = 0
        for _ in range(100):  # kube-apiserver keeps checked tokens for ten seconds
            refused, _body = each.ask("POST", path, review, extra=mine)
            if refused == 401:
                break
            time.sleep(0.2)
        assert refused == 401


def test_a_collection_of_priority_classes_takes_those_of_the_system_too(twins):
    """Only the deletion of one of them is refused: upstream looks at the name in the path."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    told = [
        (each.ask("DELETE", f"{path}?dryRun=All")[0], each.ask("DELETE", path)[0]) for each in twins
    ]
    left = [
        [item["metadata"]["name"] for item in each.ask("GET", path)[1]["items"]] for each in twins
    ]

    assert [(200, 200)] * 2 == told
    assert [[], []] == left


def test_a_quota_on_best_effort_counts_who_asks_for_nothing_in_other_words(twins):
    """What is none, or no cpu and no memory, is best effort."""
    hard = {"pods": "0"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard, "scopes": ["BestEffort"]}}
    told = []
    for each in twins:
        each.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "best"}})
        each.ask(
            "POST", "/api/v1/namespaces/best/serviceaccounts", {"metadata": {"name": "default"}}
        )
        quotas = "/api/v1/namespaces/best/resourcequotas"
        made = each.ask("POST", quotas, quota)[1]
        status = {"status": {"hard": hard, "used": {"pods": "0"}}}
        assert 200 == each.ask("PUT", f"{quotas}/q/status", made | status)[0]
        for n, requests in enumerate(({"cpu": "0"}, {"ephemeral-storage": "1"}, {"cpu": "1"})):
            one = {"name": "c", "image": "i", "resources": {"requests": requests}}
            pod = {"metadata": {"name": f"p{n}"}, "spec": {"containers": [one]}}
            told.append(each.ask("POST", "/api/v1/namespaces/best/pods", pod)[0])

    assert [403, 403, 201] * 2 == told
