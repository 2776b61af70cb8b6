"""Ports that a test names to a server are still free when the server comes."""

import socket
import subprocess
import sys

from bayplan.testing import ports

DRAW = "from bayplan.testing.ports import free_port; print(*(free_port() for _ in range(20)))"


def test_no_outgoing_connection_can_sit_on_them():
    drawn = [ports.free_port() for _ in range(50)]

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as outgoing,
    ):
        assert max(drawn) < ports._outgoing() <= outgoing.getsockname()[1]


def test_two_processes_never_draw_the_same(monkeypatch):
    monkeypatch.setattr(ports, "LOWEST", ports._outgoing() - 40)
    code = f"from bayplan.testing import ports; ports.LOWEST = {ports.LOWEST}; {DRAW}"
    mine = {ports.free_port() for _ in range(10)}

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert 20 == len(theirs := {int(word) for word in printed.stdout.split()})
    assert not mine & theirs


def test_a_port_that_somebody_listens_on_is_passed_over():
    lowest = ports._outgoing() - 80
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", lowest))
        taken.listen()

        assert not ports._hold(lowest)
