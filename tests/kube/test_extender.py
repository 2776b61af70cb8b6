"""The unmodified kube-scheduler calls extenders that are written with our kit."""

import asyncio
import datetime
import ipaddress
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.api import yaml
from bayplan.client import connect, load_kubeconfig
from bayplan.client.resources import NODES, PODS
from bayplan.extender import Extender
from bayplan.testing.servers import start_kube
from tests.extender.servers import serving
from tests.waiting import until

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube"),
]


@pytest.fixture(scope="module")
def kube():
    with start_kube() as cluster:
        yield cluster


def certificates(folder: Path) -> dict[str, Path]:
    """A CA, and a certificate for the server and for the client, each signed by it."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])

    def sign(name, key, *, ca):
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
            .sign(ca_key, hashes.SHA256())
        )

    written = {}
    for name, key, ca in [
        ("test-ca", ca_key, True),
        ("server", ec.generate_private_key(ec.SECP256R1()), False),
        ("client", ec.generate_private_key(ec.SECP256R1()), False),
    ]:
        pem = serialization.Encoding.PEM
        private = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        written[name] = folder / f"{name}.crt"
        written[f"{name}-key"] = folder / f"{name}.key"
        written[name].write_bytes(sign(name, key, ca=ca).public_bytes(pem))
        written[f"{name}-key"].write_bytes(private)
    return written


def scheduler_config(folder, cluster, url, files, **verbs):
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "httpTimeout": "5s",
        **verbs,
    }
    if files:
        extender["enableHTTPS"] = True
        extender["tlsConfig"] = {
            "caFile": str(files["test-ca"]),
            "certFile": str(files["client"]),
            "keyFile": str(files["client-key"]),
        }
    path = folder / "ksc.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "extenders": [extender],
    }
    path.write_text(yaml.dump(document))
    return path


def make_app(bind):
    """Never b, best is c; preempts only on a; binds by itself."""
    app = Extender()
    app.filter(lambda names: {"b": "node(s) were too hot"} if "b" in names else {})
    app.prioritize(lambda names: {name: 10 if name == "c" else 0 for name in names})
    app.preempt(lambda victims: ["a"] if "a" in victims else list(victims))
    app.bind(bind)
    return app


def pod(name, cpu, **spec):
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def clean(client):
    for resource, namespace in ((PODS, "default"), (NODES, "")):
        listed = msgspec.json.decode(await client.list(resource, namespace))["items"]
        for item in listed:
            name = item["metadata"]["name"]
            await client.delete(resource, name, namespace, grace_period=0)


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https with client certificates"])
@pytest.mark.parametrize("names", [True, False], ids=["names only", "whole objects"])
async def test_kube_scheduler_filters_scores_preempts_and_binds_by_us(
    kube, tmp_path, names, secure
):
    loop = asyncio.get_running_loop()
    client = connect(load_kubeconfig(kube.kubeconfig))
    bound = []

    def bind(pod_name, namespace, uid, node):
        binding = client.bind(namespace, pod_name, uid, node)
        asyncio.run_coroutine_threadsafe(binding, loop).result(60)
        bound.append((pod_name, node))

    files = certificates(tmp_path) if secure else {}
    listen = {}
    if secure:
        listen = {
            "cert_file": str(files["server"]),
            "key_file": str(files["server-key"]),
            "client_ca_file": str(files["test-ca"]),
        }
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    try:
        await clean(client)
        for name in "abc":
            body = {"metadata": {"name": name}, "status": {"capacity": room}}
            await client.create(NODES, body)
        with serving(make_app(bind), **listen) as url:
            config = scheduler_config(
                tmp_path,
                kube,
                url,
                files,
                nodeCacheCapable=names,
                preemptVerb="preempt",
                bindVerb="bind",
            )
            scheduler = kube.kube_scheduler(config)
            try:
                for name, node in (("first", "c"), ("second", "a")):
                    await client.create(PODS, pod(name, "4"), "default")
                    found = await until(client, PODS, name, lambda p: p["spec"].get("nodeName"))
                    assert node == found["spec"]["nodeName"]
                urgent = pod("urgent", "4", priorityClassName="system-node-critical")
                await client.create(PODS, urgent, "default")
                found = await until(
                    client, PODS, "urgent", lambda p: p["status"].get("nominatedNodeName")
                )
                assert "a" == found["status"]["nominatedNodeName"]
            finally:
                scheduler.stop()
        assert [("first", "c"), ("second", "a")] == bound
    finally:
        await clean(client)
        await client.close()
