"""Addresses to listen on: how they are written, and the socket of a server before the server.

A taken address is told in our words that way.
"""

from __future__ import annotations

import socket

from bayplan import vanished
from bayplan.errors import CannotListen, ConfigError

BACKLOG = 1024
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def parse_address(address: str, flag: str = "address") -> tuple[str, int]:
    """Split `HOST:PORT`, also with an IPv6 host in brackets; without a host it is loopback.

    `flag` is where a user has written it.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        raise ConfigError(f'{flag} "{address}": expected HOST:PORT, for example 127.0.0.1:8888')
    if len(port) > 5 or int(port) > 65535:
        raise ConfigError(f'{flag} "{address}": the port is not from 0 to 65535')
    return host.strip("[]") or LOOPBACK[0], int(port)


def listen(host: str, port: int, flag: str) -> socket.socket:
    """Listen on an address (port 0: any free one); `flag` is what a user would change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    vanished.notice(listener)  # what it accepts is watched over in the same way
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise CannotListen(f"{host}:{port}", flag, error) from error
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def page_address(address: str) -> tuple[str, int]:
    """Split the address of a page, whose readers are on this machine."""
    host, port = parse_address(address)
    if host not in LOOPBACK:
        raise ConfigError(
            f'serving the page on "{host}": only loopback addresses; use 127.0.0.1 and a tunnel'
        )
    return host, port


def listen_for_page(host: str, port: int) -> socket.socket:
    """Listen for a page's readers."""
    page_address(f"[{host}]:{port}")
    return listen(host, port, "address for the page")
