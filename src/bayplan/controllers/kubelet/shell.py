"""Runs a script as a simulated container would: it prints, sleeps, leaves files and ends.

`Shell.run` is a generator: it yields the seconds that the script sleeps and returns its exit code,
so whoever drives it decides what time is. Work is counted in steps: a command is one, long texts
that it reads, prints or consists of are more. A script that works without ever sleeping is made to
sleep from time to time; one command, and what is inside of $(…), where sleeping takes no time, may
take only so many steps. So none can hold the process, or fill its memory.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NoReturn
from zlib import crc32

from bayplan.controllers.kubelet.files import Files, FilesError
from bayplan.controllers.kubelet.programs import PAUSE, PROGRAMS, Call, is_program
from bayplan.controllers.kubelet.syntax import (
    Command,
    For,
    Function,
    If,
    Loop,
    Node,
    NotUnderstoodError,
    Pipe,
    Sequence,
    parse,
)
from bayplan.controllers.kubelet.words import MAX_TEXT, TOO_LONG, expand, text_of

Run = Generator[float, None, int]
MAX_STEPS = 500  # between two sleeps
MAX_INSIDE = 2_000  # the same where $(…) keeps it from sleeping
MAX_ONE = 5_000  # of one command
STEP_BYTES, STEP_LINES = 4096, 64  # that are read or printed in one step
STEP_PARSED, STEP_EXPANDED = 16, 64  # characters of a script
STEP_VARIABLES = 100
MAX_CAPTURE = 1 << 18
MAX_VARIABLES = 1 << 20  # bytes of all that a script sets
MAX_DEPTH = 20
NOT_FOUND, WRONG, FAILED = 127, 2, 1
_BUILT_IN = (
    "exit",
    "return",
    "break",
    "continue",
    "trap",
    "export",
    "set",
    "unset",
    "wait",
    "local",
)
_SIGNALS = {"TERM": 15, "SIGTERM": 15, "15": 15, "INT": 2, "SIGINT": 2, "EXIT": 0, "0": 0}


class _Leave(Exception):
    """Ends the script, a function or a loop."""

    def __init__(self, what: str, code: int) -> None:
        self.what = what
        self.code = code


class Shell:
    """One script with its variables; `out` gets what it prints."""

    def __init__(
        self,
        text: str,
        variables: Mapping[str, str],
        files: Files,
        out: Callable[[bytes], None],
        now: Callable[[], float],
        given: bytes = b"",
    ) -> None:
        self._tree = parse(text)
        check(self._tree)
        self._variables = {**variables, "?": "0"}
        self._exported = set(variables)
        self._files = files
        self._out = out
        self._now = now
        self._functions: dict[str, Sequence] = {}
        self._traps: dict[int, str] = {}
        self._exit_on_error = False
        self._given = given
        self.steps = 0  # of all that it has done
        self._rested = 0  # the steps when it last slept
        self._limit = sys.maxsize  # the steps at which it must have done what cannot be cut short
        self._depth = 0
        self._held = 0  # bytes that variables have grown by
        self._random = crc32(variables.get("HOSTNAME", "").encode()) & 0x7FFFFFFF
        self.pending: int | None = None  # a signal that came while the script slept

    @property
    def catches(self) -> bool:
        """Whether the script does something when it is told to end."""
        return bool(self._traps.get(15))

    def run(self) -> Run:
        """Run the script to its end."""
        try:
            code = yield from self._sequence(self._tree)
        except _Leave as leave:
            code = leave.code
        except (NotUnderstoodError, RecursionError) as error:
            self._out(f"sh: {error}\n".encode())
            return WRONG
        if text := self._traps.pop(0, ""):
            yield from self._again(text)
        return code & 255

    def _again(self, text: str) -> Run:
        return (yield from self._sequence(self._parse(text)))

    def _parse(self, text: str) -> Sequence:
        self._spend(len(text) // STEP_PARSED)
        return parse(text)

    def _sequence(self, tree: Sequence) -> Run:
        code = int(self._variables["?"])
        for before, node in tree.items:
            if (before == "&&" and code) or (before == "||" and not code):
                continue
            code = yield from self._node(node)
            self._variables["?"] = str(code)
            if self._exit_on_error and code and isinstance(node, Command | Pipe):
                raise _Leave("exit", code)
        return code

    def _node(self, node: Node) -> Run:
        self._spend(1)
        if self.steps - self._rested > MAX_STEPS:
            yield from self._sleep(PAUSE)
        match node:
            case Command():
                return (yield from self._command(node, self._given))
            case Pipe():
                return (yield from self._pipe(node))
            case Sequence():
                return (yield from self._sequence(node))
            case If():
                return (yield from self._if(node))
            case Loop():
                return (yield from self._loop(node))
            case For():
                return (yield from self._for(node))
            case Function():
                self._functions[node.name] = node.body
                return 0

    def _sleep(self, seconds: float) -> Generator[float, None, None]:
        self._rested = self.steps
        yield seconds
        signal, self.pending = self.pending, None
        if signal is not None and (text := self._traps.get(signal)):
            yield from self._again(text)

    def _if(self, node: If) -> Run:
        for condition, body in node.branches:
            if not (yield from self._quietly(condition)):
                return (yield from self._sequence(body))
        return (yield from self._sequence(node.otherwise)) if node.otherwise else 0

    def _quietly(self, condition: Sequence) -> Run:
        """Run what may fail without ending the script."""
        strict, self._exit_on_error = self._exit_on_error, False
        try:
            return (yield from self._sequence(condition))
        finally:
            self._exit_on_error = strict

    def _loop(self, node: Loop) -> Run:
        code = 0
        while bool((yield from self._quietly(node.condition))) == node.until:
            self._spend(1)
            if self.steps - self._rested > MAX_STEPS:
                yield from self._sleep(PAUSE)
            try:
                code = yield from self._sequence(node.body)
            except _Leave as leave:
                if leave.what == "break":
                    break
                if leave.what != "continue":
                    raise
        return code

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._limit:
            raise NotUnderstoodError("a command, or what is inside of $(…), does too much at once")

    def _set(self, name: str, value: str) -> None:
        before = self._variables.get(name)
        self._held += len(value) - (-len(name) if before is None else len(before))
        if self._held > MAX_VARIABLES:
            raise NotUnderstoodError("variables of more than 1 MiB together")
        self._variables[name] = value

    def _read(self, path: str) -> bytes:
        found = self._files.read(path)
        self._spend(len(found) // STEP_BYTES)
        return found

    def _counted(self, put: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Return how a program writes where `put` does, which counts as work."""

        def write(data: bytes) -> None:
            self._spend(len(data) // STEP_BYTES + data.count(b"\n") // STEP_LINES)
            put(data)

        return write

    def _words(self, raws: Iterable[str]) -> list[str]:
        """Return what the words of a command become. Raises NotUnderstoodError."""
        found, length = list[str](), 0
        for raw in raws:
            self._spend(len(raw) // STEP_EXPANDED)
            words = self._expand(raw)
            found += words
            length = self._longer(length, *words)
        return found

    def _assignments(self, node: Command) -> dict[str, str]:
        """Return what stands before a command. Raises NotUnderstoodError."""
        found, length = dict[str, str](), 0
        for name, raw in node.sets:
            self._spend(len(raw) // STEP_EXPANDED)
            found[name] = text_of(raw, self._variables, self._capture)
            length = self._longer(length, found[name])
        return found

    def _longer(self, length: int, *texts: str) -> int:
        """Return how long the texts of a command are with these. Raises NotUnderstoodError."""
        more = sum(map(len, texts))
        self._spend(more // STEP_BYTES)
        if length + more > MAX_TEXT:
            raise NotUnderstoodError(TOO_LONG)
        return length + more

    def _for(self, node: For) -> Run:
        code = 0
        for word in self._words(node.words):
            self._set(node.name, word)
            try:
                code = yield from self._sequence(node.body)
            except _Leave as leave:
                if leave.what == "break":
                    break
                if leave.what != "continue":
                    raise
        return code

    def _pipe(self, node: Pipe) -> Run:
        given, code = self._given, 0
        for number, part in enumerate(node.parts):
            last = number == len(node.parts) - 1
            held = bytearray()
            out = self._out
            if not last:
                self._out = _holder(held)
            try:
                if isinstance(part, Command):
                    code = yield from self._command(part, given)
                else:
                    code = yield from self._node(part)
            finally:
                self._out = out
            given = bytes(held)
        return code

    def _command(self, node: Command, given: bytes) -> Run:
        self._random = (self._random * 1103515245 + 12345) & 0x7FFFFFFF
        self._variables["RANDOM"] = str(self._random >> 16)
        words = self._words(node.words)
        sets = self._assignments(node)
        if not words:
            for name, text in sets.items():
                self._set(name, text)
            return int(self._variables["?"]) if not sets else 0
        try:
            out, err, given = self._redirected(node, given)
        except FilesError as error:
            self._out(f"sh: {error}\n".encode())
            return FAILED
        name = words[0].rpartition("/")[2]
        if name in _BUILT_IN:
            return self._built_in(name, words[1:])
        if name in self._functions:
            return (yield from self._call(self._functions[name]))
        if name in ("sh", "bash") and words[1:2] == ["-c"] and len(words) > 2:
            return (yield from self._again(words[2]))
        program = PROGRAMS.get(name)
        if program is None:
            err(f"sh: {words[0]}: not found\n".encode())
            return NOT_FOUND
        visible = {k: v for k, v in self._variables.items() if k in self._exported} | sets
        self._spend(len(self._variables) // STEP_VARIABLES + len(given) // STEP_BYTES)
        write, complain = self._counted(out), self._counted(err)
        call = Call(words, visible, self._files, self._read, write, complain, given, self._now)
        limit, self._limit = self._limit, min(self._limit, self.steps + MAX_ONE)
        try:
            code, seconds = program(call)
        except FilesError as error:
            err(f"{name}: {error}\n".encode())
            return FAILED
        finally:
            self._limit = limit
        if seconds:
            yield from self._sleep(seconds)
        return code

    def _call(self, body: Sequence) -> Run:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Leave("exit", FAILED)
        try:
            return (yield from self._sequence(body))
        except _Leave as leave:
            if leave.what != "return":
                raise
            return leave.code
        finally:
            self._depth -= 1

    def _redirected(
        self, node: Command, given: bytes
    ) -> tuple[Callable[[bytes], None], Callable[[bytes], None], bytes]:
        out = err = self._out
        for how, raw in node.redirects:
            if how == "2>&1":
                err = out
                continue
            path = text_of(raw, self._variables, self._capture)
            if how == "<":
                given = self._read(path)
                continue
            writer = self._writer(path, append=">>" in how)
            if how.startswith("2"):
                err = writer
            else:
                out, err = writer, writer if how == "&>" else err
        return out, err, given

    def _writer(self, path: str, *, append: bool) -> Callable[[bytes], None]:
        if path in ("/dev/null", "/dev/stdout", "/dev/stderr", "/proc/1/fd/1"):
            return (lambda data: None) if path == "/dev/null" else self._out
        if not append:
            self._files.write(path, b"")
        return lambda data: self._files.write(path, data, append=True)

    def _expand(self, raw: str) -> list[str]:
        return expand(raw, self._variables, self._capture)

    def _capture(self, text: str) -> str:
        """Run the commands of $(…); what sleeps in there takes no time."""
        held = bytearray()
        out, limit, rested = self._out, self._limit, self._rested
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Leave("exit", FAILED)
        self._out, self._limit = _holder(held), min(limit, rested + MAX_INSIDE)
        try:
            for _ in self._sequence(self._parse(text)):
                pass
        finally:
            self._out, self._limit, self._rested = out, limit, rested
            self._depth -= 1
        return held.decode(errors="replace")

    def _built_in(self, name: str, words: list[str]) -> int:
        if name in ("exit", "return", "break", "continue"):
            self._leave(name, words)
        if name == "trap" and words:
            for signal in words[1:]:
                if signal in _SIGNALS:
                    self._traps[_SIGNALS[signal]] = words[0] if words[0] != "-" else ""
        elif name in ("export", "local"):
            for word in words:
                key, equals, value = word.partition("=")
                self._exported.add(key)
                if equals:
                    self._set(key, value)
        elif name == "set" and any(w.startswith("-") and "e" in w for w in words):
            self._exit_on_error = True
        elif name == "unset":
            for word in words:
                self._held -= len(self._variables.pop(word, ""))
        return 0

    def _leave(self, name: str, words: list[str]) -> NoReturn:
        text = words[0] if words else ""
        code = int(text) if re.fullmatch("[0-9]{1,9}", text) else int(self._variables["?"])
        raise _Leave(name, code if name in ("exit", "return") else 0)


def _holder(held: bytearray) -> Callable[[bytes], None]:
    """Return how to write what another command will read."""

    def hold(data: bytes) -> None:
        if len(held) + len(data) > MAX_CAPTURE:
            raise NotUnderstoodError("more than 256 KiB from one command to another")
        held.extend(data)

    return hold


def check(tree: Node) -> None:
    """Refuse a script that calls a program of which nothing is known. Raises NotUnderstoodError."""
    names = set(_functions(tree))
    for command in _commands(tree):
        for word in command.words[:1]:
            name = word.rpartition("/")[2].strip("\"'")
            known = name in names or name in _BUILT_IN or is_program(name) or name in ("sh", "bash")
            if not known:
                raise NotUnderstoodError(f'what "{name}" does is not known')


def _commands(tree: Node) -> list[Command]:
    match tree:
        case Command():
            return [tree]
        case Function():
            return _commands(tree.body)
        case _:
            return [found for part in _parts(tree) for found in _commands(part)]


def _functions(tree: Node) -> list[str]:
    if isinstance(tree, Function):
        return [tree.name]
    return [name for part in _parts(tree) for name in _functions(part)]


def _parts(tree: Node) -> list[Node]:
    match tree:
        case Sequence():
            return [node for _, node in tree.items]
        case Pipe():
            return list(tree.parts)
        case If():
            nodes: list[Node] = [part for branch in tree.branches for part in branch]
            return [*nodes, tree.otherwise] if tree.otherwise else nodes
        case Loop():
            return [tree.condition, tree.body]
        case For():
            return [tree.body]
        case _:
            return []
