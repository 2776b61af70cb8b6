"""The kernel looks whether the other side of a connection is still there, on either side of it."""

import socket

from bayplan import vanished
from bayplan.listening import listen

KEPT_ALIVE = (1, vanished.IDLE, vanished.BETWEEN, vanished.TIMES)


def kept_alive(connection):
    """How the kernel watches over a connection."""
    options = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    asks = connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    tcp = socket.IPPROTO_TCP
    return asks, *(connection.getsockopt(tcp, getattr(socket, name)) for name in options)


def test_a_server_looks_whether_its_clients_are_still_there():
    with (
        listen("127.0.0.1", 0, "--bind") as listener,
        socket.create_connection(listener.getsockname()),
    ):
        listener.setblocking(True)
        with listener.accept()[0] as accepted:
            assert KEPT_ALIVE == kept_alive(accepted)
