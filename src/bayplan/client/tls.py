"""TLS contexts from a connection's certificates, with errors that name the file to fix.

Python's ssl module wants a certificate and its key as files, so data is written to a private
temporary file for the moment of loading. It does not check expiry: the handshake does.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from bayplan import private
from bayplan.client.errors import KubeconfigError
from bayplan.client.kubeconfig import Connection, content
from bayplan.trust import trusting


def client_context(
    connection: Connection, *, cert: bytes = b"", key: bytes = b""
) -> ssl.SSLContext | None:
    """Return the context for a connection, or None for plain http.

    `cert` and `key` (PEM), when given, take the place of the connection's own.
    """
    if not connection.server.startswith("https://"):
        return None
    context = _authorities(connection)
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    cert = cert or connection.cert_data or content(connection.cert_file, "client-certificate")
    key = key or connection.key_data or content(connection.key_file, "client-key")
    if cert and not key:
        raise KubeconfigError(
            f'kubeconfig "{connection.source}": client-certificate needs client-key; set it'
        )
    if cert:
        _load_chain(context, cert, key, connection.source)
    return context


def _authorities(connection: Connection) -> ssl.SSLContext:
    if connection.insecure:
        # Reading the system's authorities takes longer than all else at start; nobody asks them.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not (connection.ca_data or connection.ca_file):
        return trusting()
    data = connection.ca_data or content(connection.ca_file, "certificate-authority")
    where = connection.ca_file or "certificate-authority-data"
    try:
        return trusting(text=data.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as problem:
        raise KubeconfigError(
            f'kubeconfig "{connection.source}": "{where}" holds no PEM certificate; '
            "set it to the CA of the API server"
        ) from problem


def _load_chain(context: ssl.SSLContext, cert: bytes, key: bytes, source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # mode 0700
        cert_file, key_file = Path(folder, "cert"), Path(folder, "key")
        private.write(cert_file, cert)
        private.write(key_file, key)
        try:
            context.load_cert_chain(cert_file, key_file)
        except ssl.SSLError as problem:
            raise KubeconfigError(
                f'kubeconfig "{source}": client certificate and key cannot be used '
                f"({problem.reason or problem}); check that both are PEM and belong together"
            ) from problem
