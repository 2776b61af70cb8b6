"""ClusterTrustBundles and PodCertificateRequests (1.37): what one may hold, and who ends one how.

A request never changes. Its signer ends it once: issued with a fitting chain, denied or failed.
"""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, dns1123_subdomain, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    immutable,
    invalid,
    invalid_unshown,
    known,
    not_supported,
    required,
    too_long,
)
from bayplan.apiserver.validation.formats import check
from bayplan.apiserver.validation.groups import validate_conditions
from bayplan.trust import pem_blocks

if TYPE_CHECKING:
    from cryptography import x509

MAX_BUNDLE, MAX_REQUEST, MAX_CHAIN, MAX_NAME, MAX_UID = 1 << 20, 10 << 10, 100 << 10, 253, 128
HOUR, DAY = 3600, 24 * 3600
ENDS = ("Issued", "Denied", "Failed")
_CURVES = ("secp256r1", "secp384r1", "secp521r1")


def validate_signer_name(name: str) -> Causes:
    """A signer is a domain and a path below it."""
    path = "spec.signerName"
    if not name:
        return [required(path)]
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    causes: Causes = [too_long(path, MAX_NAME)] if len(domain) > MAX_NAME else []
    for whole, checker in ((domain, dns1123_label), (rest, dns1123_subdomain)):
        for label in whole.split("."):
            if wrong := checker(label):
                causes.append(invalid(path, whole, f'validating label "{label}": {wrong[0]}'))
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        causes.append(invalid(path, domain, text))
    return causes


def validate_bundle(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    signer = spec.get("signerName") or ""
    causes = _validate_bundle_name(obj["metadata"].get("name", ""), signer)
    if signer:
        causes += validate_signer_name(signer)
    return causes


def _validate_bundle_name(name: str, signer: str) -> Causes:
    if not signer:
        if ":" in name:
            text = 'ClusterTrustBundle without signer name must not have ":" in its name'
            return [invalid("metadata.name", name, text)]
        return check("metadata.name", name, dns1123_subdomain)
    prefix = signer.replace("/", ":") + ":"
    if not name.startswith(prefix):
        text = f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        return [invalid("metadata.name", name, text)]
    wrong = dns1123_subdomain(name.removeprefix(prefix))
    return [invalid("metadata.name", name, text) for text in wrong]


def validate_new_bundle(obj: Object) -> Causes:
    return validate_bundle(obj) + _validate_anchors((obj.get("spec") or {}).get("trustBundle", ""))


def validate_changed_bundle(obj: Object, old: Object) -> Causes:
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    causes = validate_bundle(obj)
    if spec.get("trustBundle", "") != before.get("trustBundle", ""):
        causes += _validate_anchors(spec.get("trustBundle", ""))
    signer = spec.get("signerName", ""), before.get("signerName", "")
    return causes + immutable("spec.signerName", *signer)


def _validate_anchors(text: str) -> Causes:
    """Demand certificates of authorities, each once, and nothing else."""
    path = "spec.trustBundle"
    if len(text.encode()) > MAX_BUNDLE:
        return [too_long(path, MAX_BUNDLE)]
    wrong: list[str] = []
    seen: dict[str, list[int]] = {}
    for i, (kind, body) in enumerate(pem_blocks(text)):
        if kind != "CERTIFICATE":
            wrong.append(f"entry {i} has bad block type: {kind}")
        elif ":" in body:
            wrong.append(f"entry {i} has PEM block headers")
        elif (found := _certificate(body)) is None:
            wrong.append(f"entry {i} does not parse as X.509")
        elif not _is_authority(found):
            wrong.append(f"entry {i} does not have the CA bit set")
        else:
            seen.setdefault("".join(body.split()), []).append(i)
    if not wrong and not seen:
        wrong.append("at least one trust anchor must be provided")
    if not wrong:
        twice = [" ".join(map(str, where)) for where in seen.values() if len(where) > 1]
        wrong += [f"duplicate trust anchor (indices [{where}])" for where in twice]
    return [invalid(path, "<value omitted>", detail) for detail in wrong]


def _certificate(body: str) -> x509.Certificate | None:
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(b64decode("".join(body.split()), validate=True))
    except ValueError:
        return None


def _is_authority(certificate: x509.Certificate) -> bool:
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return found.value.ca


def validate_pod_certificate_request(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    signer = spec.get("signerName", "")
    causes = validate_signer_name(signer)
    for key in spec.get("unverifiedUserAnnotations") or {}:
        if "/" not in key or qualified_name(key.lower()):
            text = 'must be a domain-prefixed key (such as "acme.io/foo")'
            causes.append(invalid("spec.unverifiedUserAnnotations", key.lower(), text))
    for who in ("pod", "serviceAccount", "node"):
        name, uid = f"{who}Name", f"{who}UID"
        causes += check(f"spec.{name}", spec.get(name, ""), dns1123_subdomain)
        if not spec.get(uid):
            causes.append(invalid(f"spec.{uid}", "", "must not be empty"))
        elif len(spec[uid]) > MAX_UID:
            causes.append(too_long(f"spec.{uid}", MAX_UID))
    seconds = spec.get("maxExpirationSeconds")
    if seconds is None:
        return [*causes, required("spec.maxExpirationSeconds", "must be set")]
    host = signer.partition("/")[0]
    longest = DAY if f".{host}".endswith(".kubernetes.io") else 91 * DAY
    if not HOUR <= seconds <= longest:
        text = f"must be in the range [{HOUR}, {longest}]"
        causes.append(invalid("spec.maxExpirationSeconds", seconds, text))
    return causes + _validate_stub(spec.get("stubPKCS10Request") or "")


def _validate_stub(given: str) -> Causes:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    path, data = "spec.stubPKCS10Request", b64decode(given)
    if not data:
        text = (
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        )
        return [invalid_unshown("spec", text)]
    if len(data) > MAX_REQUEST:
        return [too_long(path, MAX_REQUEST)]
    try:
        asked = x509.load_der_x509_csr(data)
        key: Any = asked.public_key()
        signed = asked.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        return [invalid_unshown(path, "must be a valid PKCS#10 CSR")]
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name not in _CURVES:
        text = "elliptic public keys must use curve P256, P384, or P521"
        return [invalid(path, f"curve {key.curve.name}", text)]
    if isinstance(key, rsa.RSAPublicKey) and key.key_size not in (3072, 4096):
        text = "RSA keys must have modulus size 3072 or 4096"
        return [invalid(path, f"{key.key_size}-bit modulus", text)]
    if not isinstance(key, (ec.EllipticCurvePublicKey, rsa.RSAPublicKey, ed25519.Ed25519PublicKey)):
        text = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
        return [invalid_unshown(path, text)]
    return [] if signed else [invalid_unshown(path, "invalid signature")]


def validate_ended(obj: Object, old: Object) -> Causes:
    """What may become of a request's status."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    conditions = status.get("conditions") or []
    causes = _validate_ends(conditions) + validate_conditions("status.conditions", conditions)
    if causes:
        return causes
    if before.get("conditions"):
        text = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if status == before else [invalid_unshown("status", text)]
    end = conditions[0]["type"] if conditions else ""
    if end in ("Denied", "Failed"):
        text = (
            "non-condition status fields must be empty when denying or failing the "
            "PodCertificateRequest"
        )
        more = {key for key, value in status.items() if value} - {"conditions"}
        return [invalid_unshown("status", text)] if more else []
    if end:
        return _validate_issued(status, old.get("spec") or {})
    text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    return [] if status == before else [invalid_unshown("status", text)]


def _validate_ends(conditions: list[Object]) -> Causes:
    causes: Causes = []
    ended = False
    for i, each in enumerate(conditions):
        path, kind = f"status.conditions.[{i}]", each.get("type", "")
        if kind not in ENDS:
            causes.append(not_supported(f"{path}.type", kind, ENDS))
            continue
        if ended:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            causes.append(invalid(f"{path}.type", kind, text))
        ended = True
        causes += known(f"{path}.status", each.get("status", ""), ["True"])
    return causes


def _validate_issued(status: Object, spec: Object) -> Causes:
    path, chain = "status.certificateChain", status.get("certificateChain") or ""
    if len(chain.encode()) > MAX_CHAIN:
        return [too_long(path, MAX_CHAIN)]
    blocks = list(pem_blocks(chain))
    if not blocks:
        text = "issued certificate chain must contain at least one certificate"
        return [invalid(path, chain, text)]
    if any(kind != "CERTIFICATE" for kind, _ in blocks):
        text = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
        return [invalid(path, chain, text)]
    leaf, *others = [_certificate(body) for _, body in blocks]
    if leaf is None:
        return [invalid(path, chain, "leaf certificate does not parse as valid X.509")]
    if not _same_key(leaf, spec):
        text = "leaf certificate was not issued to the requested public key"
        return [invalid(path, chain, text)]
    if causes := _validate_times(status, spec, leaf):
        return causes
    if None in others:
        text = "intermediate certificate does not parse as valid X.509"
        return [invalid(path, chain, text)]
    return []


def _same_key(leaf: x509.Certificate, spec: Object) -> bool:
    from cryptography import x509

    asked = x509.load_der_x509_csr(b64decode(spec.get("stubPKCS10Request") or ""))
    return bool(asked.public_key() == leaf.public_key())


def _validate_times(status: Object, spec: Object, leaf: x509.Certificate) -> Causes:
    inside = "must be present and in the range [notbefore+10min, notafter-10min]"
    fits = "must be present and consistent with the issued certificate"
    wanted = {"notBefore": fits, "notAfter": fits, "beginRefreshAt": inside}
    missing = [
        required(f"status.{key}", text) for key, text in wanted.items() if not status.get(key)
    ]
    if missing:
        return missing
    begin, end, refresh = (datetime.fromisoformat(status[key]) for key in wanted)
    lifetime = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    longest, some = spec["maxExpirationSeconds"], timedelta(minutes=10)
    rules = (
        ("notBefore", begin == leaf.not_valid_before_utc,
         "must be set to the NotBefore time encoded in the leaf certificate"),
        ("notBefore", abs(begin - datetime.now(UTC)) <= timedelta(minutes=5),
         "must be set to within 5 minutes of kube-apiserver's current time"),
        ("notAfter", end == leaf.not_valid_after_utc,
         "must be set to the NotAfter time encoded in the leaf certificate"),
        ("certificateChain", lifetime >= timedelta(seconds=HOUR),
         "leaf certificate lifetime must be >= 1 hour"),
        ("certificateChain", lifetime <= timedelta(seconds=longest),
         f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"),
        ("beginRefreshAt", refresh >= begin + some,
         "must be at least 10 minutes after status.notBefore"),
        ("beginRefreshAt", refresh <= end - some,
         "must be at least 10 minutes before status.notAfter"),
    )  # fmt: skip
    for key, holds, text in rules:
        if not holds:
            shown = str(lifetime) if key == "certificateChain" else status[key]
            return [invalid(f"status.{key}", shown, text)]
    return []
