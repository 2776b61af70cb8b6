"""Stands in for etcd under envtest: says that it is healthy until it is told to stop.

The API server beside it keeps objects itself. Run by its path, with nothing but the standard
library, so that it is there at once.
"""

import signal
import socket
import sys
from urllib.parse import urlsplit

HEALTHY = b'{"health":"true","reason":""}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Connection: close\r\n\r\n%s" % (len(HEALTHY), HEALTHY)
)


def option(arguments: list[str], name: str) -> str:
    """The value of `--name=value` or `--name value`; empty if it is not there."""
    for at, each in enumerate(arguments):
        if each.startswith(f"--{name}="):
            return each.partition("=")[2]
        if each == f"--{name}" and at + 1 < len(arguments):
            return arguments[at + 1]
    return ""


def main(arguments: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    given = option(arguments, "listen-client-urls").partition(",")[0] or "http://127.0.0.1:2379"
    where = urlsplit(given)
    listener = socket.create_server((where.hostname or "127.0.0.1", where.port or 2379))
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(5)
            try:
                connection.recv(4096)
                connection.sendall(ANSWER)
            except OSError:
                continue


if __name__ == "__main__":
    main(sys.argv[1:])
