"""Attacks on identity, certificates, tokens and addresses: the same requests to both servers."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.kube.test_security import RBAC, binding, role, rule
from tests.kube.twins import MEDIA, Connection, guarded_twins

pytestmark = pytest.mark.kube
DEFAULT = "/api/v1/namespaces/default"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
CLIENT = "kubernetes.io/kube-apiserver-client"
# What each of these accounts of the namespace default may do.
ACCOUNTS = {
    "actor": [rule(["impersonate"], ["users"])],
    "guide": [rule(["impersonate"], ["serviceaccounts", "groups"])],
    "approver": [
        rule(["update", "patch"], ["certificatesigningrequests/approval"], ["certificates.k8s.io"]),
        rule(["update", "patch"], ["certificatesigningrequests/status"], ["certificates.k8s.io"]),
    ],
    "nobody": [],
    "reader": [rule(["get", "list"], ["pods", "services", "nodes"])],
}


def request(common: str, *organizations: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


def csr(name: str, text: str, signer: str = CLIENT, usages=("client auth",), **spec):
    whole = {"request": base64.b64encode(text.encode()).decode(), "signerName": signer}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {**whole, "usages": list(usages), **spec},
    }


def token(**spec):
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


@pytest.fixture(scope="module")
def twins():
    with guarded_twins(prepare) as both:
        yield both


def prepare(server: Connection) -> None:
    server.tokens = {}
    for name, rules in ACCOUNTS.items():
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        assert server.ask("POST", f"{DEFAULT}/serviceaccounts", account)[0] == 201
        status, made = server.ask("POST", f"{DEFAULT}/serviceaccounts/{name}/token", token())
        assert status == 201
        server.tokens[name] = made["status"]["token"]
        assert server.ask("POST", f"{RBAC}/clusterroles", role(name, rules))[0] == 201
        bound = binding(name, name)
        bound["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
        assert server.ask("POST", f"{RBAC}/clusterrolebindings", bound)[0] == 201
    assert server.ask("POST", CSRS, csr("waiting", PLAIN))[0] == 201
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "reader", "containers": [{"name": "c", "image": "i"}]},
    }
    assert server.ask("POST", f"{DEFAULT}/pods", pod)[0] == 201


PLAIN = request("jane", "crew")
APPROVED = {"type": "Approved", "status": "True", "reason": "x", "message": "y"}
APPROVAL = [{"op": "add", "path": "/status/conditions", "value": [APPROVED]}]
SIGNED = [{"op": "add", "path": "/status/certificate", "value": "AAAA"}]
PODS = f"{DEFAULT}/pods"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
JSON = MEDIA["json"]


def hook(**config):
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "h"},
        "webhooks": [
            {
                "name": "a.example.com",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://localhost:1/"},
                **config,
            }
        ],
    }


def api_service(name: str = "v1.ext.example.com", **spec):
    version, _, group = name.partition(".")
    whole = {"group": group, "version": version, "groupPriorityMinimum": 1, "versionPriority": 1}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {**whole, "service": {"namespace": "default", "name": "x"}, **spec},
    }


def endpoint_slice(address: str, kind: str = "IPv4"):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "s"},
        "addressType": kind,
        "endpoints": [{"addresses": [address]}],
        "ports": [{"port": 443}],
    }


def service(**spec):
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    return {**head, "spec": {"ports": [{"port": 80}], **spec}}


def acting(**headers: str) -> dict[str, str]:
    return {f"Impersonate-{key.replace('_', '-')}": value for key, value in headers.items()}


# Who asks ("" is the administrator), what, and with which headers; nothing of it may be stored.
DRY = "?dryRun=All"
CASES = {
    "a user": ("actor", "POST", SELF, REVIEW, "", acting(User="jane")),
    "an administrator": ("actor", "GET", PODS, None, "", acting(User="admin")),
    "a group too": (
        "actor", "POST", SELF, REVIEW, "", acting(User="jane", Group="system:masters")),
    "a uid too": ("actor", "POST", SELF, REVIEW, "", acting(User="jane", Uid="1")),
    "an extra too": ("actor", "POST", SELF, REVIEW, "", acting(User="jane", Extra_scopes="a")),
    "an account, as a user": (
        "actor", "POST", SELF, REVIEW, "", acting(User="system:serviceaccount:default:reader")),
    "an account": (
        "guide", "POST", SELF, REVIEW, "", acting(User="system:serviceaccount:default:reader")),
    "an odd account": (
        "guide", "POST", SELF, REVIEW, "", acting(User="system:serviceaccount:default:a:b")),
    "an account of another form": (
        "guide", "POST", SELF, REVIEW, "", acting(User="system:serviceaccount:Default:")),
    "anonymous": ("actor", "POST", SELF, REVIEW, "", acting(User="system:anonymous")),
    "a node": ("actor", "POST", SELF, REVIEW, "", acting(User="system:node:n")),
    "unauthenticated ones": (
        "", "POST", SELF, REVIEW, "", acting(User="x", Group="system:unauthenticated")),
    "a coded extra": (
        "", "POST", SELF, REVIEW, "",
        {"Impersonate-User": "x", "Impersonate-Extra-A%2fb%3D": "c"}),
    "masters as somebody": (
        "", "GET", f"{DEFAULT}/secrets", None, "", acting(User="x", Group="system:masters")),
    "only a uid": ("", "GET", PODS, None, "", acting(Uid="1")),
    "a request for masters": (
        "", "POST", CSRS + DRY, csr("m", request("x", "system:masters")), "", {}),
    "a request for a node by another signer": (
        "", "POST", CSRS + DRY, csr("m", request("system:node:n", "system:nodes")), "", {}),
    "a request that is none": ("", "POST", CSRS + DRY, csr("m", "rubbish"), "", {}),
    "a request with another's name": (
        "", "POST", CSRS + DRY, csr("m", PLAIN, username="eve", groups=["system:masters"]), "", {}),
    "a request without a signer": ("", "POST", CSRS + DRY, csr("m", PLAIN, "none"), "", {}),
    "a request without usages": ("", "POST", CSRS + DRY, csr("m", PLAIN, usages=()), "", {}),
    "a request with odd usages": ("", "POST", CSRS + DRY, csr("m", PLAIN, usages=["x"]), "", {}),
    "a request for ten seconds": (
        "", "POST", CSRS + DRY, csr("m", PLAIN, expirationSeconds=10), "", {}),
    "a request by nobody": ("nobody", "POST", CSRS + DRY, csr("m", PLAIN), "", {}),
    "an approval without the signer": (
        "approver", "PATCH", f"{CSRS}/waiting/approval{DRY}", APPROVAL, JSON, {}),
    "a signature without the signer": (
        "approver", "PATCH", f"{CSRS}/waiting/status{DRY}", SIGNED, JSON, {}),
    "an approval through the status": (
        "", "PATCH", f"{CSRS}/waiting/status{DRY}", APPROVAL, JSON, {}),
    "another request in the same": (
        "", "PATCH", f"{CSRS}/waiting{DRY}",
        [{"op": "replace", "path": "/spec/username", "value": "eve"}], JSON, {}),
    "a token by nobody": (
        "nobody", "POST", f"{DEFAULT}/serviceaccounts/reader/token", token(), "", {}),
    "a token for centuries": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token",
        token(expirationSeconds=1 << 33), "", {}),
    "a token of a pod of others": (
        "", "POST", f"{DEFAULT}/serviceaccounts/nobody/token",
        token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"}), "", {}),
    "a token of no pod": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token",
        token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "q"}), "", {}),
    "a token of a map": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token",
        token(boundObjectRef={"kind": "ConfigMap", "apiVersion": "v1", "name": "q"}), "", {}),
    "a token of another namespace": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token",
        {**token(), "metadata": {"namespace": "other"}}, "", {}),
    "a token of nothing": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token", token(boundObjectRef={}), "", {}),
    "a token of a pod of another version": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token?dryRun=All",
        token(boundObjectRef={"kind": "Pod", "apiVersion": "v2", "name": "p"}), "", {}),
    "a token of a pod of another group": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token",
        token(boundObjectRef={"kind": "Pod", "apiVersion": "apps/v1", "name": "p"}), "", {}),
    "a token of an earlier pod": (
        "", "POST", f"{DEFAULT}/serviceaccounts/reader/token",
        token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "1"}),
        "", {}),
    **{
        f"{verb} of {part}": (
            "reader", verb, f"{PODS}/p/{part}?command=id&container=c", None, "", {})
        for part in ("log", "exec", "attach", "portforward", "proxy", "eviction", "binding")
        for verb in ("GET", "POST")
    },
    "a way through a node": (
        "reader", "GET", "/api/v1/nodes/n/proxy/metrics", None, "", {}),
    "a way through a service": (
        "reader", "GET", f"{DEFAULT}/services/kubernetes/proxy/api", None, "", {}),
    "endpoints on loopback": ("", "POST", SLICES + DRY, endpoint_slice("127.0.0.1"), "", {}),
    "endpoints of the cloud": ("", "POST", SLICES + DRY, endpoint_slice("169.254.169.254"), "", {}),
    "endpoints of all": ("", "POST", SLICES + DRY, endpoint_slice("0.0.0.0"), "", {}),
    "endpoints on loopback, six": ("", "POST", SLICES + DRY, endpoint_slice("::1", "IPv6"), "", {}),
    "endpoints, mapped": (
        "", "POST", SLICES + DRY, endpoint_slice("::ffff:127.0.0.1", "IPv6"), "", {}),
    "an external address on loopback": (
        "", "POST", f"{DEFAULT}/services{DRY}", service(externalIPs=["127.0.0.1"]), "", {}),
    "a name that is no name": (
        "", "POST", f"{DEFAULT}/services{DRY}",
        service(type="ExternalName", externalName="a b/c"), "", {}),
    **{
        f"a webhook, {what}": ("", "POST", HOOKS + DRY, hook(**config), "", {})
        for what, config in {
            "plain": {"clientConfig": {"url": "http://localhost/"}},
            "with a user": {"clientConfig": {"url": "https://a:b@localhost/"}},
            "with a query": {"clientConfig": {"url": "https://localhost/?a=b"}},
            "with a fragment": {"clientConfig": {"url": "https://localhost/#a"}},
            "without a host": {"clientConfig": {"url": "https:///a"}},
            "nowhere": {"clientConfig": {}},
            "twice": {"clientConfig": {
                "url": "https://localhost/", "service": {"name": "a", "namespace": "b"}}},
            "with an odd path": {"clientConfig": {
                "service": {"name": "a", "namespace": "b", "path": "a//b"}}},
            "with another authority": {"clientConfig": {
                "url": "https://localhost/", "caBundle": "AAAA"}},
            "too patient": {"timeoutSeconds": 31},
            "impatient": {"timeoutSeconds": 0},
            "with effects": {"sideEffects": "Some"},
            "with too many conditions": {"matchConditions": [
                {"name": f"c{n}", "expression": "true"} for n in range(65)]},
            "with an odd condition": {"matchConditions": [{"name": "c", "expression": "1 +"}]},
        }.items()
    },
    **{
        f"an APIService, {what}": ("", "POST", SERVICES + DRY, given, "", {})
        for what, given in {
            "of another name": {**api_service(), "metadata": {"name": "v1.x.example.com"}},
            "of nowhere": api_service(service={"namespace": "", "name": ""}),
            "of an odd port": api_service(service={"namespace": "a", "name": "b", "port": 70000}),
            "insecure and not": api_service(insecureSkipTLSVerify=True, caBundle="AAAA"),
            "of the core": api_service("v1.", group=""),
        }.items()
    },
    "no default namespace": ("", "DELETE", "/api/v1/namespaces/default", None, "", {}),
    "no system namespace": ("", "DELETE", "/api/v1/namespaces/kube-system", None, "", {}),
}  # fmt: skip
KEPT = ("username", "groups", "extra", "uid")
OWN = "authentication.kubernetes.io/credential-id"


@pytest.mark.parametrize("name", CASES)
def test_both_answer_alike(twins, name):
    who, method, path, body, media, headers = CASES[name]
    answers = []
    for each in twins:
        own = {"Authorization": f"Bearer {each.tokens[who]}"} if who else {}
        answers.append(
            each.ask(
                method, path, body, media or "application/json", {**own, **headers}, plain=True
            )
        )

    (status, theirs), (our_status, ours) = answers
    assert status == our_status, (theirs, ours)
    assert told(theirs) == told(ours)


def told(text: bytes):
    try:
        body = json.loads(text)
    except ValueError:
        return text
    if body.get("kind") == "Status":
        message = body.get("message")
        words = "without impersonating"  # the real one prints a Go struct before it
        return body.get("reason"), words if words in message else message
    user = (body.get("status") or {}).get("userInfo")
    if user is None:
        return body.get("kind")
    user.get("extra", {}).pop(OWN, None)
    return {key: value for key in KEPT if (value := user.get(key))}
