"""The programs that simulated containers know: what each prints, leaves behind and takes.

A program gets a `Call` and returns its exit code and the seconds it runs. What it reads and prints
counts as work (`shell`), so it prints in one piece what may be much.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from bayplan.controllers.kubelet.files import Files

FOREVER = float("inf")
PAUSE = 30.0  # seconds that a script rests which does not rest by itself
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
Result = tuple[int, float]


@dataclass(slots=True)
class Call:
    """A program's words, its surroundings and where its output goes."""

    words: list[str]
    variables: Mapping[str, str]
    files: Files
    read: Callable[[str], bytes]
    out: Callable[[bytes], None]
    err: Callable[[bytes], None]
    given: bytes
    now: Callable[[], float]

    def line(self, text: str) -> None:
        self.out(f"{text}\n".encode())

    def lines(self, texts: Iterable[str]) -> None:
        self.out("".join(f"{text}\n" for text in texts).encode())

    def plain(self) -> list[str]:
        """Return the words that are not options."""
        return [word for word in self.words[1:] if not word.startswith("-")]

    def has(self, letter: str) -> bool:
        return any(re.fullmatch(rf"-\w*{letter}\w*", word) for word in self.words[1:])


def seconds(text: str) -> float | None:
    """Read what sleep reads."""
    if text in ("inf", "infinity"):
        return FOREVER
    found = re.fullmatch(r"(\d+(?:\.\d*)?)([smhd]?)", text)
    return float(found[1]) * _UNITS[found[2]] if found else None


def _sleep(call: Call) -> Result:
    found = [seconds(word) for word in call.words[1:]]
    known = [item for item in found if item is not None]
    if not known or len(known) < len(found):
        call.err(b"sleep: invalid number\n")
        return 1, 0.0
    return 0, sum(known)


def _echo(call: Call) -> Result:
    words, end = call.words[1:], "\n"
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        end = "" if "n" in words[0] else end
        escapes = escapes or "e" in words[0]
        words = words[1:]
    text = " ".join(words)
    call.out(((_unescape(text) if escapes else text) + end).encode())
    return 0, 0.0


def _unescape(text: str) -> str:
    marks = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
    return re.sub(r"\\([ntr\\])", lambda m: marks[m[1]], text)


def _printf(call: Call) -> Result:
    words = call.words[1:] or [""]
    values = iter(words[1:])

    def fill(match: re.Match[str]) -> str:
        return "%" if match.group() == "%%" else next(values, "" if match[1] == "s" else "0")

    call.out(re.sub(r"%%|%-?\d*(?:\.\d+)?([sdi])", fill, _unescape(words[0])).encode())
    return 0, 0.0


def _cat(call: Call) -> Result:
    for path in call.plain() or ["-"]:
        call.out(call.given if path == "-" else call.read(path))
    return 0, 0.0


def _env(call: Call) -> Result:
    names = call.plain() if call.words[0].endswith("printenv") else []
    if names:
        for name in names:
            if name in call.variables:
                call.line(call.variables[name])
        return int(not all(name in call.variables for name in names)), 0.0
    call.lines(f"{name}={value}" for name, value in sorted(call.variables.items()))
    return 0, 0.0


def _touch(call: Call) -> Result:
    for path in call.plain():
        if not call.files.exists(path):
            call.files.write(path, b"")
    return 0, 0.0


def _mkdir(call: Call) -> Result:
    for path in call.plain():
        call.files.make_folder(path)
    return 0, 0.0


def _rm(call: Call) -> Result:
    for path in call.plain():
        if call.files.exists(path) or not call.has("f"):
            call.files.remove(path, below=call.has("r") or call.has("R"))
    return 0, 0.0


def _copy(call: Call) -> Result:
    *sources, target = call.plain()
    for source in sources:
        content = call.files.read(source)
        inside = call.files.is_folder(target)
        path = posixpath.join(target, posixpath.basename(source)) if inside else target
        call.files.write(path, content)
        moved = call.words[0].endswith("mv")
        if moved:
            call.files.remove(source)
        if call.has("v"):
            call.line(f"'{source}' -> '{path}'")
    return 0, 0.0


def _ls(call: Call) -> Result:
    for path in call.plain() or ["/"]:
        if call.files.is_file(path):
            call.line(path)
        elif call.files.exists(path):
            call.lines(call.files.names(path))
        else:
            call.err(f"ls: {path}: No such file or directory\n".encode())
            return 1, 0.0
    return 0, 0.0


def _test(call: Call) -> Result:
    words = call.words[1:]
    if call.words[0] in ("[", "[["):
        words = words[:-1]
    return int(not _holds(words, call.files)), 0.0


_ONE: dict[str, Callable[[str, Files], bool]] = {
    "-e": lambda word, files: files.exists(word),
    "-r": lambda word, files: files.exists(word),
    "-w": lambda word, files: files.exists(word),
    "-f": lambda word, files: files.is_file(word),
    "-d": lambda word, files: files.is_folder(word),
    "-s": lambda word, files: files.is_file(word) and bool(files.read(word)),
    "-z": lambda word, files: not word,
    "-n": lambda word, files: bool(word),
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def _holds(words: list[str], files: Files) -> bool:
    for joint in ("-o", "||"):
        if joint in words:
            at = words.index(joint)
            return _holds(words[:at], files) or _holds(words[at + 1 :], files)
    for joint in ("-a", "&&"):
        if joint in words:
            at = words.index(joint)
            return _holds(words[:at], files) and _holds(words[at + 1 :], files)
    if words[:1] == ["!"]:
        return not _holds(words[1:], files)
    if len(words) == 2 and words[0] in _ONE:
        return _ONE[words[0]](words[1], files)
    if len(words) == 3 and words[1] in _TEXTS:
        return _TEXTS[words[1]](words[0], words[2])
    if len(words) == 3 and words[1] in _NUMBERS:
        return _NUMBERS[words[1]](_number(words[0]), _number(words[2]))
    return bool(words) and bool(words[0])


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else 0


def _expr(call: Call) -> Result:
    words = call.words[1:]
    sums: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a // b if b else 0,
        "%": lambda a, b: a % b if b else 0,
    }
    if len(words) != 3 or words[1] not in sums:
        call.err(b"expr: syntax error\n")
        return 2, 0.0
    value = sums[words[1]](_number(words[0]), _number(words[2]))
    call.line(str(value))
    return int(value == 0), 0.0


def _date(call: Call) -> Result:
    moment = datetime.fromtimestamp(call.now(), UTC)
    form = next(
        (word[1:] for word in call.words[1:] if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y"
    )
    call.line(moment.strftime(form.replace("%s", str(int(call.now())))))
    return 0, 0.0


def _hostname(call: Call) -> Result:
    call.line(call.variables.get("HOSTNAME", ""))
    return 0, 0.0


def _sequence(call: Call) -> Result:
    numbers = [_number(word) for word in call.plain()]
    first, last = (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[-1])
    call.lines(map(str, range(first, min(last, first + 10_000) + 1)))
    return 0, 0.0


def _grep(call: Call) -> Result:
    pattern, *paths = call.plain() or [""]
    text = b"".join(map(call.read, paths)) if paths else call.given
    found = [line for line in text.decode(errors="replace").splitlines() if pattern in line]
    if not call.has("q"):
        call.lines(found)
    return int(not found), 0.0


def _nothing(code: int) -> Callable[[Call], Result]:
    return lambda call: (code, 0.0)


PROGRAMS: dict[str, Callable[[Call], Result]] = {
    "sleep": _sleep,
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "env": _env,
    "printenv": _env,
    "touch": _touch,
    "mkdir": _mkdir,
    "rm": _rm,
    "mv": _copy,
    "cp": _copy,
    "ls": _ls,
    "test": _test,
    "[": _test,
    "[[": _test,
    "expr": _expr,
    "date": _date,
    "hostname": _hostname,
    "seq": _sequence,
    "grep": _grep,
    "true": _nothing(0),
    ":": _nothing(0),
    "sync": _nothing(0),
    "chmod": _nothing(0),
    "false": _nothing(1),
    "pause": lambda call: (0, FOREVER),
}


def is_program(name: str) -> bool:
    return name in PROGRAMS
