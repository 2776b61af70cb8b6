"""Ports for servers that must know theirs beforehand, because they are started again on it.

A server that can choose takes port 0. Where it cannot, a port that was free a moment ago may be
taken when the server comes: by the outgoing connection of any program, which the system gives ports
of its own range, or by another test. So these ports lie below that range, and each is held by a
locked file until this process ends.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOWEST = 16_384
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")  # Linux; elsewhere it starts at 49,152
OUTGOING_ELSEWHERE = 49_152


def free_port() -> int:
    """Return a TCP port of this machine's loopback that nobody else will take."""
    candidates = list(range(LOWEST, _outgoing()))
    random.SystemRandom().shuffle(candidates)  # a seeded test must not draw what another drew
    for port in candidates:
        if _hold(port):
            return port
    raise OSError("no free port below those for outgoing connections")


def _outgoing() -> int:
    """Return the lowest port that an outgoing connection can get."""
    try:
        return int(OUTGOING.read_text("ascii").split()[0])
    except OSError:
        return OUTGOING_ELSEWHERE


def _hold(port: int) -> bool:
    """Lock the port's file and see that nothing listens there."""
    folder = Path(tempfile.gettempdir()) / f"bayplan-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_WRONLY, 0o600)  # never closed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        return False
    return True
