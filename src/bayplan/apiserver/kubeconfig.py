"""Writes the kubeconfig that kubectl and other clients use to reach a server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from bayplan import private
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


def write_kubeconfig(path: Path, url: str, token: str, authority: bytes | None = None) -> None:
    private.write(path, yaml.dump(kubeconfig(url, token, authority)))
