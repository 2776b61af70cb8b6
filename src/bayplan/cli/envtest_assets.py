"""`bayplan envtest-assets DIR`: programs that controller-runtime's envtest starts as its own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from bayplan.config import DEFAULT_GATES

# What envtest looks for in `--help`; `insecure-port` must not be among it.
_SERVER_FLAGS = (
    "authorization-mode",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "etcd-servers",
    "secure-port",
    "service-account-issuer",
    "service-account-key-file",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
)
_STORE_FLAGS = ("advertise-client-urls", "data-dir", "listen-client-urls", "listen-peer-urls")
# The shell answers --help itself: envtest asks it before every start.
_LAUNCHER = """#!/bin/sh
# Written by `bayplan envtest-assets`; starts {what}.
for argument in "$@"; do
  case "$argument" in
    --help|-h) cat <<'FLAGS'
{flags}
FLAGS
      exit 0 ;;
    --version) echo "Kubernetes {release}"; exit 0 ;;
  esac
done
exec {command} "$@"
"""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def command(directory: Path) -> None:
    """Write kube-apiserver and etcd launchers for controller-runtime's envtest into DIRECTORY."""
    here = Path(__file__).parent
    python = shlex.quote(sys.executable)
    store = f"{python} -I -S {shlex.quote(str(here / 'envtest_etcd.py'))}"
    server = f"{python} -m bayplan.cli.envtest_apiserver"
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "etcd", "a stand-in that is healthy", _STORE_FLAGS, store)
    _write(directory / "kube-apiserver", "bayplan's API server", _SERVER_FLAGS, server)
    click.echo(f"wrote {directory / 'kube-apiserver'} and {directory / 'etcd'}")
    click.echo(f"  export KUBEBUILDER_ASSETS={directory.resolve()}")


def _write(path: Path, what: str, flags: tuple[str, ...], command: str) -> None:
    shown = "\n".join(f"      --{flag} string" for flag in flags)
    text = _LAUNCHER.format(what=what, flags=shown, release=DEFAULT_GATES.release, command=command)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
