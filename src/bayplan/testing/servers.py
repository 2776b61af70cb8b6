"""Starts the real parts: etcd and kube-apiserver, kube-scheduler, and our own programs.

Every server gets free ports and a temporary directory, writes its log there, and is ended by
`stop()` (or by leaving the `with` block). `kube_assets()` says where the real programs are, or why
they are not; tests that need them are marked `kube` and skip with that text.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bayplan import private
from bayplan.errors import BayplanError
from bayplan.testing.ports import free_port

TOKEN = "bayplan-test-token"
PROGRAMS = ("kube-apiserver", "kube-scheduler", "etcd")
START_TIMEOUT = 120.0  # a busy machine may take its time to start a process


class ServerFailed(BayplanError, AssertionError):
    """A server ended or did not become ready; the text ends with its last words."""


def kube_assets() -> Path | None:
    """Return the directory of the real programs, or None when they have not been built."""
    given = os.environ.get("KUBEBUILDER_ASSETS", "")
    version = os.environ.get("KUBE_VERSION", "1.36.4")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(given) if given else cache / "bayplan" / "kube-assets" / f"v{version}"
    return folder if all((folder / program).is_file() for program in PROGRAMS) else None


def kube_version() -> str:
    """The version of the real programs, such as `v1.36.4`."""
    folder = kube_assets()
    assert folder is not None, "the real programs are not built: run `make kube-assets`"
    command = [str(folder / "kube-scheduler"), "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return told.split()[-1]


class Process:
    """A program that runs in the background; its output goes to `log`."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.command = list(command)
        self.log = log
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
            )

    @property
    def running(self) -> bool:
        """Tell whether the program has not ended."""
        return self.popen.poll() is None

    def wait_until(self, ready: Callable[[], bool], timeout: float = START_TIMEOUT) -> None:
        """Return when `ready()` holds; ServerFailed when the program ends or is late."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise ServerFailed(f"{self.command[0]} ended: {self.last_words()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.command[0]} is not ready: {self.last_words()}")
            time.sleep(0.05)

    def stop(self, timeout: float = START_TIMEOUT) -> int:
        """End the program, politely at first; return its exit code."""
        if self.running:
            self.popen.terminate()
        return self.wait(timeout)

    def kill(self) -> None:
        """End the program at once."""
        self.popen.kill()
        self.popen.wait()

    def wait(self, timeout: float = START_TIMEOUT) -> int:
        """Wait for the end of the program (kill it when that takes too long)."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()

    def last_words(self, size: int = 2000) -> str:
        """Return the end of the log."""
        return self.log.read_bytes()[-size:].decode(errors="replace")


class ServedCluster:
    """An API server with a kubeconfig, whatever program serves it."""

    apiserver: Process

    def __init__(self, server: str, token: str, folder: Path) -> None:
        self.server = server
        self.token = token
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._processes: list[Process] = []
        self._owned: list[Path] = []

    def __enter__(self) -> ServedCluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self, command: Sequence[str], log: str) -> Process:
        """Start a program that ends with this cluster."""
        process = Process(command, self.folder / log)
        self._processes.append(process)
        return process

    def stop(self) -> None:
        """End all programs, the last started first, and remove the directories."""
        for process in reversed(self._processes):
            process.stop()
        for folder in self._owned:
            shutil.rmtree(folder, ignore_errors=True)

    def restart_apiserver(self, *, kill: bool = False) -> None:
        """End the API server and start it again on the same port and data."""
        if kill:
            self.apiserver.kill()
        else:
            self.apiserver.stop(30)
        self._processes.remove(self.apiserver)
        self.apiserver = self._start_apiserver()

    def _start_apiserver(self) -> Process:
        """Start the API server and wait until it is ready."""
        raise NotImplementedError

    def own(self, folder: Path) -> None:
        """Remove `folder` when the cluster stops."""
        self._owned.append(folder)

    def write_kubeconfig(self) -> None:
        """Write a kubeconfig for the admin token; TLS is not verified."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.server,
                        **({"insecure-skip-tls-verify": True} if "https" in self.server else {}),
                    },
                }
            ],
            "users": [{"name": "test", "user": {"token": self.token}}],
        }
        private.write(self.kubeconfig, json.dumps(document, indent=1))

    def ready(self) -> bool:
        """Tell whether `/readyz` answers 200."""
        request = urllib.request.Request(
            f"{self.server}/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, timeout=2, context=context) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kube_scheduler(self, config: Path | None = None, *arguments: str) -> Process:
        """Start the real kube-scheduler on this cluster."""
        folder = kube_assets()
        assert folder is not None, "the real programs are not built: run `make kube-assets`"
        chosen = ["--config", str(config)] if config else ["--kubeconfig", str(self.kubeconfig)]
        command = [str(folder / "kube-scheduler"), *chosen, "--secure-port=0", *arguments]
        return self.start(command, "kube-scheduler.log")

    def bayplan_scheduler(self, config: Path | None = None, *arguments: str) -> Process:
        """Start `bayplan scheduler` on this cluster."""
        chosen = ["--config", str(config)] if config else ["--kubeconfig", str(self.kubeconfig)]
        command = [*bayplan_command("scheduler"), *chosen, "--secure-port=0", *arguments]
        return self.start(command, f"bayplan-scheduler-{len(self._processes)}.log")


def bayplan_command(*arguments: str) -> list[str]:
    """Return the command line of our own program, from the interpreter that runs this."""
    return [sys.executable, "-m", "bayplan.cli.main", *arguments]


class KubeCluster(ServedCluster):
    """A real kube-apiserver on a real etcd, without controllers, kubelets and scheduler."""

    def __init__(
        self,
        assets: Path,
        folder: Path,
        authorization: str = "AlwaysAllow",
        accounts: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        """`accounts`: pods need a service account, which somebody has to make."""
        self._authorization = authorization
        self._flags = flags
        self._disabled = ("TaintNodesByCondition", *(() if accounts else ("ServiceAccount",)))
        self.assets = assets
        self.port = free_port()
        super().__init__(f"https://127.0.0.1:{self.port}", TOKEN, folder)
        self._etcd = f"http://127.0.0.1:{free_port()}"
        self._prepare()
        try:
            self.etcd = self._start_etcd()
            self.apiserver = self._start_apiserver()
        except ServerFailed:
            self.stop()
            raise
        self.write_kubeconfig()

    def _prepare(self) -> None:
        private.write(self.folder / "tokens.csv", f"{TOKEN},admin,admin,system:masters\n")
        key = ec.generate_private_key(ec.SECP256R1())
        signing = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        private.write(self.folder / "sa.key", signing)
        (self.folder / "sa.pub").write_bytes(public)

    def _start_etcd(self) -> Process:
        peer = f"http://127.0.0.1:{free_port()}"
        process = self.start(
            [
                str(self.assets / "etcd"),
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={self._etcd}",
                f"--advertise-client-urls={self._etcd}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            "etcd.log",
        )
        process.wait_until(lambda: _answers(f"{self._etcd}/health"))
        return process

    def _start_apiserver(self) -> Process:
        process = self.start(
            [
                str(self.assets / "kube-apiserver"),
                f"--etcd-servers={self._etcd}",
                f"--secure-port={self.port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={self.folder / 'certs'}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                f"--authorization-mode={self._authorization}",
                "--anonymous-auth=false",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self.folder / 'sa.pub'}",
                f"--service-account-signing-key-file={self.folder / 'sa.key'}",
                f"--disable-admission-plugins={','.join(self._disabled)}",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--max-requests-inflight=3000",
                "--max-mutating-requests-inflight=1000",
                *self._flags,
            ],
            "kube-apiserver.log",
        )
        process.wait_until(self.ready)
        return process


class EmbeddedCluster(ServedCluster):
    """`bayplan apiserver` as a program of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self._arguments = arguments
        super().__init__(f"http://127.0.0.1:{self.port}", "", folder)
        self.apiserver = self._start_apiserver()

    def _start_apiserver(self) -> Process:
        process = self.start(
            [
                *bayplan_command("apiserver"),
                f"--data={self.folder / 'data'}",
                f"--bind=127.0.0.1:{self.port}",
                f"--kubeconfig-out={self.kubeconfig}",
                *self._arguments,
            ],
            "apiserver.log",
        )
        process.wait_until(self._written)
        return process

    def _written(self) -> bool:
        """Read address and token from the kubeconfig as soon as it is there."""
        # Imported here so that starting the real programs needs nothing of ours.
        from bayplan.client import ClientError, load_kubeconfig

        try:
            found = load_kubeconfig(self.kubeconfig)
        except ClientError:
            return False
        self.server, self.token = found.server, found.token
        return self.ready()


def start_kube(
    folder: Path | None = None,
    authorization: str = "AlwaysAllow",
    *,
    accounts: bool = False,
    flags: Sequence[str] = (),
) -> KubeCluster:
    """Start a real control plane; the caller must have checked `kube_assets()`.

    `flags` are further ones of kube-apiserver.
    """
    assets = kube_assets()
    assert assets is not None, "the real programs are not built: run `make kube-assets`"
    own = folder is None
    where = folder or Path(tempfile.mkdtemp(prefix="bayplan-kube-"))
    try:
        cluster = KubeCluster(assets, where, authorization, accounts, flags)
    except ServerFailed:
        if own:
            shutil.rmtree(where, ignore_errors=True)
        raise
    if own:
        cluster.own(where)
    return cluster


def start_embedded(folder: Path | None = None, *arguments: str) -> EmbeddedCluster:
    """Start `bayplan apiserver` (its own default: no controllers)."""
    own = folder is None
    where = folder or Path(tempfile.mkdtemp(prefix="bayplan-embedded-"))
    cluster = EmbeddedCluster(where, *arguments)
    if own:
        cluster.own(where)
    return cluster


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
