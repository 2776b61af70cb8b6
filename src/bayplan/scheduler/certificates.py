"""Serving certificates: given ones are checked, otherwise a self-signed pair is made.

The generated pair lives in `--cert-dir` (and is used again at the next start, as kube-scheduler
does) or only in a temporary directory. It serves health checks and metrics, which clients
usually reach without verifying.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan import private
from bayplan.errors import ConfigError

TLS_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


def server_context(
    cert_file: str = "",
    key_file: str = "",
    *,
    cert_dir: str = "",
    client_ca_file: str = "",
    min_version: str = "",
) -> ssl.SSLContext:
    """Return a TLS context for serving; raise ConfigError that names the flag to change."""
    if bool(cert_file) != bool(key_file):
        missing = "--tls-private-key-file" if cert_file else "--tls-cert-file"
        raise ConfigError(f"{missing} is missing: certificate and key go together")
    if min_version not in TLS_VERSIONS:
        known = ", ".join(filter(None, TLS_VERSIONS))
        raise ConfigError(f'--tls-min-version "{min_version}" is not known; use one of {known}')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = TLS_VERSIONS[min_version]
    if cert_file:
        _load(context, cert_file, key_file)
    else:
        _load_generated(context, cert_dir)
    if client_ca_file:
        _trust_clients(context, client_ca_file)
    return context


def _load(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    for flag, path in (("--tls-cert-file", cert_file), ("--tls-private-key-file", key_file)):
        if not Path(path).is_file():
            raise ConfigError(f'{flag} "{path}" does not exist; check the path')
    try:
        context.load_cert_chain(cert_file, key_file)
    except (ssl.SSLError, OSError) as problem:
        raise ConfigError(
            f'loading "{cert_file}" and "{key_file}": {getattr(problem, "reason", problem)}; '
            "check that --tls-cert-file and --tls-private-key-file are PEM and belong together"
        ) from problem


def _trust_clients(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as problem:
        raise ConfigError(
            f'--client-ca-file "{path}" cannot be used: {problem}; give a PEM bundle'
        ) from problem
    context.verify_mode = ssl.CERT_OPTIONAL


def _load_generated(context: ssl.SSLContext, cert_dir: str) -> None:
    if not cert_dir:
        with tempfile.TemporaryDirectory() as folder:
            pair = _write_pair(Path(folder))
            context.load_cert_chain(*pair)
        return
    folder_path = Path(cert_dir)
    pair = folder_path / "kube-scheduler.crt", folder_path / "kube-scheduler.key"
    try:
        if not all(part.is_file() for part in pair):
            private.make_directory(folder_path)
            _write_pair(folder_path)
        context.load_cert_chain(*pair)
    except (ssl.SSLError, OSError) as problem:
        raise ConfigError(
            f'--cert-dir "{cert_dir}" cannot hold the serving certificate: {problem}; '
            "make it writable, or remove a broken pair from it"
        ) from problem


def _write_pair(folder: Path) -> tuple[Path, Path]:
    certificate, key = self_signed(socket.gethostname())
    cert_path, key_path = folder / "kube-scheduler.crt", folder / "kube-scheduler.key"
    private.write(cert_path, certificate)
    private.write(key_path, key)
    return cert_path, key_path


def self_signed(host: str) -> tuple[bytes, bytes]:
    """Return a new certificate and key (PEM) for this host, valid for a year."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64] or "localhost")])
    now = datetime.now(UTC)
    loopback = ipaddress.ip_address("127.0.0.1")
    names = [x509.DNSName("localhost"), x509.IPAddress(loopback)]
    if host and host.isascii():
        names.append(x509.DNSName(host))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
