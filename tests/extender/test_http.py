"""The calls to extenders, byte by byte: how answers end, which calls are repeated, what is told."""

import contextlib
import gzip
import select
import socket
import threading
import time

import pytest

from bayplan.extender import http
from bayplan.extender.http import Call, _request
from bayplan.framework.contract.extender import ExtenderError
from tests.test_vanished import KEPT_ALIVE, kept_alive

CLOSE = None


@contextlib.contextmanager
def scripted(*connections):
    """Serve one list of answers a connection, then close it; yields URL and received requests."""
    listener = socket.create_server(("127.0.0.1", 0))
    received: list[bytes] = []

    def serve():
        for answers in connections:
            with contextlib.suppress(OSError), listener.accept()[0] as peer:
                for answer in answers:
                    request = peer.recv(65536)
                    if not request:
                        break
                    received.append(request)
                    if answer is CLOSE:
                        break
                    peer.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/filter", received
    finally:
        listener.close()


def sized(body, length=None, extra=b""):
    size = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (size, extra, body)


def ask(caller, url, **settings):
    return caller.begin(Call(url, "filter", b"{}", 20.0, **settings))()


def test_an_answer_without_a_length_ends_with_the_connection(caller):
    """As Python's http.server answers by default."""
    with scripted([b"HTTP/1.0 200 OK\r\n\r\n[1, 2]"]) as (url, _):
        assert b"[1, 2]" == ask(caller, url)


def test_an_answer_shorter_than_its_length_is_an_error(caller):
    with (
        scripted([sized(b"half", 8)]) as (url, _),
        pytest.raises(ExtenderError, match="closed before the answer's end"),
    ):
        ask(caller, url)


def test_a_connection_closed_without_an_answer_is_an_error(caller):
    with (
        scripted([CLOSE]) as (url, received),
        pytest.raises(ExtenderError, match="closed before the answer's end"),
    ):
        ask(caller, url)
    assert 1 == len(received)


def test_a_kept_connection_that_the_server_closed_is_replaced(caller):
    with scripted([sized(b"one"), CLOSE], [sized(b"two")]) as (url, received):
        answers = [ask(caller, url), ask(caller, url)]

    assert [b"one", b"two"] == answers
    assert 3 == len(received)


def test_a_call_that_must_not_be_made_twice_is_not_repeated(caller):
    with scripted([sized(b"one"), CLOSE], [sized(b"two")]) as (url, received):
        ask(caller, url)
        with pytest.raises(ExtenderError, match="closed before"):
            ask(caller, url, repeatable=False)

    assert 2 == len(received)


def test_a_call_that_must_not_be_made_twice_takes_no_connection_that_has_ended(caller):
    with scripted([sized(b"one")], [sized(b"two")]) as (url, received):
        ask(caller, url)
        ((idle,),) = caller._idle.values()
        select.select([idle.socket], [], [], 60)  # until its end has come

        assert b"two" == ask(caller, url, repeatable=False)
    assert 2 == len(received)


def test_the_kernel_looks_whether_an_extender_is_still_there(caller):
    with scripted([sized(b"one")]) as (url, _):
        ask(caller, url)
        ((idle,),) = caller._idle.values()

        assert KEPT_ALIVE == kept_alive(idle.socket)


def test_a_connection_that_the_server_will_close_is_not_used_again(caller):
    first = sized(b"one", extra=b"Connection: close\r\n")
    with scripted([first], [sized(b"two")]) as (url, received):
        answers = [ask(caller, url), ask(caller, url)]

    assert ([b"one", b"two"], 2) == (answers, len(received))


def test_no_server_is_told_in_the_systems_words(caller):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(ExtenderError, match=f"URL http://127.0.0.1:{port}/x: .*refused"):
        ask(caller, f"http://127.0.0.1:{port}/x")


@pytest.mark.parametrize(
    ("url", "host", "port", "line"),
    [
        ("http://one/filter", "one", 80, b"Host: one:80"),
        ("http://one:8080/filter", "one", 8080, b"Host: one:8080"),
        ("http://[::1]:8080/filter", "::1", 8080, b"Host: [::1]:8080"),
    ],
)
def test_where_a_call_goes(url, host, port, line):
    found_host, found_port, request = _request(Call(url, "filter", b"{}", 1.0))

    assert (host, port) == (found_host, found_port)
    assert line in request.split(b"\r\n")


def test_only_addresses_of_other_machines_ask_for_compression():
    local, far = (
        _request(Call(f"http://{host}/x", "filter", b"", 1.0))[2] for host in ("127.0.0.1", "one")
    )

    assert (False, True) == (b"Accept-Encoding" in local, b"Accept-Encoding" in far)


def test_what_is_no_http_address_is_refused_before_it_is_asked(caller):
    with pytest.raises(ExtenderError, match='"ftp://x/y" is not an HTTP address'):
        ask(caller, "ftp://x/y")


def test_a_call_is_ready_when_its_answer_is_whole(caller):
    """Until then looking costs nothing and changes nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    pending = caller.begin(
        Call(f"http://127.0.0.1:{listener.getsockname()[1]}/f", "filter", b"{}", 60.0)
    )
    with listener, listener.accept()[0] as peer:
        whole = sized(b"text")
        before = pending.ready()
        peer.sendall(whole[:-2])
        half = pending.ready()
        peer.sendall(whole[-2:])
        deadline = time.monotonic() + 60
        while not (ready := pending.ready()) and time.monotonic() < deadline:
            time.sleep(0.001)

        assert (False, False, True, b"text") == (before, half, ready, pending())


def test_an_answer_that_ends_with_its_connection_is_ready_then(caller):
    with scripted([b"HTTP/1.1 200 OK\r\n\r\ntext"]) as (url, _):
        pending = caller.begin(Call(url, "filter", b"{}", 60.0))
        deadline = time.monotonic() + 60
        while not (ready := pending.ready()) and time.monotonic() < deadline:
            time.sleep(0.001)

        assert (True, b"text") == (ready, pending())


def test_a_packed_answer_is_unpacked(caller):
    packed = sized(gzip.compress(b"text"), extra=b"Content-Encoding: GZIP\r\n")
    with scripted([packed]) as (url, _):
        assert b"text" == ask(caller, url)


def test_only_so_many_connections_are_kept(caller, monkeypatch):
    monkeypatch.setattr(http, "IDLE_PER_PLACE", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/f"
    with listener:
        pending = [caller.begin(Call(url, "filter", b"{}", 60.0)) for _ in range(2)]
        peers = [listener.accept()[0] for _ in pending]
        for peer in peers:
            peer.sendall(sized(b"text"))
        answers = [each() for each in pending]
        for peer in peers:
            peer.close()

    assert ([b"text", b"text"], 1) == (answers, sum(map(len, caller._idle.values())))


def test_kept_connections_that_were_closed_are_passed_over_when_sending_fails(caller):
    with scripted([sized(b"one")], [sized(b"two")]) as (url, _):
        assert b"one" == ask(caller, url)
        ((idle,),) = caller._idle.values()
        broken, other = socket.socketpair()
        with idle.socket, broken, other:
            broken.shutdown(socket.SHUT_WR)  # writing to it fails at once
            idle.socket = broken

            assert b"two" == ask(caller, url)


def test_a_caller_that_ends_fails_the_calls_that_wait(caller):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/f"
        pending = caller.begin(Call(url, "filter", b"{}", 60.0))
        before = pending.ready()
        caller.close()

        assert (False, True) == (before, pending.ready())
        with pytest.raises(ExtenderError, match="failed filter with extender"):
            pending()


def test_an_answer_that_is_there_and_not_wanted_leaves_its_connection_free(caller):
    with scripted([sized(b"one"), sized(b"two")]) as (url, _):
        pending = caller.begin(Call(url, "filter", b"{}", 60.0))
        deadline = time.monotonic() + 60
        while not pending.ready() and time.monotonic() < deadline:
            time.sleep(0.001)
        pending.drop()

        assert 1 == sum(map(len, caller._idle.values()))
        assert b"two" == ask(caller, url)


def test_a_call_is_made_again_on_a_connection_that_is_new(caller):
    """Where one that was kept is dead, so are the others: the server was started again."""
    with scripted([sized(b"one")], [sized(b"two")], [sized(b"three")]) as (url, _):
        pending = [caller.begin(Call(url, "filter", b"{}", 60.0)) for _ in range(2)]

        assert [b"one", b"two"] == [each() for each in pending]
        assert b"three" == ask(caller, url)
