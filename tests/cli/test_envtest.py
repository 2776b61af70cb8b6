"""The launchers for envtest do what envtest does with the real programs: help, health, stop."""

import json
import os
import signal
import ssl
import subprocess
import urllib.request

import pytest
from click.testing import CliRunner

from bayplan.apiserver import tls
from bayplan.cli.main import bayplan
from bayplan.testing.ports import free_port


@pytest.fixture(scope="module")
def assets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assets")
    result = CliRunner().invoke(bayplan, ["envtest-assets", str(folder)])
    assert 0 == result.exit_code, result.output
    return folder


def healthy(process, url, context=None):
    """Whether a program gets healthy before it ends."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=60, context=context) as answer:
                return answer.status == 200
        except OSError:
            continue
    return False


def ended(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(60)


@pytest.mark.parametrize(
    ("program", "flag", "present"),
    [
        ("kube-apiserver", "secure-port", True),
        ("kube-apiserver", "insecure-port", False),
        ("etcd", "unsafe-no-fsync", False),
    ],
)
def test_help_names_the_flags_that_are_looked_for(assets, program, flag, present):
    shown = subprocess.run([assets / program, "--help"], capture_output=True, text=True, check=True)

    assert present is any(line.split()[0] == f"--{flag}" for line in shown.stdout.splitlines())


def test_etcd_is_healthy_until_it_is_stopped(assets):
    url = f"http://127.0.0.1:{free_port()}"
    process = subprocess.Popen([assets / "etcd", f"--listen-client-urls={url}", "--data-dir=x"])

    assert healthy(process, f"{url}/health")
    assert 0 == ended(process)


def test_the_server_takes_envtests_certificates_and_stops(assets, tmp_path):
    files = tls.generate(tmp_path, ["127.0.0.1"])
    port = free_port()
    arguments = [
        f"--cert-dir={tmp_path}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--authorization-mode=RBAC",
        f"--client-ca-file={files.authority}",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:1",
        "--allow-privileged=true",
        f"--service-account-signing-key-file={files.key}",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]
    context = ssl.create_default_context(cafile=files.authority)
    process = subprocess.Popen([assets / "kube-apiserver", *arguments], env=dict(os.environ))

    assert healthy(process, f"https://127.0.0.1:{port}/healthz", context)
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/version", context=context) as answer:
        served = json.loads(answer.read())["gitVersion"]
    words = [assets / "kube-apiserver", "--version"]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert told == f"Kubernetes {served.partition('+')[0]}\n"
    assert 0 == ended(process)
