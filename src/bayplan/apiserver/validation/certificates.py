"""CertificateSigningRequests: who may write which part of one, and what a part may hold.

A request says who made it and never changes. Approving writes conditions, signing the certificate;
neither path touches what belongs to the other, and whose request is approved cannot be unapproved.
"""

from __future__ import annotations

from base64 import b64decode

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import (
    Causes,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    repeated,
    required,
)

FEWEST_SECONDS = 600
REQUEST, CERTIFICATE = "-----BEGIN CERTIFICATE REQUEST-----", "-----BEGIN CERTIFICATE-----"
DECIDED = ("Approved", "Denied")
USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection",
    "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
    "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth",
    "signing", "timestamping",
)  # fmt: skip


def validate_certificate_request(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = _validate_request(spec.get("request") or "")
    usages = spec.get("usages") or []
    if not usages:
        causes.append(required("spec.usages"))
    again = repeated(usages)
    for i, usage in enumerate(usages):
        if usage not in USAGES:
            causes.append(not_supported(f"spec.usages[{i}]", usage, USAGES))
        elif i in again:
            causes.append(duplicate(f"spec.usages[{i}]", usage))
    signer = spec.get("signerName", "")
    if not signer:
        causes.append(required("spec.signerName"))
    elif "/" not in signer:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        causes.append(invalid("spec.signerName", signer, detail))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < FEWEST_SECONDS:
        detail = f"may not specify a duration less than {FEWEST_SECONDS} seconds (10 minutes)"
        causes.append(invalid("spec.expirationSeconds", seconds, detail))
    return causes


def _validate_request(request: str) -> Causes:
    """Demand a request that can be read and that the holder of its key has signed."""
    text = b64decode(request).decode("utf-8", "replace")
    if REQUEST not in text:
        detail = "PEM block type must be CERTIFICATE REQUEST"
        return [invalid("spec.request", request, detail)]
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        asked = x509.load_pem_x509_csr(text.encode())
        _ = asked.subject, asked.extensions  # what a signer reads of it
        signed = asked.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        return [invalid("spec.request", request, f"x509: {error}")]
    return [] if signed else [invalid("spec.request", request, "x509: the signature is wrong")]


def request_is_immutable(obj: Object, old: Object) -> Causes:
    return immutable("spec", obj.get("spec"), old.get("spec")) + _validate_conditions(obj)


def keep_request(obj: Object, old: Object) -> None:
    obj["spec"] = old.get("spec", {})
    obj["status"] = old.get("status", {})


def keep_certificate(obj: Object, old: Object) -> None:
    """Approval writes conditions and nothing else."""
    conditions = (obj.get("status") or {}).get("conditions")
    obj["status"] = {**(old.get("status") or {}), "conditions": conditions or []}
    if not conditions:
        del obj["status"]["conditions"]


def validate_signing(obj: Object, old: Object) -> Causes:
    """What a signer may not write: decisions, no certificate, or another one than before."""
    causes = _validate_certificate(obj, old) + _validate_conditions(obj)
    for change, kinds in (
        ("add", _decisions(obj) - _decisions(old)),
        ("remove", _decisions(old) - _decisions(obj)),
    ):
        for kind in sorted(kinds):
            text = f'updates may not {change} a condition of type "{kind}"'
            causes.append(forbidden("status.conditions", text))
    return causes


def _decisions(obj: Object) -> set[str]:
    return {kind for each in _conditions(obj) if (kind := each.get("type")) in DECIDED}


def _conditions(obj: Object) -> list[Object]:
    return (obj.get("status") or {}).get("conditions") or []


def _validate_certificate(obj: Object, old: Object) -> Causes:
    found = (obj.get("status") or {}).get("certificate") or ""
    before = (old.get("status") or {}).get("certificate") or ""
    if found == before:
        return []
    if before:
        text = "updates may not modify existing certificate content"
        return [forbidden("status.certificate", text)]
    if CERTIFICATE not in b64decode(found).decode("utf-8", "replace"):
        text = "must contain at least one CERTIFICATE PEM block"
        return [invalid("status.certificate", "<certificate data>", text)]
    return []


def _validate_conditions(obj: Object) -> Causes:
    causes: Causes = []
    for i, each in enumerate(_conditions(obj)):
        path = f"status.conditions[{i}]"
        if not each.get("type"):
            causes.append(required(f"{path}.type"))
        elif each["type"] in (*DECIDED, "Failed") and each.get("status") != "True":
            causes.append(not_supported(f"{path}.status", each.get("status", ""), ["True"]))
    if set(DECIDED) == _decisions(obj):
        last = [each["type"] for each in _conditions(obj) if each.get("type") in DECIDED][-1]
        text = "Approved and Denied conditions are mutually exclusive"
        causes.append(invalid("status.conditions", last, text))
    return causes
