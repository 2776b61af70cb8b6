"""Sends nonsense to the global scheduler's API, without a network, and tells what broke.

    python -m tests.global_scheduler.fuzz --requests 10000 [--seed 1]

Bodies are valid questions in which something was removed, replaced or nested; paths and parameters
are drawn from those of the OpenAPI document. A 500 or an answer after five seconds is a failure.
"""

import argparse
import asyncio
import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

from bayplan.global_scheduler.files import must_load
from bayplan.global_scheduler.http import Api
from bayplan.global_scheduler.openapi import document
from bayplan.global_scheduler.placer import Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.store import MemoryStore

SAMPLE = Path(str(files("bayplan.global_scheduler") / "sample"))
SECONDS = 60.0
NAMES = ("site1", "nowhere", "%00", "é", "..", "a" * 3000, "0")
WORDS = ("", "0", "-1", "true", "1e400", "9" * 40, "site1", "\x00", "a,b", "2021-01-01T00:00:00Z")
VALUES = (None, True, 0, -1, 2**70, 1.5, "", "x", "\x00", "a" * 3000, [], {}, [None], {"": ""})


class Fuzzer:
    """Draws requests; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.valid = json.loads((SAMPLE / "sample_allocation_req_body.json").read_text("utf-8"))
        self.operations = [
            (method.upper(), path, [p["name"] for p in operation.get("parameters", ())])
            for path, found in document()["paths"].items()
            for method, operation in found.items()
            if method in ("get", "post", "put", "patch", "delete") and not path.endswith("stream")
        ]

    def mutated(self, value: Any) -> Any:
        draw = self.random.random()
        if draw < 0.05:
            return self.random.choice(VALUES)
        if draw < 0.055:
            return self.nested()
        if isinstance(value, dict):
            kept = {key: self.mutated(each) for key, each in value.items() if draw < 0.97}
            return kept | ({"unknown": 1} if draw > 0.95 else {})
        if isinstance(value, list):
            return [self.mutated(each) for each in value] * self.random.choice((1, 1, 1, 0, 3))
        return value

    def nested(self) -> Any:
        value: Any = "deep"
        for _ in range(self.random.choice((50, self.random.randint(330, 900)))):
            value = [value] if self.random.random() < 0.5 else {"a": value}
        return value

    def body(self) -> bytes:
        draw = self.random.random()
        if draw < 0.05:
            return self.random.randbytes(self.random.randrange(60))
        if draw < 0.07:
            return b'{"allocation":' + b"[" * self.random.choice((300, 20_000))
        body = json.dumps(self.mutated(self.valid)).encode()
        if draw < 0.12:
            return body.replace(b": 1", b": " + self.random.choice((b"1e400", b"9" * 5000)))
        return body

    def request(self) -> tuple[str, str, str, bytes]:
        method, path, parameters = self.random.choice(self.operations)
        if self.random.random() < 0.5:
            method, path, parameters = "POST", "/v1/allocations", ["dry_run"]
        while "{" in path:
            head, _, rest = path.partition("{")
            path = head + self.random.choice(NAMES) + rest.partition("}")[2]
        asked = [name for name in parameters if self.random.random() < 0.3]
        query = "&".join(f"{name}={self.random.choice(WORDS)}" for name in asked)
        return method, path, query, self.body() if method != "GET" else b""


async def ask(app: Any, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


async def fuzz(requests: int, seed: int) -> tuple[list[str], dict[int, int]]:
    """Send so many requests; return what failed and how often each status was answered."""
    base, fuzzer = must_load(SAMPLE), Fuzzer(seed)
    placer = Placer(base.policy, in_tree_registry())
    service = Allocations(MemoryStore(), base.inventory, placer, clock=lambda: 1000.0)
    await service.start()
    app, failures, seen = Api(service), [], dict[int, int]()
    for _ in range(requests):
        asked = fuzzer.request()
        shown = f"{asked[0]} {asked[1][:80]}?{asked[2][:80]} {asked[3][:400]!r}"
        try:
            async with asyncio.timeout(SECONDS):
                status, answer = await ask(app, *asked)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {shown}")
            continue
        seen[status] = seen.get(status, 0) + 1
        if status >= 500:
            failures.append(f"{status}: {shown} {answer[:200]!r}")
    await service.stop()
    return failures, seen


def main() -> None:
    parser = argparse.ArgumentParser(description="fuzz the global scheduler's API")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failures, seen = asyncio.run(fuzz(options.requests, options.seed))
    for failure in failures[:20]:
        print(failure)  # noqa: T201 - a program to be run by hand
    counts = ", ".join(f"{count} × {status}" for status, count in sorted(seen.items()))
    print(  # noqa: T201
        f"seed {options.seed}: {options.requests} requests, {len(failures)} failures; {counts}"
    )
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
