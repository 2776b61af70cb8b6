"""Whom our clients believe, by handshakes in memory."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.trust import trusting

NAME = "api.example.test"


def certificate(*alternatives: str) -> tuple[bytes, bytes]:
    """A certificate of NAME that signs itself, and its key, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    if alternatives:
        names = x509.SubjectAlternativeName([x509.DNSName(each) for each in alternatives])
        made = made.add_extension(names, critical=False)
    signed = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return signed, private


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(down, up, server_hostname=NAME)
    other = server.wrap_bio(up, down, server_side=True)
    for side in (one, other, one, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


@pytest.mark.parametrize("alternatives", [(NAME,), ("*.example.test",)])
def test_an_alternative_name_is_believed(tmp_path, alternatives):
    shake_hands(*contexts(tmp_path, *alternatives))


def test_a_common_name_alone_is_not_believed_as_in_go(tmp_path):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(*contexts(tmp_path))


def contexts(tmp_path, *alternatives: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    signed, key = certificate(*alternatives)
    (tmp_path / "both.pem").write_bytes(signed + key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "both.pem")
    return trusting(text=signed.decode()), server
