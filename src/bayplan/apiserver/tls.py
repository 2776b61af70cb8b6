"""Certificates for a server that was given none.

A small authority is made once and kept beside the data; it signs a certificate for the addresses
that the server listens on. Keys are written with mode 0600.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan import private
from bayplan.errors import ConfigError

VALID_DAYS = 3650


class TlsFiles(NamedTuple):
    """Paths of a server's certificate and key, and of the authority that clients trust."""

    certificate: Path
    key: Path
    authority: Path
    authority_key: Path | None = None


def generate(directory: Path, hosts: list[str]) -> TlsFiles:
    """Return a certificate for these hosts, made now unless the directory has one."""
    files = TlsFiles(
        directory / "apiserver.crt",
        directory / "apiserver.key",
        directory / "ca.crt",
        directory / "ca.key",
    )
    if all(path is not None and path.exists() for path in files):
        _load(files.authority)
        if _covers(_load(files.certificate), hosts):
            return files
    private.make_directory(directory)
    now = datetime.datetime.now(datetime.UTC)
    authority, authority_key = new_authority("bayplan-ca", now)
    certificate, key = new_certificate(
        "bayplan-apiserver",
        ExtendedKeyUsageOID.SERVER_AUTH,
        authority,
        authority_key,
        now,
        x509.SubjectAlternativeName(_alternatives(hosts)),
    )
    private.write(files.key, private_pem(key))
    private.write(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    private.write(directory / "ca.key", private_pem(authority_key))
    private.write(files.authority, authority.public_bytes(serialization.Encoding.PEM))
    return files


def new_authority(
    common: str, now: datetime.datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Make an authority that signs certificates, and nothing below it does."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(common)
    made = (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made, key


def new_certificate(
    common: str,
    usage: x509.ObjectIdentifier,
    authority: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    *more: x509.ExtensionType,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Make a certificate of an authority for one usage."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = _builder(_name(common), authority.subject, key.public_key(), now)
    for extension in (*more, x509.ExtendedKeyUsage([usage]), issuer):
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256()), key


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(hosts: list[str]) -> list[x509.GeneralName]:
    names = dict.fromkeys([*hosts, "localhost", "127.0.0.1", "::1", "kubernetes.default.svc"])
    found: list[x509.GeneralName] = []
    for host in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            found.append(x509.DNSName(host))
    return found


def _load(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f'reading certificate "{path}": {error}; '
            f'remove the directory "{path.parent}" to have a new one made'
        ) from error


def _covers(certificate: x509.Certificate, hosts: list[str]) -> bool:
    """Say whether a certificate is in date and names all hosts."""
    if certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
        return False
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    named = {str(ip) for ip in extension.get_values_for_type(x509.IPAddress)}
    named |= set(extension.get_values_for_type(x509.DNSName))
    return all(host in named for host in hosts)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
