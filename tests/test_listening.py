"""A server whose address is taken says so in one sentence, and nothing else does."""

import socket

import pytest

from bayplan.errors import CannotListen
from bayplan.extender import Extender
from bayplan.extender.serve import Listen, serve
from bayplan.listening import listen


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_taken_port_is_told_with_the_flag(taken):
    with pytest.raises(CannotListen, match=f'"127.0.0.1:{taken}".*choose another --bind'):
        listen("127.0.0.1", taken, "--bind")


def test_a_socket_of_port_zero_has_a_number():
    with listen("127.0.0.1", 0, "--bind") as listener:
        assert listener.getsockname()[1] > 0


def test_an_extender_adds_no_words_of_its_server(taken, capfd):
    with pytest.raises(CannotListen, match="another server is there"):
        serve(Extender(), Listen(port=taken), lambda port: None)

    assert ("", "") == capfd.readouterr()
