"""Commands that read a cluster, and a server that is not the one of the kubeconfig.

No token leaves before the server has shown who it is, whatever it says, and the error tells what to
do about it.
"""

import base64
import contextlib
import ipaddress
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.api import yaml
from bayplan.cli.main import bayplan
from bayplan.errors import BayplanError

TOKEN = "a-token-that-must-not-leave"


def certificate(name, days):
    """One that signs itself, and its key, in PEM; of this name or address, until so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(own, own, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=9)).not_valid_after(
        now + timedelta(days=days)
    )
    made = made.add_extension(x509.SubjectAlternativeName([name]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private = key.private_bytes(serialization.Encoding.PEM, *form)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private


HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
ELSEWHERE = x509.DNSName("elsewhere.example")
# Its certificate, whether that is the one of the kubeconfig, what it does, and a word of the error.
SERVERS = {
    "nobody knows it": (HERE, 9, False, "certificate-authority"),
    "it is another": (ELSEWHERE, 9, True, "certificate"),
    "it is over": (HERE, -1, True, "expired"),
    "it speaks no TLS": (None, 9, False, "http"),
}
COMMANDS = {
    "snapshot": ["snapshot", "save", "out.snapshot"],
    "why": ["why", "default/p"],
    "ui": ["ui"],
}


@contextlib.contextmanager
def listening(context):
    """Answer whoever comes in plain words, and keep all that is said."""
    heard, listener = [], socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                connection.settimeout(10)
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                heard.append(connection.recv(1 << 16))
                connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", SERVERS)
def test_no_token_leaves_and_the_remedy_is_told(tmp_path, monkeypatch, name, command):
    monkeypatch.chdir(tmp_path)
    named, days, known, word = SERVERS[name]
    context, authority = None, b""
    if named is not None:
        signed, key = certificate(named, days)
        (tmp_path / "both.pem").write_bytes(signed + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "both.pem")
        authority = signed if known else b""
    with listening(context) as (port, heard):
        cluster = {"server": f"https://127.0.0.1:{port}"}
        if authority:
            cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (tmp_path / "config").write_text(yaml.dump(config))
        words = [*COMMANDS[command], "--kubeconfig", str(tmp_path / "config")]
        found = CliRunner().invoke(bayplan, words)

    assert isinstance(found.exception, BayplanError), found.output
    said = f"{found.exception} {found.output}"
    assert not [each for each in heard if TOKEN.encode() in each]
    assert TOKEN not in said
    assert word in said, said
    assert not (tmp_path / "out.snapshot").exists()
