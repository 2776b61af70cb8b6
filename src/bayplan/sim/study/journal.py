"""Finished runs, a line each, so that a sweep that was ended goes on where it was.

`OUT.runs.jsonl` beside the results: a run is looked up by its key, which stands for all that it
hangs on; so a longer plan runs only what is new. A line that was cut by a kill is left out.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bayplan.errors import BayplanError
from bayplan.sim.study.run import Outcome

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Outcome).decode


class Journal:
    """The file, and what it held when it was opened."""

    def __init__(self, results: Path) -> None:
        self.path = results.with_name(results.name + ".runs.jsonl")
        self.known: dict[str, Outcome] = {}
        try:
            data = self.path.read_bytes() if self.path.exists() else b""
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                outcome = _decode(line)
                self.known[outcome.key] = outcome
            self._file = self.path.open("ab")
            self._file.truncate(len(whole))
        except OSError as problem:
            raise BayplanError(
                f"journal {self.path}: {problem.strerror}; choose another --out"
            ) from problem
        except msgspec.DecodeError as problem:
            said = f"journal {self.path} holds something else: {problem}; move it away"
            raise BayplanError(said) from problem

    def add(self, outcome: Outcome) -> None:
        """Keep a finished run; a failed one is tried again next time."""
        self.known[outcome.key] = outcome
        if not outcome.error:
            self._file.write(_encode(outcome) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file; one without a finished run is taken away."""
        empty = not self._file.seek(0, os.SEEK_END)
        self._file.close()
        if empty:
            self.path.unlink(missing_ok=True)
