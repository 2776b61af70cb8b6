"""Lets the kernel find out that a peer has vanished, from which nothing will ever come.

A machine that loses its power, or a firewall that forgets a connection, ends it without a word, and
a watch would wait for the next event for ever, and a server would keep the watch of a client that
is gone. As Go's programs do, a connection that has been silent for IDLE seconds is asked, and after
45 given up.
"""

from __future__ import annotations

import socket
from typing import Any, Protocol

IDLE, BETWEEN, TIMES = 30, 5, 3
# macOS has another word for the first.
_OPTIONS = (
    ("TCP_KEEPIDLE", IDLE),
    ("TCP_KEEPALIVE", IDLE),
    ("TCP_KEEPINTVL", BETWEEN),
    ("TCP_KEEPCNT", TIMES),
)


class Socket(Protocol):
    """What of a socket is needed; asyncio shows no more of its own."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


def notice(ours: Socket) -> None:
    """Have the kernel end a TCP connection whose peer has vanished, or such ones of a listener."""
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):
            ours.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def new_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket for an address as `getaddrinfo` tells it, which notices that."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    notice(made)
    return made
