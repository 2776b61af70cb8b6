"""etcd over TLS: its authority is checked, and it checks ours."""

import datetime
import ipaddress
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.errors import ConfigError
from bayplan.store import Unavailable
from bayplan.store.etcd import EtcdStore
from bayplan.store.etcd_client import tls_context
from bayplan.testing.etcd import find_etcd, start_etcd

DAY = datetime.timedelta(days=1)


def named(common):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder, common):
        self.folder, self.common = folder, common
        self.key = ec.generate_private_key(ec.SECP256R1())
        limits = x509.BasicConstraints(ca=True, path_length=0)
        self.file = self._write(common, self._signed(common, self.key, (limits, True)), None)

    def _signed(self, common, key, *extensions):
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(common))
            .issuer_name(named(self.common))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name, certificate, key):
        path = self.folder / f"{name}.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        if key is not None:
            plain = serialization.NoEncryption()
            form = serialization.PrivateFormat.PKCS8
            data = key.private_bytes(serialization.Encoding.PEM, form, plain)
            path.with_suffix(".key").write_bytes(data)
        return path

    def issue(self, name):
        """Return the file of a certificate for both ends; etcd's gateway calls itself with it."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        signed = self._signed(name, key, (address, False), (x509.ExtendedKeyUsage(both), False))
        return self._write(name, signed, key)


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    if find_etcd() is None:
        pytest.skip("there is no etcd program")
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(folder, "etcd-ca"), Authority(folder, "stranger-ca")
    server, client = authority.issue("server"), authority.issue("client")
    flags = {
        "cert-file": str(server),
        "key-file": str(server.with_suffix(".key")),
        "client-cert-auth": "true",
        "trusted-ca-file": str(authority.file),
    }
    files = SimpleNamespace(
        ca=authority.file,
        client=client,
        stranger_ca=stranger.file,
        stranger=stranger.issue("other"),
        folder=folder,
    )
    context = tls_context(files.ca, client, client.with_suffix(".key"))
    with start_etcd(tmp_path_factory.mktemp("etcd"), flags, context) as started:
        files.url = started.url
        yield files


async def opened(url, authority, certificate, deadline):
    key = certificate.with_suffix(".key") if certificate else None
    tls = tls_context(authority, certificate, key)
    return await EtcdStore.open([url], tls=tls, deadline=deadline)


async def test_a_store_reads_writes_and_watches_over_tls(secure):
    store = await opened(secure.url, secure.ca, secure.client, 60.0)
    watcher = store.watch("a/", after=store.revision)
    written = await store.put("a/b", b"1")
    [event] = await watcher.__anext__()
    found = await store.get("a/b")
    watcher.close()
    await store.close()

    assert b"1" == found.value == event.kv.value
    assert written.mod_revision == found.mod_revision


@pytest.mark.parametrize(
    ("authority", "certificate", "words"),
    [
        pytest.param("ca", None, "calling etcd", id="no certificate"),
        pytest.param("ca", "stranger", "calling etcd", id="a certificate of a stranger"),
        pytest.param(
            "stranger_ca",
            "client",
            "its certificate is not trusted: unable to get local issuer certificate",
            id="etcd is not who it says",
        ),
    ],
)
async def test_who_is_not_trusted_gets_no_store(secure, authority, certificate, words):
    shown = getattr(secure, certificate) if certificate else None

    with pytest.raises(Unavailable, match=words):
        await opened(secure.url, getattr(secure, authority), shown, 1.0)


def test_files_must_fit_together(secure):
    broken = secure.folder / "broken.crt"
    broken.write_text("not a certificate")

    assert tls_context(None, None, None) is None
    with pytest.raises(ConfigError, match="--etcd-certfile and --etcd-keyfile"):
        tls_context(secure.ca, secure.client, None)
    with pytest.raises(ConfigError, match=r"broken\.crt.*must be PEM"):
        tls_context(broken, None, None)


def test_the_server_takes_the_flags(secure, tmp_path):

    from bayplan.testing.servers import start_embedded

    flags = (
        "--store=etcd",
        f"--etcd-servers={secure.url}",
        f"--etcd-cafile={secure.ca}",
        f"--etcd-certfile={secure.client}",
        f"--etcd-keyfile={secure.client.with_suffix('.key')}",
    )
    with start_embedded(tmp_path, *flags) as cluster:
        assert cluster.ready()
