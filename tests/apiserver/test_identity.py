"""Who somebody is and what they may grant: tokens, impersonation, bind and escalate."""

import base64
import json
import threading

import pytest

from bayplan.api.user import User
from bayplan.apiserver import escalation
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod
from tests.apiserver.test_certificates import ask
from tests.apiserver.test_watchdog import spy
from tests.effort import at_most

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
REVIEWS = "/apis/authentication.k8s.io/v1"
SECRETS = "/api/v1/namespaces/default/secrets"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CSR = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHNk1HSUNBUUF3QURCWk1CTUdCeXFHU000OUFn"
    "RUdDQ3FHU000OUF3RUhBMElBQk9oS245b0pNT0Y2bU9zUApkMTNDa2xhNjF0TnptbHJ2ZHppMjdneG11b1h0a0th"
    "Qkk3L01hRGp3Z0dvSzRjWWhvQ014OGU2aHFPaFE2TzJCCmtGSFBoeitnQURBS0JnZ3Foa2pPUFFRREFnTklBREJG"
    "QWlCVGhqejlPU0huSllXeVJBeTJlRzdlZkk5MitSWUQKNStkM1lXWVpkUW5RdGdJaEFQMjlKWkM2eHpBdi9sNHlU"
    "YmRnVm9vNFhyK2IyU2llclJWTUh4K2EzWEliCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="
)
APPLY = {"content-type": "application/apply-patch+yaml"}


class Clock:
    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def rbac(clock):
    """A server with RBAC and the user bob, who may do nothing yet."""
    api = await Api.start(rbac=True, clock=clock)
    api.server.authenticator.add("bob-token", User("bob", ("crew",)))
    yield api
    await api.close()


def rule(verbs, resources, groups=("",), **more):
    found = {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
    return {**found, **more}


async def grant(api, name, *rules, user="bob"):
    await api.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding(name, name, user))


def binding(name, role, user="bob", kind="ClusterRole"):
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


async def as_bob(api, method, path, body=None, **headers):
    return await api.call(
        method, path, body, headers={"authorization": "Bearer bob-token"} | headers
    )


# -- granting ------------------------------------------------------------------------------------


MANY = [rule(["get"], [f"r{n}"]) for n in range(3000)]
WIDE = rule([f"v{n}" for n in range(2000)], [f"q{n}" for n in range(2000)])


@pytest.mark.parametrize(
    "wanted", [MANY[1500:], [WIDE], [*MANY[:10], WIDE]], ids=["many", "wide", "both"]
)
async def test_rules_without_number_are_not_compared_for_ever(rbac, monkeypatch, wanted):
    """As many as can be sent would keep the event loop for minutes."""
    await grant(rbac, "holder", rule(["create"], ["clusterroles"], [GROUP]), *MANY)
    threads = spy(monkeypatch, "bayplan.apiserver.escalation._missing")
    owned = rbac.server.backend.authorizer.rules(User("bob"), "")

    refused = await as_bob(
        rbac, "POST", f"{RBAC}/clusterroles", {"metadata": {"name": "x"}, "rules": wanted}
    )
    with at_most(200):
        assert escalation._missing(owned, wanted)

    assert 403 == refused.status
    assert "not currently held" in refused.body["message"]
    assert threading.get_ident() not in threads[:1]


async def test_a_few_hundred_rules_can_be_granted_by_who_has_them(rbac):
    few = MANY[:400]
    await grant(rbac, "holder", rule(["create"], ["clusterroles"], [GROUP]), *few)

    await as_bob(rbac, "POST", f"{RBAC}/clusterroles", {"metadata": {"name": "x"}, "rules": few})
    wider = {"metadata": {"name": "y"}, "rules": [*few, rule(["get"], ["secrets"])]}
    refused = await as_bob(rbac, "POST", f"{RBAC}/clusterroles", wider)

    assert 400 == len((await rbac.ok("GET", f"{RBAC}/clusterroles/x"))["rules"])
    assert refused.body["message"].endswith(
        'held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


async def test_who_may_bind_does_not_become_an_admin(rbac):
    await grant(rbac, "binder", rule(["create", "patch"], ["clusterrolebindings"], [GROUP]))

    made = await as_bob(rbac, "POST", f"{RBAC}/clusterrolebindings", binding("x", "cluster-admin"))
    applied = await as_bob(
        rbac,
        "PATCH",
        f"{RBAC}/clusterrolebindings/x?fieldManager=b",
        {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRoleBinding", **binding("x", "edit")},
        **APPLY,
    )

    assert (403, 403) == (made.status, applied.status)
    assert made.body["message"] == (
        'clusterrolebindings.rbac.authorization.k8s.io "x" is forbidden: user "bob" '
        '(groups=["crew" "system:authenticated"]) is attempting to grant RBAC permissions not '
        'currently held:\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n'
        '{NonResourceURLs:["*"], Verbs:["*"]}'
    )


@pytest.mark.parametrize(
    ("verb", "resource", "names", "status"),
    [
        pytest.param("bind", "clusterroles", ["edit"], 201, id="may bind this role"),
        pytest.param("bind", "clusterroles", ["view"], 403, id="may bind another"),
        pytest.param("escalate", "clusterroles", [], 403, id="escalate is not bind"),
    ],
)
async def test_the_verb_bind(rbac, verb, resource, names, status):
    create = rule(["create"], ["clusterrolebindings"], [GROUP])
    more = {"resourceNames": names} if names else {}
    await grant(rbac, "binder", create, rule([verb], [resource], [GROUP], **more))

    answer = await as_bob(rbac, "POST", f"{RBAC}/clusterrolebindings", binding("x", "edit"))

    assert status == answer.status, answer.body


async def test_a_binding_to_a_role_that_is_missing_is_404(rbac):
    await grant(rbac, "binder", rule(["create"], ["rolebindings"], [GROUP]))

    path = f"{RBAC}/namespaces/default/rolebindings"
    answer = await as_bob(rbac, "POST", path, binding("x", "nothing", kind="Role"))

    assert (404, "NotFound") == (answer.status, answer.body["reason"])


async def test_a_role_holds_no_more_than_its_writer_has(rbac):
    write = rule(["create", "update", "patch", "get"], ["roles"], [GROUP])
    await grant(rbac, "writer", write, rule(["get", "list"], ["pods", "*/log"]))
    path = f"{RBAC}/namespaces/default/roles"
    mine = {"metadata": {"name": "mine"}, "rules": [rule(["get"], ["pods", "pods/log"])]}
    more = {"metadata": {"name": "more"}, "rules": [rule(["get"], ["secrets", "pods"])]}

    allowed = await as_bob(rbac, "POST", path, mine)
    refused = await as_bob(rbac, "POST", path, more)
    raised = await as_bob(rbac, "PATCH", f"{path}/mine", {"rules": more["rules"]})
    harmless = await as_bob(rbac, "PATCH", f"{path}/mine", {"metadata": {"finalizers": ["a/b"]}})

    assert (201, 403, 403, 200) == tuple(
        answer.status for answer in (allowed, refused, raised, harmless)
    )
    assert '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}' in refused.body["message"]


async def test_the_verb_escalate(rbac):
    write = rule(["create", "escalate"], ["clusterroles"], [GROUP])
    await grant(rbac, "writer", write)
    everything = {"metadata": {"name": "x"}, "rules": [rule(["*"], ["*"], ["*"])]}

    assert 201 == (await as_bob(rbac, "POST", f"{RBAC}/clusterroles", everything)).status


async def test_an_aggregation_rule_needs_everything(rbac):
    await grant(rbac, "writer", rule(["create"], ["clusterroles"], [GROUP]))
    role = {
        "metadata": {"name": "x"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    }

    answer = await as_bob(rbac, "POST", f"{RBAC}/clusterroles", role)

    assert 403 == answer.status
    assert "cluster-admin privileges to use the aggregationRule" in answer.body["message"]


async def test_a_role_of_a_billion_permissions_is_refused_quickly(rbac):
    await grant(rbac, "writer", rule(["create"], ["clusterroles"], [GROUP]))
    many = [f"x{n}" for n in range(1000)]
    role = {"metadata": {"name": "x"}, "rules": [rule(many, many, many)]}

    assert 403 == (await as_bob(rbac, "POST", f"{RBAC}/clusterroles", role)).status


# -- create on update ----------------------------------------------------------------------------


async def test_apply_and_put_do_not_create_without_create(rbac):
    await grant(
        rbac,
        "changer",
        rule(["patch", "update", "get"], ["configmaps"]),
        rule(["patch", "update", "get"], ["leases"], ["coordination.k8s.io"]),
    )
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    applied = configmap("x") | {"apiVersion": "v1", "kind": "ConfigMap"}

    by_apply = await as_bob(rbac, "PATCH", f"{CONFIGMAPS}/x?fieldManager=b", applied, **APPLY)
    by_put = await as_bob(rbac, "PUT", f"{leases}/x", {"metadata": {"name": "x"}, "spec": {}})

    assert (403, 403) == (by_apply.status, by_put.status)
    assert 'User "bob" cannot create resource "configmaps"' in by_apply.body["message"]
    await rbac.ok("POST", CONFIGMAPS, configmap("x"))
    again = await as_bob(
        rbac, "PATCH", f"{CONFIGMAPS}/x?fieldManager=b&force=true", applied, **APPLY
    )
    assert 200 == again.status


# -- impersonation -------------------------------------------------------------------------------


async def whoami(api, **headers):
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return await api.call(
        "POST", f"{REVIEWS}/selfsubjectreviews", {"kind": "SelfSubjectReview"}, headers=named
    )


async def test_who_one_is_has_a_time_and_no_spec(rbac):
    answer = await whoami(rbac)

    assert {"kind", "apiVersion", "metadata", "status"} == set(answer.body)
    assert ["creationTimestamp"] == list(answer.body["metadata"])


async def test_an_admin_acts_as_somebody_else_and_only_that(rbac):
    answer = await whoami(rbac, impersonate_user="ann")
    secrets = await rbac.call("GET", "/api/v1/secrets", headers={"impersonate-user": "ann"})

    info = answer.body["status"]["userInfo"]
    assert ("ann", ["system:authenticated"]) == (info["username"], info["groups"])
    assert 403 == secrets.status


async def test_a_service_account_gets_its_groups(rbac):
    answer = await whoami(rbac, impersonate_user="system:serviceaccount:default:b")

    expected = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert expected == answer.body["status"]["userInfo"]["groups"]


async def test_extra_values_and_uid_are_taken_over(rbac):
    answer = await whoami(
        rbac, impersonate_user="ann", impersonate_uid="7", **{"impersonate-extra-a%2fb": "c"}
    )

    info = answer.body["status"]["userInfo"]
    assert ("7", {"a/b": ["c"]}) == (info["uid"], info["extra"])


@pytest.mark.parametrize(
    ("rules", "headers", "status"),
    [
        pytest.param([], {"impersonate-user": "admin"}, 403, id="no right"),
        pytest.param(
            [rule(["impersonate"], ["users"], resourceNames=["ann"])],
            {"impersonate-user": "ann"},
            201,
            id="this user",
        ),
        pytest.param(
            [rule(["impersonate"], ["users"])],
            {"impersonate-user": "ann", "impersonate-group": "system:masters"},
            403,
            id="a user but no group",
        ),
        pytest.param(
            [rule(["impersonate"], ["users"])],
            {"impersonate-user": "system:serviceaccount:default:b"},
            403,
            id="a service account is not a user",
        ),
        pytest.param([], {"impersonate-group": "system:masters"}, 400, id="a group without user"),
    ],
)
async def test_who_may_act_as_whom(rbac, rules, headers, status):
    await grant(rbac, "actor", *rules)

    answer = await as_bob(
        rbac, "POST", f"{REVIEWS}/selfsubjectreviews", {"kind": "SelfSubjectReview"}, **headers
    )

    assert status == answer.status, answer.body


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?fieldSelector=metadata.name%3Dx", 200),
        ("?watch=1&timeoutSeconds=0&fieldSelector=metadata.name%3Dx", 200),
        ("?fieldSelector=metadata.name%3Dy", 403),
        ("?fieldSelector=metadata.name!%3Dx", 403),
        ("", 403),
    ],
)
async def test_a_list_of_one_name_counts_as_that_name(rbac, query, status):
    named = rule(["list", "watch"], ["configmaps"], resourceNames=["x"])
    await grant(rbac, "named", named)

    if "watch" in query:
        stream = await rbac.watch(
            f"{CONFIGMAPS}{query}", headers={"authorization": "Bearer bob-token"}
        )
        found = stream.status
        await stream.leave()
    else:
        found = (await as_bob(rbac, "GET", f"{CONFIGMAPS}{query}")).status

    assert status == found


async def test_system_priority_classes_stay(api):
    path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"

    answer = await api.call("DELETE", path)

    assert 403 == answer.status
    assert "this is a system priority class and cannot be deleted" in answer.body["message"]


# -- service account tokens ----------------------------------------------------------------------


async def account(api, name="b"):
    return await api.ok("POST", ACCOUNTS, {"metadata": {"name": name}})


async def token_for(api, name="b", **spec):
    issued = await api.ok("POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
    return issued["status"]["token"]


async def status_with(api, token):
    headers = {"authorization": f"Bearer {token}"}
    body = {"kind": "SelfSubjectReview"}
    return (await api.call("POST", f"{REVIEWS}/selfsubjectreviews", body, headers=headers)).status


def claims(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


async def test_a_token_is_a_jwt_that_says_whose_it_is(rbac, clock):
    made = await account(rbac)

    found = claims(await token_for(rbac, expirationSeconds=600, audiences=["a", "b"]))

    assert int(clock.now) + 600 == found["exp"]
    assert ["a", "b"] == found["aud"]
    assert "system:serviceaccount:default:b" == found["sub"]
    expected = {"name": "b", "uid": made["metadata"]["uid"]}
    assert expected == found["kubernetes.io"]["serviceaccount"]


async def test_a_token_expires(rbac, clock):
    await account(rbac)
    token = await token_for(rbac, expirationSeconds=600)
    assert 201 == await status_with(rbac, token)

    clock.now += 600 + 61

    assert 401 == await status_with(rbac, token)


async def test_a_token_goes_with_its_account(rbac):
    await account(rbac)
    token = await token_for(rbac)
    await rbac.ok("DELETE", f"{ACCOUNTS}/b")
    gone = await status_with(rbac, token)
    await account(rbac)

    assert (401, 401) == (gone, await status_with(rbac, token)), "another one of the same name"


async def test_a_token_goes_with_the_pod_it_is_bound_to(rbac):
    await account(rbac)
    await rbac.ok("POST", PODS, pod("p", serviceAccountName="b"))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = await token_for(rbac, boundObjectRef=bound)
    before = await status_with(rbac, token)
    await rbac.ok("DELETE", f"{PODS}/p")

    assert (201, 401) == (before, await status_with(rbac, token))


async def test_a_token_for_others_is_not_for_this_server(rbac):
    await account(rbac)
    token = await token_for(rbac, audiences=["vault"])
    body = {"spec": {"token": token, "audiences": ["vault", "other"]}}

    reviewed = await rbac.ok("POST", f"{REVIEWS}/tokenreviews", body)

    assert 401 == await status_with(rbac, token)
    assert ["vault"] == reviewed["status"]["audiences"]


@pytest.mark.parametrize("alg", ["none", "HS256", "ES256"])
async def test_a_forged_token_is_refused(rbac, alg):
    await account(rbac)
    head, body, signature = (await token_for(rbac)).split(".")
    new_head = base64.urlsafe_b64encode(json.dumps({"alg": alg}).encode()).decode().rstrip("=")
    other = base64.urlsafe_b64encode(b'{"sub":"admin"}').decode().rstrip("=")

    for forged in (
        f"{new_head}.{body}.",
        f"{new_head}.{body}.{signature}",
        f"{head}.{other}.{signature}",
        f"{head}.{body}.{signature}==",
    ):
        assert 401 == await status_with(rbac, forged)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"expirationSeconds": 599}, 422),
        ({"expirationSeconds": 2**32 + 1}, 422),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}, 404),
        ({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}, 400),
        ({"boundObjectRef": {}}, 400),
    ],
)
async def test_what_a_token_request_may_not_ask(rbac, spec, status):
    await account(rbac)

    answer = await rbac.call("POST", f"{ACCOUNTS}/b/token", {"spec": spec})

    assert status == answer.status, answer.body


@pytest.mark.parametrize(
    ("metadata", "status", "text"),
    [
        ({"name": "c"}, 422, "must match the service account name if specified"),
        ({"name": "b", "namespace": "default"}, 201, ""),
        ({"namespace": "other"}, 400, "does not match the namespace sent on the request"),
        ({"uid": "another"}, 409, "the UID in the token request (another) does not match"),
    ],
    ids=["another name", "its own", "another namespace", "another uid"],
)
async def test_a_token_request_is_about_the_account_of_its_path(rbac, metadata, status, text):
    await account(rbac)

    answer = await rbac.call("POST", f"{ACCOUNTS}/b/token", {"metadata": metadata, "spec": {}})

    assert status == answer.status
    assert text in answer.body.get("message", "")


async def test_a_token_says_what_it_is_bound_to(rbac):
    await account(rbac)
    secret = await rbac.ok("POST", SECRETS, {"metadata": {"name": "s"}})
    node = await rbac.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    await rbac.ok("POST", PODS, pod("here", serviceAccountName="b", nodeName="n"))
    await rbac.ok("POST", PODS, pod("lost", serviceAccountName="b", nodeName="none"))

    async def bound(kind, name):
        wanted = {"kind": kind, "apiVersion": "v1", "name": name}
        return claims(await token_for(rbac, boundObjectRef=wanted))["kubernetes.io"]

    expected = {"name": "n", "uid": node["metadata"]["uid"]}
    assert {"name": "s", "uid": secret["metadata"]["uid"]} == (await bound("Secret", "s"))["secret"]
    assert expected == (await bound("Node", "n"))["node"]
    here, lost = await bound("Pod", "here"), await bound("Pod", "lost")
    assert ("here", expected) == (here["pod"]["name"], here["node"])
    assert ("lost", "none") == (lost["pod"]["name"], lost["node"]["name"])


@pytest.mark.parametrize(
    ("account_of_pod", "uid", "status", "text"),
    [
        ("default", "", 400, "pod running with different serviceaccount name"),
        ("b", "another", 409, "the UID in the bound object reference (another) does not match"),
    ],
    ids=["of another account", "another of that name"],
)
async def test_a_token_is_not_bound_to_what_is_not_meant(rbac, account_of_pod, uid, status, text):
    await account(rbac)
    await rbac.call("POST", ACCOUNTS, {"metadata": {"name": "default"}})
    await rbac.ok("POST", PODS, pod("p", serviceAccountName=account_of_pod))
    wanted = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid}

    answer = await rbac.call("POST", f"{ACCOUNTS}/b/token", {"spec": {"boundObjectRef": wanted}})

    assert status == answer.status
    assert text in answer.body["message"]


async def test_a_token_that_is_only_tried_is_none(rbac, clock):
    await account(rbac)
    clock.now = 1_800_000_000.0

    issued = await rbac.ok("POST", f"{ACCOUNTS}/b/token?dryRun=All", {"spec": {}})

    assert ("", "2027-01-15T09:00:00Z") == (
        issued["status"]["token"],
        issued["status"]["expirationTimestamp"],
    )
    assert 3600 == issued["spec"]["expirationSeconds"]


async def test_others_can_verify_tokens(rbac):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    await account(rbac)
    head, body, signature = (await token_for(rbac)).split(".")
    found = await rbac.ok("GET", "/.well-known/openid-configuration")
    (key,) = (await rbac.ok("GET", "/openid/v1/jwks"))["keys"]

    def number(text):
        return int.from_bytes(base64.urlsafe_b64decode(text + "=="), "big")

    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1())
    raw = base64.urlsafe_b64decode(signature + "==")
    halves = (int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    der = utils.encode_dss_signature(*halves)
    public.public_key().verify(der, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
    assert found["issuer"] == claims(f".{body}.")["iss"]
    assert found["jwks_uri"].endswith("/openid/v1/jwks")


async def test_a_certificate_request_says_all_about_its_maker(rbac):
    headers = {
        "impersonate-user": "ann",
        "impersonate-uid": "abc123",
        "impersonate-extra-team": "blue",
    }
    body = {
        "metadata": {"name": "csr"},
        "spec": {
            "request": CSR,
            "signerName": "example.com/signer",
            "usages": ["digital signature"],
            "uid": "forged",
        },
    }
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    groups = {**headers, "impersonate-group": "system:masters"}

    made = await rbac.call("POST", path, body, headers=groups)

    assert 201 == made.status, made.body
    assert ("ann", "abc123") == (made.body["spec"]["username"], made.body["spec"]["uid"])
    assert {"team": ["blue"]} == made.body["spec"]["extra"]


CERTIFICATES = "certificates.k8s.io"


@pytest.mark.parametrize(
    ("verbs", "signer", "approval", "status"),
    [
        pytest.param([], "", 403, 403, id="the subresource alone"),
        pytest.param(["approve"], "kubernetes.io/kube-apiserver-client", 200, 403, id="approve"),
        pytest.param(["sign"], "kubernetes.io/kube-apiserver-client", 403, 200, id="sign"),
        pytest.param(["approve", "sign"], "kubernetes.io/*", 200, 200, id="the domain"),
        pytest.param(["approve", "sign"], "kubernetes.io/kubelet-serving", 403, 403, id="another"),
    ],
)
async def test_who_approves_and_signs_for_a_signer(rbac, verbs, signer, approval, status):
    _, text = ask("jane", "crew")
    made = {
        "metadata": {"name": "j"},
        "spec": {
            "request": base64.b64encode(text).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    await rbac.ok("POST", requests, made)
    parts = [f"certificatesigningrequests/{each}" for each in ("approval", "status")]
    rules = [rule(["patch"], parts, [CERTIFICATES])]
    if signer:
        rules.append(rule(verbs, ["signers"], [CERTIFICATES], resourceNames=[signer]))
    await grant(rbac, "signing", *rules)
    said = {"status": "True", "reason": "r", "message": "m"}
    approved = {"status": {"conditions": [{"type": "Approved", **said}]}}
    failed = {"status": {"conditions": [{"type": "Failed", **said}]}}

    signs = await as_bob(rbac, "PATCH", f"{requests}/j/status?dryRun=All", failed)
    approves = await as_bob(rbac, "PATCH", f"{requests}/j/approval?dryRun=All", approved)

    assert (approval, status) == (approves.status, signs.status), (approves.body, signs.body)
