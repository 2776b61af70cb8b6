"""Clients that show a certificate, and certificates that are asked for and signed."""

import asyncio
import base64
import datetime
import json
import ssl
import urllib.error
import urllib.request
import warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bayplan.apiserver.certificates import CLIENT, KUBELET, LEGACY, RequestRefused, peer_user, sign
from bayplan.apiserver.serving import Settings, running
from bayplan.controllers.manager import beside, options_for

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def ask(name, *groups, names=()):
    """A key and a request for a certificate of it."""
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    parts.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts))
    if names:
        wanted = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
        builder = builder.add_extension(wanted, critical=False)
    request = builder.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    shown = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return shown, request.public_bytes(pem)


def context(folder, certificate, key):
    made = ssl.create_default_context(cafile=folder / "tls" / "ca.crt")
    if certificate:
        (folder / "client.pem").write_bytes(certificate + key)
        made.load_cert_chain(folder / "client.pem")
    return made


def call(url, method, path, tls, body=None, token=""):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, context=tls, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


async def test_a_certificate_is_asked_for_approved_signed_and_used(tmp_path):
    settings = Settings(data=tmp_path, store="memory", authorization_mode="RBAC")
    key, request = ask("jane", "crew")
    async with running(settings) as served:
        options = options_for(served.authority, served.signing_key)
        names = ["certificatesigningrequest-signing"]
        async with beside(served.server, served.token, names, options):
            certificate = await asyncio.to_thread(signed, served, tmp_path, request)
            who = await asyncio.to_thread(
                call,
                served.url,
                "POST",
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                context(tmp_path, certificate, key),
                {},
            )

    status, review = who
    assert 201 == status
    assert "jane" == review["status"]["userInfo"]["username"]
    assert ["crew", "system:authenticated"] == review["status"]["userInfo"]["groups"]


def signed(served, folder, request):
    """Create and approve a request; return the certificate once it is there."""
    tls = context(folder, b"", b"")
    spec = {
        "request": base64.b64encode(request).decode(),
        "signerName": CLIENT,
        "usages": ["client auth"],
    }
    body = {"metadata": {"name": "jane"}, "spec": spec}
    status, made = call(served.url, "POST", CSRS, tls, body, served.token)
    assert 201 == status, made
    made["status"] = {
        "conditions": [
            {"type": "Approved", "status": "True", "reason": "Test", "message": "by a test"}
        ]
    }
    status, made = call(served.url, "PUT", f"{CSRS}/jane/approval", tls, made, served.token)
    assert 200 == status, made
    watch = f"{served.url}{CSRS}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Djane"
    request = urllib.request.Request(watch, headers={"Authorization": f"Bearer {served.token}"})
    with urllib.request.urlopen(request, context=tls, timeout=60) as lines:
        for line in lines:
            found = json.loads(line)["object"].get("status", {}).get("certificate")
            if found:
                return base64.b64decode(found)
    raise AssertionError("the watch ended without a certificate")


async def refusal(served, tls, page, *offered):
    """Try to open a websocket; return the status that it is refused with."""
    try:
        async with connect(
            served.url.replace("https", "wss")
            + "/api/v1/namespaces/default/pods/p/exec?command=ls",
            ssl=tls,
            origin=page,
            subprotocols=["v5.channel.k8s.io", *offered],
            proxy=None,
        ):
            raise AssertionError("there is no such pod")
    except InvalidStatus as refused:
        return refused.response.status_code


async def test_a_certificate_opens_websockets_but_not_for_pages_of_others(tmp_path):
    settings = Settings(data=tmp_path, store="memory")
    key, request = ask("jane", "crew")
    async with running(settings) as served:
        options = options_for(served.authority, served.signing_key)
        names = ["certificatesigningrequest-signing"]
        async with beside(served.server, served.token, names, options):
            certificate = await asyncio.to_thread(signed, served, tmp_path, request)
        tls = context(tmp_path, certificate, key)
        bearer = "base64url.bearer.authorization.k8s.io."
        good, bad = (
            bearer + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
            for token in (served.token, "guessed")
        )
        found = {
            "a program": await refusal(served, tls, None),
            "its own page": await refusal(served, tls, served.url),
            "another's page": await refusal(served, tls, "https://evil.example"),
            "a page of no site": await refusal(served, tls, "null"),
            "another's, guessing": await refusal(served, tls, "https://evil.example", bad),
            "another's, with a token": await refusal(served, tls, "https://evil.example", good),
        }

    let_in, unknown = 404, 401  # the pod that is asked for does not exist
    assert found == {
        "a program": let_in,
        "its own page": let_in,
        "another's page": unknown,
        "a page of no site": unknown,
        "another's, guessing": unknown,
        "another's, with a token": let_in,
    }


async def test_who_shows_no_certificate_needs_a_token(tmp_path):
    async with running(Settings(data=tmp_path, store="memory")) as served:
        tls = context(tmp_path, b"", b"")
        status, _ = await asyncio.to_thread(call, served.url, "GET", "/api/v1/nodes", tls)

    assert 401 == status


@pytest.mark.parametrize(
    ("signer", "usages", "name", "groups", "names", "message"),
    [
        (CLIENT, ["server auth"], "a", [], [], "usages did not match"),
        (KUBELET, ["client auth"], "system:node:a", ["other"], [], "subject organization"),
        (KUBELET, ["client auth"], "a", ["system:nodes"], [], "subject common name"),
        (KUBELET, ["client auth"], "system:node:a", ["system:nodes"], ["x"], "subjectAltNames"),
    ],
)
def test_signers_refuse_what_is_not_theirs(tmp_path, signer, usages, name, groups, names, message):
    _, request = ask(name, *groups, names=names)

    with pytest.raises(RequestRefused, match=message):
        sign(request, signer, usages, None, authority(tmp_path), NOW)


def test_a_signer_looks_at_the_name_that_will_count(tmp_path):
    """A second common name is no way to become somebody else with a kubelet's certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes")]
    parts += [x509.NameAttribute(NameOID.COMMON_NAME, n) for n in ("system:node:a", "admin")]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts))
    request = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    with pytest.raises(RequestRefused, match="subject common name"):
        sign(request, KUBELET, ["client auth"], None, authority(tmp_path), NOW)


def authority(folder):
    from bayplan.apiserver import tls

    files = tls.generate(folder, ["localhost"])
    return files.authority.read_bytes(), files.authority_key.read_bytes()


def test_a_certificate_lasts_as_long_as_asked_and_names_what_was_asked(tmp_path):
    _, request = ask("a", names=["a.example.com"])
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)

    made = sign(request, LEGACY, ["server auth"], 3600, authority(tmp_path), now)

    found = x509.load_pem_x509_certificate(made)
    assert now + datetime.timedelta(hours=1) == found.not_valid_after_utc
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ["a.example.com"] == names.get_values_for_type(x509.DNSName)


def shown(*names, group="dev"):
    """A certificate with these common names, in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    with warnings.catch_warnings(action="ignore"):
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, n, _validate=False) for n in names]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW + datetime.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("names", "user"),
    [
        pytest.param((), None, id="no name"),
        pytest.param(("",), None, id="an empty name"),
        pytest.param(("a",), "a", id="one name"),
        pytest.param(("a", "b"), "b", id="two names, of which Go takes the last"),
        pytest.param(("a", ""), None, id="an empty last name"),
        pytest.param(("x" * 60_000,), "x" * 60_000, id="a name that is too long for X.520"),
        pytest.param(("a\r\nb\0",), "a\r\nb\0", id="a name of several lines"),
    ],
)
def test_whom_a_certificate_stands_for(names, user):
    found = peer_user(shown(*names))

    assert user == (found and found.name)
    assert not found or ("dev", "system:authenticated") == found.groups
