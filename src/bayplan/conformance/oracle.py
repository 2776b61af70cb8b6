"""The real scheduler, asked over a pipe: the program that `make oracle` builds.

One line of JSON for a case, one for its answer. The program answers bad cases too; that it ends
before it answered is an error with what it said last.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import IO, Any, Self

from bayplan.errors import BayplanError

Body = dict[str, Any]
TRIES = 8
"""How often preemption is asked, which draws among equal candidates."""
_THRIFTY = {"GOMAXPROCS": "1", "GOGC": "1000"}
"""One case at a time needs one processor; rare collections save a third of its time."""
_FIELDS = ("id", "objects", "pod", "config", "gates")


class OracleFailed(BayplanError):
    """The oracle refused a case or is gone."""


class Oracle:
    """A running oracle. Use it as a context manager."""

    def __init__(self, program: str) -> None:
        self._program = program
        # a file and not a pipe: nobody reads it while cases are answered, and a full pipe blocks
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env={**os.environ, **_THRIFTY},
            )
        except OSError as problem:
            self._said.close()
            raise OracleFailed(
                f'starting the oracle "{program}": {problem}; "make oracle" builds it'
            ) from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the program."""
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                stream.close()
        self._process.terminate()
        self._process.wait()

    def describe(self) -> Body:
        """The version and the feature gates, each with `default`, `locked` and `stage`."""
        return self._ask({})

    def decide(self, case: Body, **more: Any) -> Body:
        """What the real scheduler decides; raise OracleFailed if it refuses the case."""
        self.begin(case, **more)
        return self.end(case)

    def begin(self, case: Body, **more: Any) -> None:
        """Hand over a case; the oracle works on it until `end` is called."""
        asked = {key: case[key] for key in _FIELDS if case.get(key) is not None}
        self._send({"tries": TRIES, **asked, **more})

    def end(self, case: Body) -> Body:
        """The answer to the case that was begun; raise OracleFailed if it was refused."""
        answer = self._receive()
        if "failed" in answer:
            raise OracleFailed(f'asking the oracle for "{case.get("id", "")}": {answer["failed"]}')
        expect: Body = answer["expect"]
        return expect

    def run(self, case: Body) -> Body:
        """What a run of the whole scheduler over all waiting pods writes, step by step."""
        return self.decide(case, run=True)

    def _ask(self, asked: Body) -> Body:
        self._send(asked)
        return self._receive()

    def _send(self, asked: Body) -> None:
        stdin, _ = self._pipes()
        try:
            stdin.write(json.dumps(asked, separators=(",", ":")).encode() + b"\n")
            stdin.flush()
        except OSError as problem:
            raise OracleFailed(f'asking the oracle "{self._program}": {problem}') from problem

    def _receive(self) -> Body:
        _, stdout = self._pipes()
        line = stdout.readline()
        if not line:
            self._process.wait()
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().splitlines()[-1:] or [
                "nothing"
            ]
            raise OracleFailed(f'the oracle "{self._program}" ended, saying: {last[0]}')
        answer: Body = json.loads(line)
        return answer

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout
