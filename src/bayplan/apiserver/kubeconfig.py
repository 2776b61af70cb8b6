"""Writes the kubeconfig that kubectl and other clients use to reach a server."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from bayplan.api import yaml

NAME = "bayplan"


def kubeconfig(url: str, token: str, authority: bytes | None = None) -> dict[str, Any]:
    """Return a kubeconfig with one cluster, one user and one context."""
    cluster: dict[str, Any] = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, replacing an old one in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def write_kubeconfig(path: Path, url: str, token: str, authority: bytes | None = None) -> None:
    write_private(path, yaml.dump(kubeconfig(url, token, authority)))
