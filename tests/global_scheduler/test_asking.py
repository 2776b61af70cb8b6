"""What the command line asks of a running global scheduler, and what it says of its answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from bayplan.errors import BayplanError, ConfigError
from bayplan.global_scheduler import ask

MOVE = {"allocation": "a", "name": "n", "from": "s1", "to": "s2"}
PLAN: dict[str, Any] = {"plan": {"moves": [MOVE], "fullest_before": 1.0, "fullest_after": 0.5}}


class Server:
    """Gives the answers of a list one after another, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[tuple[str, str, str | None, bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                token = self.headers.get("authorization")
                outer.asked.append((self.command, self.path, token, body))
                status, data = outer.answers.pop(0)
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _answer

            def log_message(self, *given: object) -> None:
                return None

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def says(self, *answers: Any) -> None:
        for answer in answers:
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            self.answers.append(
                (status, body if isinstance(body, bytes) else json.dumps(body).encode())
            )


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


ASKING = {
    "stranded": lambda url: ask.ask_stranded(url),
    "whatif": lambda url: ask.ask_what_if(url, ["s1"], [], []),
    "drain": lambda url: ask.ask_drain(url, "s1"),
    "rebalance": lambda url: ask.ask_rebalance(url, 3),
    "why": lambda url: ask.ask_why(url, "an-id"),
}


@pytest.mark.parametrize("what", ASKING)
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({}, "does not answer as a global scheduler; --server names another"),
        (b"<html>", "does not answer as a global scheduler; --server names another"),
        ((404, {}), "does not answer as a global scheduler; --server names another"),
        ((500, b""), "does not answer as a global scheduler; --server names another"),
        ((409, {"error_message": "no room"}), "no room"),
        ((401, {}), "refuses the token; --token-file names it"),
        ((403, b"no"), "refuses the token; --token-file names it"),
    ],
    ids=["other", "page", "404", "500", "refused", "401", "403"],
)
def test_what_is_no_answer_is_told(server: Server, what: str, answer: Any, text: str) -> None:
    server.says(answer)

    with pytest.raises(BayplanError) as problem:
        ASKING[what](server.url)

    said = str(problem.value)
    assert said == (text if text == "no room" else f"{server.url} {text}")
    assert 1 == len(server.asked)


@pytest.mark.parametrize("what", ASKING)
def test_where_nobody_is_that_is_told(what: str) -> None:
    with pytest.raises(BayplanError, match=r"^cannot reach http://127\.0\.0\.1:1: .*refused; is"):
        ASKING[what]("http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="must be an http or https URL, got ftp://there/v1"):
        ASKING[what]("ftp://there")


def test_moves_of_a_plan_are_carried_out_where_that_is_asked_for(server: Server) -> None:
    done = {"moves": [MOVE]}
    server.says(PLAN, PLAN, done)

    only = ask.ask_rebalance(server.url + "/", 7)
    both = ask.ask_rebalance(server.url, 7, "secret", apply=True)

    assert only == both
    assert [
        ("GET", "/v1/rebalance?moves=7", None, b""),
        ("GET", "/v1/rebalance?moves=7", "Bearer secret", b""),
    ] == server.asked[:2]
    method, path, token, body = server.asked[2]
    assert ("POST", "/v1/rebalance", "Bearer secret") == (method, path, token)
    assert [MOVE] == json.loads(body)["moves"]


def test_moves_that_failed_are_named(server: Server) -> None:
    failed = {"moves": [MOVE, MOVE | {"problem": "no room"}]}
    server.says(
        PLAN, failed, PLAN, {}, {"plan": {"moves": [], "fullest_before": 1.0, "fullest_after": 0.5}}
    )

    with pytest.raises(BayplanError, match=r"^1 of 2 moves failed: a: no room$"):
        ask.ask_rebalance(server.url, 1, apply=True)
    with pytest.raises(BayplanError, match="does not answer as a global scheduler"):
        ask.ask_rebalance(server.url, 1, apply=True)
    nothing = ask.ask_rebalance(server.url, 1, apply=True)

    assert (0, 5) == (len(nothing.moves), len(server.asked)), "no moves, nothing to carry out"


def test_a_drained_site_is_taken_up_again_without_an_answer(server: Server) -> None:
    server.says((204, b""))

    assert ask.ask_drain(server.url, "a/b", undo=True) is None
    assert ("DELETE", "/v1/sites/a%2Fb/drain") == server.asked[0][:2]


def test_files_are_added_up_in_a_question(server: Server, tmp_path: Path) -> None:
    one, two, bad = tmp_path / "one.json", tmp_path / "two.json", tmp_path / "bad.json"
    one.write_text('{"sites": [1, 2], "hosts": 3}')
    two.write_text('{"sites": [4]}')
    bad.write_text("[")
    server.says({})

    with pytest.raises(BayplanError):
        ask.ask_what_if(server.url, ["s1"], [one, two], [two])
    question = json.loads(server.asked[0][3])

    assert {"sites": [1, 2, 4], "hosts": [3]} == question["add"]
    assert (["s1"], [{"sites": [4]}]) == (question["lose"], question["place"])
    for path in (bad, tmp_path / "none.json"):
        with pytest.raises(ConfigError, match=path.name):
            ask.ask_what_if(server.url, [], [path], [])


def test_why_is_asked_of_a_file_or_of_an_id(server: Server, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text('{"allocation": {}}')
    for what in (str(request), "an id"):
        server.says({})
        with pytest.raises(BayplanError):
            ask.ask_why(server.url, what)
    for what in ("none.json", "no/file"):
        with pytest.raises(ConfigError, match=f"{what}: there is no such file"):
            ask.ask_why(server.url, what)

    assert [
        ("POST", "/v1/allocations?dry_run=true&explain=true", None, b'{"allocation": {}}'),
        ("GET", "/v1/allocations/an%20id?explain=true", None, b""),
    ] == server.asked
