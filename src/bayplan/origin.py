"""Keeps web pages away from servers that ask for no token.

A page of any site can make a browser send requests to loopback, and with a name that first
resolves to the site and then to 127.0.0.1 (DNS rebinding) it can read the answers too. Such
requests give themselves away: their Host is the site's name, or their Origin is not the Host.
Programs send no Origin and name the server by what they were told. Where a token is asked for, none
of this is needed: a page does not know it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

_NAMES = (b"host", b"origin")
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d*)?")
CLUSTER_SUFFIXES = (".svc", ".svc.cluster.local")


def problem(scope: Mapping[str, Any], allowed: Iterable[str] = ()) -> str:
    """Say why a request must not be answered; empty when it may."""
    named = [(bytes(key), bytes(value)) for key, value in scope["headers"] if key in _NAMES]
    headers = {key: value.decode("latin-1") for key, value in named}
    if len(headers) < len(named):
        return "a request has one Host and one Origin"
    host = headers.get(b"host", "")
    origin = headers.get(b"origin")
    if origin is not None and not is_own(origin, host):
        return f'requests from pages of "{origin[:100]}" are not answered'
    name = host_name(host)
    local = (scope.get("server") or ("",))[0] or ""
    if not name or name in allowed or _is_ours(name, is_loopback(local)):
        return ""
    return f'this server is not "{name[:100]}"; set a token, or name it as an allowed host'


def is_own(origin: str, host: str) -> bool:
    """Say whether a page's Origin is the server that was asked as Host."""
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name.lower() == host.lower() != ""


def host_name(host: str) -> str:
    """Return the host of `HOST[:PORT]` in lower case, without brackets; all of what is none."""
    found = _HOST.fullmatch(host)
    return found[1].strip("[]").lower() if found else host


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_ours(name: str, on_loopback: bool) -> bool:
    """Say whether nobody else can own a name: addresses, this machine's and a cluster's names."""
    if is_loopback(name):
        return True
    if on_loopback:
        return False
    if "." not in name or name.endswith(CLUSTER_SUFFIXES):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == socket.gethostname().lower()
    return True
