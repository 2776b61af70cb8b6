"""ClusterTrustBundles, PodCertificateRequests and StorageVersionMigrations, as the real server.

One list of requests is sent to kube-apiserver and to ours as that release; status and object, or
the message of a refusal, must be the same. They are served since 1.37: KUBE_VERSION=1.37.1.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.conformance.fuzz import minor
from bayplan.testing.servers import kube_version, start_embedded, start_kube
from tests.kube.twins import Connection, without_managers

pytestmark = pytest.mark.kube
BUNDLES = "/apis/certificates.k8s.io/v1/clustertrustbundles"
ASKED = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"
MOVES = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER
KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime.now(UTC).replace(microsecond=0)
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
TIME = "%Y-%m-%dT%H:%M:%SZ"


def certificate(*, ca: bool, hours: int = 2, key: Any = KEY) -> str:
    made = x509.CertificateBuilder(
        NAME, NAME, key.public_key(), 7, NOW, NOW + timedelta(hours=hours)
    ).add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return made.sign(KEY, hashes.SHA256()).public_bytes(PEM).decode()


def stub() -> str:
    made = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(KEY, hashes.SHA256())
    return base64.b64encode(made.public_bytes(DER)).decode()


AUTHORITY, LEAF, STUB = certificate(ca=True), certificate(ca=False), stub()


def bundle(name: str, text: str, **spec: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"trustBundle": text, **spec}}


def asked(name: str, **spec: Any) -> Any:
    given = {"signerName": "example.com/s", "stubPKCS10Request": STUB}
    for who in ("pod", "serviceAccount", "node"):
        given |= {f"{who}Name": "n", f"{who}UID": "u"}
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


def condition(kind: str, status: str = "True") -> Any:
    time = {"lastTransitionTime": NOW.strftime(TIME)}
    return {"type": kind, "status": status, "reason": "R", "message": "m", **time}


def issued(**more: Any) -> Any:
    end = NOW + timedelta(hours=2)
    return {
        "status": {
            "conditions": [condition("Issued")],
            "certificateChain": LEAF,
            "notBefore": NOW.strftime(TIME),
            "notAfter": end.strftime(TIME),
            "beginRefreshAt": (end - timedelta(hours=1)).strftime(TIME),
            **more,
        }
    }


def ended(*conditions: Any, **more: Any) -> Any:
    return {"status": {"conditions": list(conditions), **more}}


def move(name: str, **resource: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"resource": resource}}


def bundles():
    yield "POST", BUNDLES, bundle("plain", AUTHORITY)
    yield "POST", BUNDLES, bundle("example.com:s:one", AUTHORITY, signerName="example.com/s")
    yield "POST", BUNDLES, bundle("other", AUTHORITY, signerName="example.com/s")
    yield "POST", BUNDLES, bundle("a:b", AUTHORITY)
    yield "POST", BUNDLES, bundle("example.com:s:", AUTHORITY, signerName="example.com/s")
    yield "POST", BUNDLES, bundle("nodots:s:one", AUTHORITY, signerName="nodots/s")
    yield "POST", BUNDLES, bundle("plain-signer", AUTHORITY, signerName="nothing")
    yield "POST", BUNDLES, bundle("leaf", LEAF)
    yield "POST", BUNDLES, bundle("none", "")
    yield "POST", BUNDLES, bundle("twice", AUTHORITY * 2)
    yield "POST", BUNDLES, bundle("key", AUTHORITY.replace("CERTIFICATE", "THING"))
    yield "POST", BUNDLES, bundle("long", "x" * ((1 << 20) + 1))
    yield "PATCH", f"{BUNDLES}/plain", {"metadata": {"labels": {"a": "b"}}}
    yield "PATCH", f"{BUNDLES}/plain", {"spec": {"trustBundle": "nothing"}}
    yield "PATCH", f"{BUNDLES}/plain", {"spec": {"signerName": "example.com/s"}}
    yield "GET", BUNDLES, None


def certificates():
    yield "POST", ASKED, asked("a")
    yield "POST", ASKED, asked("empty", podName="", podUID="", nodeUID="x" * 129)
    yield "POST", ASKED, asked("signer", signerName="x")
    yield "POST", ASKED, asked("no-signer", signerName="")
    yield "POST", ASKED, asked("short", maxExpirationSeconds=60)
    yield "POST", ASKED, asked("long", signerName="kubernetes.io/s", maxExpirationSeconds=90000)
    yield "POST", ASKED, asked("stub", stubPKCS10Request=base64.b64encode(b"x").decode())
    yield "POST", ASKED, asked("no-stub", stubPKCS10Request="")
    yield "PATCH", f"{ASKED}/a", {"spec": {"podName": "other"}}
    for name in ("b", "c", "d"):
        yield "POST", ASKED, asked(name)
    yield "PATCH", f"{ASKED}/b/status", ended(condition("Odd"))
    yield "PATCH", f"{ASKED}/b/status", ended(condition("Denied", "False"))
    yield "PATCH", f"{ASKED}/b/status", ended(condition("Denied"), condition("Failed"))
    yield "PATCH", f"{ASKED}/b/status", ended(condition("Denied"), certificateChain=LEAF)
    yield "PATCH", f"{ASKED}/b/status", {"status": {"certificateChain": LEAF}}
    yield "PATCH", f"{ASKED}/b/status", ended(condition("Denied"))
    yield "PATCH", f"{ASKED}/b/status", ended(condition("Failed"))
    yield "PATCH", f"{ASKED}/c/status", issued(certificateChain="")
    yield "PATCH", f"{ASKED}/c/status", issued(notBefore=None, beginRefreshAt=None)
    yield "PATCH", f"{ASKED}/c/status", issued(notAfter=NOW.strftime(TIME))
    yield "PATCH", f"{ASKED}/c/status", issued(beginRefreshAt=NOW.strftime(TIME))
    yield "PATCH", f"{ASKED}/c/status", issued()
    yield "GET", f"{ASKED}/c", None


def migrations():
    yield "POST", MOVES, move("a", group="apps", resource="deployments")
    yield "POST", MOVES, move("none")
    yield "POST", MOVES, move("odd", group="Ap ps", resource="De pl")
    yield "PATCH", f"{MOVES}/a", {"spec": {"resource": {"resource": "replicasets"}}}
    yield "PATCH", f"{MOVES}/a/status", {"status": {"resourceVersion": "x"}}
    yield "PATCH", f"{MOVES}/a/status", {"status": {"resourceVersion": "7"}}
    yield "PATCH", f"{MOVES}/a/status", {"status": {"resourceVersion": "8"}}
    yield "PATCH", f"{MOVES}/a/status", ended(condition("Succeeded"), condition("Failed"))
    yield "PATCH", f"{MOVES}/a/status", ended(condition("Succeeded"))
    yield "PATCH", f"{MOVES}/a/status", ended(condition("Succeeded", "False"))
    yield "GET", f"{MOVES}/a", None


def shown(answer: tuple[int, bytes]) -> Any:
    code, text = answer
    if not text.startswith(b"{"):  # of a group that is not served
        return code, text.strip()
    body = json.loads(text)
    if body["kind"] == "Status":
        causes = body.get("details", {}).get("causes")
        return code, body["message"].partition("{")[0], causes and [c["field"] for c in causes]
    if "items" in body:
        return code, [without_managers(item) for item in body["items"]]
    return code, without_managers(body)


@pytest.fixture(scope="module")
def pair():
    version = f"--emulated-version={minor(kube_version())}"
    with start_kube() as real, start_embedded(None, version) as ours:
        connections = Connection(real), Connection(ours)
        yield connections
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("requests", [bundles, certificates, migrations])
def test_answers_are_the_same(pair, requests):
    different = []
    for method, path, body in requests():
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        there, here = (shown(each.ask(method, path, body, media, plain=True)) for each in pair)
        if there != here:
            different.append(f"{method} {path} {str(body)[:200]}: {there} but here {here}")

    assert not different, "\n".join(different)
