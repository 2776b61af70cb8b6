"""Who may approve and sign certificate requests, and for whom nobody may.

Whoever may write a request's approval needs the verb `approve` on its signer, and whoever writes
its status `sign`; otherwise who may do either for one signer could do it for all, and become any
user. No request for the signer of clients may ask for the group that may do everything. Who says
whom a signer's certificates are trusted by (ClusterTrustBundle) needs `attest`.
"""

from __future__ import annotations

from base64 import b64decode

from bayplan.api.user import User
from bayplan.apiserver.admission.types import CREATE, UPDATE, Attributes, forbidden
from bayplan.apiserver.auth import MASTERS
from bayplan.apiserver.authorization import Action, Authorizer
from bayplan.apiserver.codec import Object

GROUP, RESOURCE = "certificates.k8s.io", "certificatesigningrequests"
BUNDLES, POD_REQUESTS = "clustertrustbundles", "podcertificaterequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
_VERBS = {"approval": "approve", "status": "sign"}


def check(attrs: Attributes, authorizer: Authorizer, user: User) -> None:
    """Raise a 403 if this write of a certificate request is not its writer's to make."""
    if attrs.group != GROUP:
        return
    if attrs.resource == BUNDLES:
        _check_attested(attrs, authorizer, user)
    elif attrs.resource == POD_REQUESTS:
        _check_pod_request(attrs, authorizer, user)
    elif attrs.resource != RESOURCE:
        return
    elif attrs.operation == CREATE:
        _check_subject(attrs)
    elif attrs.operation == UPDATE and (verb := _VERBS.get(attrs.subresource)):
        old = attrs.old or {}
        if verb == "sign" and _signed(attrs.obj) == _signed(old):
            return
        signer = (old.get("spec") or {}).get("signerName", "")
        if not _allowed(authorizer, user, verb, signer):
            raise forbidden(
                attrs, f'user not permitted to {verb} requests with signerName "{signer}"'
            )


def _check_attested(attrs: Attributes, authorizer: Authorizer, user: User) -> None:
    signer = (attrs.obj.get("spec") or {}).get("signerName") or ""
    if attrs.operation not in (CREATE, UPDATE) or not signer:
        return
    if attrs.old is not None and attrs.old.get("spec") == attrs.obj.get("spec"):
        return
    if not _allowed(authorizer, user, "attest", signer):
        raise forbidden(attrs, f'user not permitted to attest for signerName "{signer}"')


def _check_pod_request(attrs: Attributes, authorizer: Authorizer, user: User) -> None:
    old = attrs.old or {}
    if attrs.operation != UPDATE or attrs.subresource != "status":
        return
    if (attrs.obj.get("status") or {}) == (old.get("status") or {}):
        return
    signer = (old.get("spec") or {}).get("signerName", "")
    if not _allowed(authorizer, user, "sign", signer):
        text = f'User "{user.name}" is not permitted to "sign" for signer "{signer}"'
        raise forbidden(attrs, text)


def _signed(obj: Object) -> tuple[object, object]:
    status = obj.get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []


def _allowed(authorizer: Authorizer, user: User, verb: str, signer: str) -> bool:
    every = f"{signer.partition('/')[0]}/*"
    return any(
        authorizer.allows(user, Action(verb, GROUP, "signers", name=name))[0]
        for name in (signer, every)
    )


def _check_subject(attrs: Attributes) -> None:
    spec = attrs.obj.get("spec") or {}
    if spec.get("signerName") != CLIENT:
        return
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    asked = x509.load_pem_x509_csr(b64decode(spec.get("request") or ""))
    groups = asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if any(each.value == MASTERS for each in groups):
        raise forbidden(attrs, f"use of {CLIENT} signer with {MASTERS} group is not allowed")
