"""Certificates for tests."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from bayplan.apiserver import tls


def client_pair(files, name="me"):
    """Return a client's certificate and key (PEM), signed by the authority of a server's files."""
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    signer = serialization.load_pem_private_key(files.authority_key.read_bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    certificate, key = tls.new_certificate(name, usage, authority, signer, now)
    return certificate.public_bytes(serialization.Encoding.PEM), tls.private_pem(key)
