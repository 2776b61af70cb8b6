"""Who this server is to the API servers behind it, and how they learn to believe it.

A server behind this one takes the user from headers, if the request comes with a certificate of an
authority that it knows for this purpose alone. Such an authority is made at each start and never
leaves memory; what it says is told in the ConfigMap that extension servers read. Several servers
on one store add theirs to those that are there.
"""

from __future__ import annotations

import datetime
import json
import ssl
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from bayplan import private
from bayplan.api.user import User
from bayplan.apiserver import tls
from bayplan.apiserver.backend import Backend
from bayplan.store import Conflict
from bayplan.trust import pem_blocks

NAME = "front-proxy-client"
CONFIG = "extension-apiserver-authentication"
KEPT = 8  # authorities of other servers, and of earlier starts
USER, GROUP, UID, EXTRA = "X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-"
HEADERS = {
    "requestheader-allowed-names": [NAME],
    "requestheader-extra-headers-prefix": [EXTRA],
    "requestheader-group-headers": [GROUP],
    "requestheader-uid-headers": [UID],
    "requestheader-username-headers": [USER],
}
_BLOCK = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


class FrontProxy:
    """A certificate that says that its holder may speak for users."""

    def __init__(self) -> None:
        now = datetime.datetime.now(datetime.UTC)
        authority, signer = tls.new_authority("bayplan-front-proxy-ca", now)
        usage = ExtendedKeyUsageOID.CLIENT_AUTH
        certificate, key = tls.new_certificate(NAME, usage, authority, signer, now)
        pem = serialization.Encoding.PEM
        self.authority = authority.public_bytes(pem).decode()
        self._chain = tls.private_pem(key) + certificate.public_bytes(pem)

    def show(self, context: ssl.SSLContext) -> None:
        """Let connections of this context show the certificate; Python takes it from a file."""
        with tempfile.TemporaryDirectory(prefix="bayplan-front-proxy-") as folder:
            path = Path(folder) / "client.pem"
            private.write(path, self._chain)
            context.load_cert_chain(path)


def headers_of(user: User) -> list[tuple[str, str]]:
    """Return the headers in which a user is told to a server behind this one."""
    found = [(USER, user.name), *((GROUP, group) for group in user.groups)]
    if user.uid:
        found.append((UID, user.uid))
    for name, values in user.extra:
        found += [(EXTRA + _escaped(name), value) for value in values]
    return found


def _escaped(name: str) -> str:
    """Write a key of `extra` as a header can hold it: other characters by their number."""
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "-_.!#$&'*+^`|~") else _percent(char)
        for char in name
    )


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


async def publish(backend: Backend, authority: str, client_authority: str = "") -> None:
    """Tell extension servers whom to believe."""
    codec = backend.codec_of("", "configmaps")
    assert codec is not None
    key = codec.key("kube-system", CONFIG)
    for _ in range(KEPT):
        kv = await backend.store.get(key)
        if kv is None:
            return
        obj = codec.decode(kv)
        data = obj.setdefault("data", {})
        blocks = pem_blocks(data.get("requestheader-client-ca-file", ""))
        known = [_BLOCK.format(body) for kind, body in blocks if kind == "CERTIFICATE"]
        if authority not in known:
            known = [*known[-KEPT + 1 :], authority]
        data["requestheader-client-ca-file"] = "".join(known)
        data |= {name: json.dumps(value) for name, value in HEADERS.items()}
        if client_authority:
            data["client-ca-file"] = client_authority
        try:
            await backend.store.put(key, codec.encode(obj), expect=kv.mod_revision)
        except Conflict:
            continue
        return
