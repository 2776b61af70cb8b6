"""Signs CertificateSigningRequests that were approved, for the signers that Kubernetes knows.

Options, by key: `signing-cert` and `signing-key`, the authority in PEM; without them (a certificate
that was given, or plain HTTP) there is nothing to sign with. Who approves is somebody else:
`kubectl certificate approve`.
"""

from __future__ import annotations

import base64
import datetime

import msgspec

from bayplan.apiserver.certificates import SIGNERS, RequestRefused, sign
from bayplan.client.resources import Resource
from bayplan.controllers.objects import Json, Meta
from bayplan.controllers.runtime import Kit, Worker

REQUESTS = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
)


class RequestSpec(msgspec.Struct, frozen=True, rename="camel"):
    request: str = ""
    signer_name: str = ""
    usages: tuple[str, ...] = ()
    expiration_seconds: int | None = None


class Condition(msgspec.Struct, frozen=True):
    type: str


class RequestStatus(msgspec.Struct, frozen=True):
    certificate: str | None = None
    conditions: tuple[Condition, ...] = ()


class CertificateRequest(msgspec.Struct, frozen=True):
    """What is read of a CertificateSigningRequest."""

    metadata: Meta
    spec: RequestSpec = RequestSpec()
    status: RequestStatus = RequestStatus()


class CertificateSigner:
    """Puts a certificate into every approved request that has none."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        given = (kit.options.get("signing-cert") or "", kit.options.get("signing-key") or "")
        self._authority = (str(given[0]).encode(), str(given[1]).encode())
        self._requests = kit.typed(REQUESTS, CertificateRequest)
        self._worker = Worker(kit, "certificatesigningrequest-signing", self._sync)
        if all(self._authority):
            self._requests.listen(lambda change: self._worker.queue.add(change.new.metadata.name))

    async def run(self) -> None:
        await self._requests.informer.wait_synced()
        await self._worker.run()

    async def _sync(self, name: str) -> float | None:
        await self._requests.fresh()
        found = self._requests.get(name)
        if found is None or found.status.certificate or found.spec.signer_name not in SIGNERS:
            return None
        conditions = {each.type for each in found.status.conditions}
        if "Approved" not in conditions or conditions & {"Denied", "Failed"}:
            return None
        status = {"status": self._signed(found)}
        await self._kit.patch(REQUESTS, name, status, kind="strategic", subresource="status")
        return None

    def _signed(self, found: CertificateRequest) -> Json:
        spec = found.spec
        now = datetime.datetime.fromtimestamp(self._kit.clock(), datetime.UTC)
        try:
            made = sign(
                base64.b64decode(spec.request),
                spec.signer_name,
                list(spec.usages),
                spec.expiration_seconds,
                self._authority,
                now.replace(microsecond=0),
            )
        except RequestRefused as refused:
            failed = {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": str(refused),
                "lastUpdateTime": self._kit.now(),
                "lastTransitionTime": self._kit.now(),
            }
            return {"conditions": [failed]}
        return {"certificate": base64.b64encode(made).decode()}
