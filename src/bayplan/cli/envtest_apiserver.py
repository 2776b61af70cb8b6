"""Stands in for kube-apiserver under envtest: the same flags, certificates and health checks.

Flags that mean nothing here are accepted. Objects are kept in memory and go with the process, as
envtest's do with their directory; no controllers run, as under envtest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bayplan.cli.envtest_etcd import option
from bayplan.errors import BayplanError, ConfigError


def settings_of(arguments: list[str]) -> Any:
    """What kube-apiserver's flags say, as settings of ours."""
    from bayplan.apiserver.serving import MODES, Settings

    folder = Path(option(arguments, "cert-dir") or ".")
    certificate = Path(option(arguments, "tls-cert-file") or folder / "apiserver.crt")
    key = Path(option(arguments, "tls-private-key-file") or folder / "apiserver.key")
    given = certificate.exists() and key.exists()
    clients = option(arguments, "client-ca-file")
    modes = option(arguments, "authorization-mode").split(",")
    tokens = option(arguments, "token-auth-file")
    return Settings(
        store="memory",
        host=option(arguments, "bind-address") or "127.0.0.1",
        port=_port(option(arguments, "secure-port") or "6443"),
        tls_certificate=certificate if given else None,
        tls_key=key if given else None,
        client_ca=Path(clients) if clients else None,
        token_file=Path(tokens) if tokens else None,
        authorization_mode=next((mode for mode in modes if mode in MODES), "RBAC"),
        service_account_key=_signing_key(option(arguments, "service-account-signing-key-file")),
        service_account_issuer=option(arguments, "service-account-issuer")
        or "https://kubernetes.default.svc.cluster.local",
        enable_admission_plugins=_names(option(arguments, "enable-admission-plugins")),
        disable_admission_plugins=_names(option(arguments, "disable-admission-plugins")),
    )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _port(text: str) -> int:
    if not text.isdigit():
        raise ConfigError(f'--secure-port "{text}" is not a number')
    return int(text)


def _signing_key(path: str) -> Path | None:
    """The key of tokens, if it is one that we sign with; another one is made otherwise."""
    from bayplan.apiserver.tokens import load_key

    try:
        load_key(Path(path))
    except (BayplanError, OSError):
        return None
    return Path(path)


def main(arguments: list[str]) -> None:
    from bayplan.cli.serve import run

    try:
        run(settings_of(arguments), "", lambda line: print(line, file=sys.stderr, flush=True))
    except BayplanError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
