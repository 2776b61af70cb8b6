"""Opens the socket of a server before the server, so that a taken address is told in our words."""

from __future__ import annotations

import socket

from bayplan.errors import CannotListen

BACKLOG = 1024


def listen(host: str, port: int, flag: str) -> socket.socket:
    """Listen on an address (port 0: any free one); `flag` is what a user would change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise CannotListen(f"{host}:{port}", flag, error) from error
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener
