"""Requests that schemathesis makes from the server's own OpenAPI documents.

    python -m tests.apiserver.fuzz_schema --examples 40

Every operation of every group is asked with objects and parameters that fit its schema. As in
`fuzz.py`, an unexpected exception or a hang is a failure. Watches are left out: a stream that stays
open is no failure.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from bayplan.store.memory import MemoryStore
from tests.apiserver.api import Api
from tests.apiserver.fuzz import SECONDS

LEFT_OUT = {"watch", "timeoutSeconds", "resourceVersion", "sendInitialEvents"}


def without_watches(document: dict[str, Any]) -> dict[str, Any]:
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "parameters" in operation:
                kept = [p for p in operation["parameters"] if p.get("name") not in LEFT_OUT]
                operation["parameters"] = kept
    return document


class SchemaFuzzer:
    """Asks one server everything that its schema describes."""

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self.loop = asyncio.new_event_loop()
        self.api = self.loop.run_until_complete(Api.start(MemoryStore(max_events=500)))
        self.failures: list[str] = []
        self.requests = 0

    def close(self) -> None:
        self.loop.run_until_complete(self.api.close())
        self.loop.close()

    def run(self, groups: list[str]) -> None:
        for group in groups:
            path = f"/openapi/v3/{group}"
            document = self.loop.run_until_complete(self.api.ok("GET", path))
            schema = schemathesis.openapi.from_dict(without_watches(document))
            for found in schema.get_all_operations():
                self._operation(found.ok())

    def groups(self) -> Iterator[str]:
        index = self.loop.run_until_complete(self.api.ok("GET", "/openapi/v3"))
        yield from (path for path in index["paths"] if path.count("/") >= 1)

    def _operation(self, operation: Any) -> None:
        @given(case=operation.as_strategy())
        @settings(
            max_examples=self.examples,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Any) -> None:
            self._ask(case)

        try:
            ask()
        except Unsatisfiable:
            return  # nothing fits the schema; there is nothing to ask

    def _ask(self, case: Any) -> None:
        path = case.path
        for name, value in (case.path_parameters or {}).items():
            path = path.replace("{" + name + "}", quote(str(value), safe=""))
        target = f"{path}?{urlencode(case.query or {}, doseq=True)}"
        body = case.body if isinstance(case.body, dict | list | str | int | float) else None
        headers = {"content-type": case.media_type or "application/json"}
        data = None if body is None else json.dumps(body).encode()
        self.requests += 1
        before = self.api.server.failures
        try:
            answer = self.loop.run_until_complete(
                asyncio.wait_for(self.api.call(case.method.upper(), target, data, headers), SECONDS)
            )
        except TimeoutError:
            self.failures.append(f"hangs: {case.method} {target} {data!r:.300}")
            return
        if self.api.server.failures != before:
            self.failures.append(f"{answer.status}: {case.method} {target} {data!r:.600}")


def main() -> None:
    parser = argparse.ArgumentParser(description="fuzz the API server by its schema")
    parser.add_argument("--examples", type=int, default=20, help="requests an operation")
    parser.add_argument("--groups", default="", help="comma-separated, for example apis/apps/v1")
    options = parser.parse_args()
    fuzzer = SchemaFuzzer(options.examples)
    fuzzer.run(options.groups.split(",") if options.groups else list(fuzzer.groups()))
    for failure in fuzzer.failures[:20]:
        print(failure)  # noqa: T201 - a program to be run by hand
    print(f"{fuzzer.requests} requests, {len(fuzzer.failures)} failures")  # noqa: T201
    fuzzer.close()
    raise SystemExit(bool(fuzzer.failures))


if __name__ == "__main__":
    main()
