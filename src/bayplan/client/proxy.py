"""Which proxy stands between us and a server: the kubeconfig's, or else the environment's.

The environment is read as Go's programs read it, so that what lets kubectl reach a cluster does so
here: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in upper case before lower case. NO_PROXY leaves out
addresses, networks (10.0.0.0/8: the API server's address inside a cluster), and names with all that
is below them, each with a port or without.
"""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import SplitResult, urlsplit

from bayplan.client.errors import KubeconfigError
from bayplan.client.kubeconfig import Connection
from bayplan.origin import is_loopback

_PORTS = {"http": 80, "https": 443}
_WITH_PORT = re.compile(r"(?:\[(.+)\]|([^\[\]:]+)):([^:]*)")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def proxy_of(connection: Connection) -> str:
    """Return the URL of the proxy, empty if there is none. Raises KubeconfigError."""
    if connection.proxy_url:
        return _known(connection.proxy_url, "proxy-url of the cluster in the kubeconfig")
    url = urlsplit(connection.server)
    name, given = _from_environment(f"{url.scheme}_PROXY")
    if not given or url.scheme not in _PORTS or _is_left_out(url):
        return ""
    return _known(given, name)


def _from_environment(name: str) -> tuple[str, str]:
    """Return the name of a variable as it was found, and what it is set to."""
    upper, lower = name.upper(), name.lower()
    chosen = upper if os.environ.get(upper) else lower
    return chosen, os.environ.get(chosen, "")


def _known(given: str, where: str) -> str:
    """Return the URL of a proxy that can be spoken to; without a scheme it is http."""
    url = given if "://" in given else f"http://{given}"
    if not url.lower().startswith(("http://", "https://")):
        raise KubeconfigError(f'{where}: "{given}" is no http:// or https:// proxy; name one')
    return url


def _is_left_out(url: SplitResult) -> bool:
    """Say whether a server is asked directly, whatever proxy there is."""
    host = url.hostname or ""
    port = str(url.port or _PORTS[url.scheme])
    _, listed = _from_environment("NO_PROXY")
    entries = [each.strip() for each in listed.lower().split(",")]
    return is_loopback(host) or any(_is_meant(host, port, entry) for entry in entries if entry)


def _is_meant(host: str, port: str, entry: str) -> bool:
    """Say whether an entry of NO_PROXY names a server, its network, or what it is below."""
    if entry == "*":
        return True
    address = _address(host)
    if (network := _network(entry)) is not None:
        return address is not None and address in network
    found = _WITH_PORT.fullmatch(entry)
    wanted, only = (found[1] or found[2], found[3]) if found else (entry, "")
    if only not in ("", port):
        return False
    if (one := _address(wanted)) is not None:
        return address == one
    below = wanted.removeprefix("*") if wanted.startswith("*.") else wanted
    return host.endswith(below) if below.startswith(".") else f".{host}".endswith(f".{below}")


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _network(text: str) -> Network | None:
    """Return the network that is written ADDRESS/BITS."""
    address, _, bits = text.partition("/")
    if not bits.isdecimal():
        return None
    try:
        return ipaddress.ip_network((address, int(bits)), strict=False)
    except ValueError:
        return None
