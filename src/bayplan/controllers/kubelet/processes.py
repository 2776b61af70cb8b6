"""What runs inside a simulated container, and what it prints."""

from __future__ import annotations

import asyncio
import shlex
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from bayplan.controllers.kubelet.files import Files
from bayplan.controllers.kubelet.programs import FOREVER, PAUSE
from bayplan.controllers.kubelet.syntax import NotUnderstoodError

if TYPE_CHECKING:
    from bayplan.controllers.kubelet.shell import Run, Shell

MAX_LOG_BYTES = 1 << 18
LEAST_LINE = 16  # bytes that an emptier line counts as
MAX_LINE = 16 * 1024  # of a line that goes on; there a kubelet's logs are cut, too
MAX_STEPS = 2_000  # that a script may do at one moment
LONGEST_CATCH_UP = 3600.0
TERMINATED, KILLED = 143, 137
_SHELLS = ("sh", "bash", "ash", "/bin/sh", "/bin/bash", "/bin/ash")


class Log:
    """The last lines that a container wrote, each with its moment."""

    __slots__ = ("_bytes", "_waiting", "closed", "lines", "written")

    def __init__(self) -> None:
        self.lines: deque[tuple[float, bytes]] = deque()
        self.written = 0  # of all lines ever
        self.closed = False
        self._bytes = 0
        self._waiting: list[asyncio.Future[None]] = []

    def write(self, moment: float, data: bytes) -> None:
        lines = data.splitlines(keepends=True)
        if lines and self.begun:
            moment_before, before = self.lines.pop()
            self._bytes -= _size(before)
            self._add(moment_before, before + lines.pop(0))
            self.written -= 1
        skipped = max(len(lines) - MAX_LOG_BYTES // LEAST_LINE, 0)
        self.written += skipped
        for line in lines[skipped:]:
            self._add(moment, line)
        self._wake()

    def _add(self, moment: float, line: bytes) -> None:
        self.lines.append((moment, line))
        self.written += 1
        self._bytes += _size(line)
        while self._bytes > MAX_LOG_BYTES and len(self.lines) > 1:
            self._bytes -= _size(self.lines.popleft()[1])

    @property
    def begun(self) -> int:
        """Return how many bytes there are of a line that goes on."""
        last = self.lines[-1][1] if self.lines else b""
        return 0 if last.endswith(b"\n") or len(last) >= MAX_LINE else len(last)

    def since(self, written: int, begun: int) -> tuple[bytes, list[tuple[float, bytes]]]:
        """Return what came since then: the rest of the line that was `begun`, and new ones."""
        fresh, lines = self.written - written, list(self.lines)
        if fresh >= len(lines):
            return b"", lines
        first = len(lines) - fresh
        return lines[first - 1][1][begun:] if begun else b"", lines[first:]

    def close(self) -> None:
        self.closed = True
        self._wake()

    async def change(self) -> None:
        """Wait for more lines, or the end."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in self._waiting:
                self._waiting.remove(future)
            raise

    @property
    def followers(self) -> int:
        """Return how many wait for more."""
        return len(self._waiting)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _size(line: bytes) -> int:
    return max(len(line), LEAST_LINE)


class Writes(Protocol):
    """Takes what a process prints, with its moment."""

    def write(self, moment: float, data: bytes) -> None: ...


class Process:
    """Something that runs from a moment on; `code` is None until it has ended, at `ended`."""

    __slots__ = ("_due", "_run", "_shell", "_then", "code", "ended")

    def __init__(self, started: float) -> None:
        self._due = started
        self._shell: Shell | None = None
        self._run: Run | None = None
        self._then = 0
        self.code: int | None = None
        self.ended = 0.0

    @classmethod
    def fixed(cls, started: float, seconds: float, code: int) -> Process:
        """Return one that ends after so many seconds."""
        made = cls(started)
        made._due = started + seconds
        made._then = code
        return made

    @classmethod
    def script(
        cls,
        started: float,
        words: list[str],
        variables: Mapping[str, str],
        files: Files,
        log: Writes,
        given: bytes = b"",
    ) -> Process:
        """Return one that does what a command says. Raises NotUnderstoodError.

        What it is `given` is there for all of its commands that read, and also in /dev/stdin; for a
        shell without a script it is the script.
        """
        from bayplan.controllers.kubelet.shell import Shell  # most pods need none

        made = cls(started)
        text = shlex.join(words)
        if words[0] in _SHELLS:
            text = (
                given.decode(errors="replace") if given and words[1:] == [] else _script_of(words)
            )
        made._shell = Shell(
            text,
            variables,
            files.with_input(given),
            lambda data: log.write(made._due, data),
            lambda: made._due + files.wall,
            given,
        )
        made._run = made._shell.run()
        return made

    def advance(self, now: float) -> float:
        """Go on until now; return the moment of the next thing that happens."""
        if self.code is not None:
            return FOREVER
        if self._run is None:
            if self._due <= now:
                self._end(self._then)
            return self._due
        if now - self._due > LONGEST_CATCH_UP:  # it slept for long, or the whole cluster did
            self._due = now
        assert self._shell is not None
        limit = self._shell.steps + MAX_STEPS
        while self._due <= now and self.code is None:
            try:
                self._due += next(self._run)
            except StopIteration as stop:
                self._end(stop.value)
            if self._shell.steps > limit and self._due <= now:  # it hardly sleeps
                self._due = now + PAUSE
        return self._due

    def terminate(self, now: float) -> bool:
        """Tell it to end; returns whether it does something of its own then."""
        if self._shell is not None and self._shell.catches and self.code is None:
            self._shell.pending = 15
            self._due = now
            self.advance(now)
            return True
        return False

    def kill(self, now: float, code: int) -> None:
        if self.code is None:
            self._due = now
            self._end(code)

    @property
    def is_script(self) -> bool:
        return self._run is not None

    def _end(self, code: int) -> None:
        self.code = code
        self.ended = self._due
        self._run = None


def _script_of(words: list[str]) -> str:
    """Return what a shell is told to run. Raises NotUnderstoodError."""
    options = ""
    for number, word in enumerate(words[1:], 1):
        if not word.startswith("-"):
            break
        options += word[1:]
        if "c" in word and number + 1 < len(words):
            strict = "set -e\n" if "e" in options else ""
            return strict + words[number + 1]
    raise NotUnderstoodError("it is a shell that reads its input")
