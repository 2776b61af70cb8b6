"""Files and directories that only their owner can read, whatever the umask is.

Everything that holds objects, tokens or keys is written through here. A directory that was there
before and has others' files in it (a home, `/tmp`) keeps its mode: the files protect themselves.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

DIRECTORY, FILE = 0o700, 0o600


def make_directory(path: Path, ours: tuple[str, ...] = ()) -> Path:
    """Make a private directory; one that is empty or has one of `ours` in it becomes private."""
    _make_parents(path)
    try:
        path.mkdir(mode=DIRECTORY)
    except FileExistsError:
        if not path.is_dir():
            raise
        names = os.listdir(path)
        if names and not set(ours).intersection(names):
            return path
    if path.stat().st_uid == os.geteuid():
        path.chmod(DIRECTORY)
    return path


def _make_parents(path: Path) -> None:
    """Make what is missing above a path: who may write there may put another in its place."""
    for parent in reversed([each for each in path.parents if not each.exists()]):
        with contextlib.suppress(FileExistsError):
            parent.mkdir(mode=DIRECTORY)
            parent.chmod(DIRECTORY)


def open_file(path: Path, flags: int) -> int:
    """Open or create a file with mode 0600; one that others could read loses that."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE)
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, FILE)
    return descriptor


def write(path: Path, data: str | bytes) -> None:
    """Write a private file, replacing an old one in one step; an OSError names it.

    What is no file (/dev/stdout, a pipe) is written to, not replaced.
    """
    _make_parents(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    body = data.encode() if isinstance(data, str) else data
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(body)
            return
        with os.fdopen(open_file(temporary, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            file.write(body)
        temporary.replace(path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise OSError(problem.errno, problem.strerror, str(path)) from problem
