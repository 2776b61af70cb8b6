"""Certificates of clients: whom one stands for, and signing one that was asked for.

The rules of the well-known signers are upstream's; what breaks them is a `RequestRefused`, which
becomes the request's `Failed` condition.
"""

from __future__ import annotations

import datetime
import hashlib
import warnings
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.api.user import User
from bayplan.errors import BayplanError

CLIENT, KUBELET = (
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/kube-apiserver-client-kubelet",
)
SERVING, LEGACY = "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET, SERVING, LEGACY)
LONGEST = 365 * 24 * 3600
BACKDATE = datetime.timedelta(minutes=5)
NODES = "system:nodes"
_BASIC = {"digital signature", "key encipherment"}
_KEY_USAGES = {
    "content commitment",
    "data encipherment",
    "digital signature",
    "key agreement",
    "key encipherment",
    "signing",
}
_EXTENDED = {
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
}


class RequestRefused(BayplanError):
    """A certificate that its signer does not give."""


@lru_cache(maxsize=1024)
def peer_user(certificate: bytes) -> User | None:
    """Whom a verified certificate (DER) stands for: its common name and organizations.

    As in Go the last common name counts, and an empty one is nobody's.
    """
    with warnings.catch_warnings(action="ignore"):  # names longer than X.520 allows
        subject = x509.load_der_x509_certificate(certificate).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        return None
    groups = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    mark = f"X509SHA256={hashlib.sha256(certificate).hexdigest()}"
    extra = (("authentication.kubernetes.io/credential-id", (mark,)),)
    return User(str(names[-1].value), (*groups, "system:authenticated"), "", extra)


def sign(
    request: bytes,
    signer: str,
    usages: list[str],
    seconds: int | None,
    authority: tuple[bytes, bytes],
    now: datetime.datetime,
) -> bytes:
    """Sign a request (PEM) with an authority's certificate and key (PEM); raises RequestRefused."""
    try:
        asked = x509.load_pem_x509_csr(request)
    except ValueError as error:
        raise RequestRefused(f"unable to parse csr: {error}") from error
    _check(asked, signer, set(usages))
    issuer = x509.load_pem_x509_certificate(authority[0])
    key = serialization.load_pem_private_key(authority[1], None)
    assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    public = asked.public_key()
    lasting = datetime.timedelta(seconds=min(seconds or LONGEST, LONGEST))
    builder = (
        x509.CertificateBuilder()
        .subject_name(asked.subject)
        .issuer_name(issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(min(now + lasting, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    if _KEY_USAGES & set(usages):
        builder = builder.add_extension(_key_usage(set(usages)), critical=True)
    wanted = [_EXTENDED[each] for each in usages if each in _EXTENDED]
    if wanted:
        builder = builder.add_extension(x509.ExtendedKeyUsage(wanted), critical=False)
    names = _alternatives(asked)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def _alternatives(asked: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        found = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return list(found.value)


def _key_usage(usages: set[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=bool(usages & {"digital signature", "signing"}),
        content_commitment="content commitment" in usages,
        key_encipherment="key encipherment" in usages,
        data_encipherment="data encipherment" in usages,
        key_agreement="key agreement" in usages,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _check(asked: x509.CertificateSigningRequest, signer: str, usages: set[str]) -> None:
    """Refuse what a well-known signer does not sign."""
    if signer == LEGACY:
        return
    auth = "server auth" if signer == SERVING else "client auth"
    if auth not in usages or not usages <= {*_BASIC, auth}:
        raise RequestRefused(
            "usages did not match" if signer == CLIENT else f"usages did not match {sorted(usages)}"
        )
    if signer == CLIENT:
        return
    subject, names = asked.subject, _alternatives(asked)
    groups = [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    common = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if groups != [NODES]:
        raise RequestRefused(f"subject organization is not {NODES}")
    if not common or not common[-1].startswith("system:node:"):  # the one that counts
        raise RequestRefused("subject common name does not begin with system:node:")
    if signer == KUBELET and names:
        raise RequestRefused("DNS subjectAltNames are not allowed")
    if signer == SERVING and not names:
        raise RequestRefused("DNS or IP subjectAltName is required")
