"""Starts extenders on loopback for tests: ours on uvicorn, and a plain one on http.server."""

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn

from bayplan.extender import Extender
from bayplan.extender.serve import Listen, uvicorn_config
from bayplan.listening import listen as open_socket


@contextlib.contextmanager
def serving(app: Extender, **listen: object) -> Iterator[str]:
    """Serve an extender; yields its URL."""
    config = uvicorn_config(app, Listen(**listen))
    server = uvicorn.Server(config)
    listener = open_socket("127.0.0.1", 0, "--bind")
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < deadline, "the extender did not start"
        time.sleep(0.005)
    scheme = "https" if config.is_ssl else "http"
    try:
        yield f"{scheme}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()


Answer = Callable[[str, dict], tuple[int, bytes]]


@contextlib.contextmanager
def plain_server(answer: Answer) -> Iterator[str]:
    """Serve `answer(path, body)` with http.server, as a small team's extender would."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, text = answer(self.path, json.loads(body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
