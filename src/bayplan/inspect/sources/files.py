"""Reads what people have on disk: snapshots, manifests, `kubectl get`, dumps, must-gather folders.

What a file is follows from its content. A folder is walked; logs and other text in it are passed
over, and a file in it that cannot be read is noted rather than fatal. `kubectl cluster-info dump`
prints JSON documents between log lines: each document begins and ends with a brace of its own line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from bayplan import packed
from bayplan.api import Node, Pod, yaml
from bayplan.errors import DecodeError
from bayplan.inspect.cluster import Objects, Origin, Unread
from bayplan.inspect.errors import GIVE, SourceError, damaged
from bayplan.inspect.sources.gather import Gathering
from bayplan.inspect.sources.snapshot import is_snapshot, read_snapshot

SUFFIXES = (".json", ".yaml", ".yml", ".gz", ".bayplan")
MAX_BYTES = 4 << 30  # of a packed file; thirty times the largest cluster that Kubernetes promises
_JSON_DOCUMENT = re.compile(rb"^\{$.*?^\}$", re.MULTILINE | re.DOTALL)


def read_files(paths: Sequence[Path]) -> tuple[Objects, Origin]:
    """Read everything at these paths; raises SourceError that names the file."""
    if not paths:
        raise SourceError("no file given; use --from FILE or FOLDER")
    gathering = Gathering()
    unread: list[Unread] = []
    origin = Origin(", ".join(map(str, paths)), taken=time.time())
    for path in paths:
        for file in _files(path):
            try:
                data = _content(file)
                if is_snapshot(data):
                    header = read_snapshot(data, file, gathering)
                    origin = Origin(
                        str(file), header.version, header.taken, header.namespace,
                        of_kubelets=header.of_kubelets,
                    )  # fmt: skip
                    unread += header.unread
                else:
                    _read(data, file, gathering)
            except DecodeError as problem:
                if file == path:
                    raise damaged(file, problem, f"it is cut off or no dump: {GIVE}") from problem
                unread.append(Unread(str(file), str(problem), "it is left out"))
    _check(gathering, origin.name)
    unread += gathering.unread()
    found = replace(origin, unread=tuple(unread))
    if gathering.server:
        found = replace(found, version=gathering.server, of_kubelets=False)
    elif gathering.kubelets and not found.version:
        found = replace(found, version=gathering.kubelets, of_kubelets=True)
    return gathering.objects, found


def _files(path: Path) -> Iterable[Path]:
    if path.is_dir():
        return sorted(f for f in path.rglob("*") if f.suffix in SUFFIXES and f.is_file())
    if not path.exists():
        raise SourceError(f'"{path}" does not exist; give a snapshot, a dump or a folder of them')
    return [path]


def _content(file: Path) -> bytes:
    try:
        data = file.read_bytes()
        return packed.unpack(data, MAX_BYTES) if data[:2] == packed.MAGIC else data
    except packed.TooLargeError as problem:
        raise SourceError(f'reading "{file}": {problem}; unpack it if that is meant') from problem
    except packed.PackedError as problem:
        raise SourceError(
            f'reading "{file}": the file is damaged or cut off ({problem}); save or copy it again'
        ) from problem
    except OSError as problem:
        raise SourceError(f'reading "{file}": {problem.strerror}') from problem


def _read(data: bytes, file: Path, gathering: Gathering) -> None:
    text = data.lstrip()
    if text[:1] != b"{" and b"==== START logs" not in data[: 1 << 20]:
        _read_yaml(data, gathering)
        return
    try:
        gathering.add_json(text)
    except DecodeError:
        documents = _JSON_DOCUMENT.findall(data) or _lines(data)
        if not documents:
            raise
        for document in documents:
            gathering.add_json(document)


def _lines(data: bytes) -> list[bytes]:
    """Documents one a line; none if there are lines of anything else."""
    lines = [line for line in data.splitlines() if line.strip()]
    whole = len(lines) > 1 and all(line[:1] == b"{" and line[-1:] == b"}" for line in lines)
    return lines if whole else []


def _read_yaml(data: bytes, gathering: Gathering) -> None:
    try:
        documents = yaml.load_all(data.decode())
    except UnicodeDecodeError as problem:
        raise DecodeError(f"it is neither text nor a snapshot ({problem.reason})") from problem
    for document in documents:
        if isinstance(document, dict):
            gathering.add(document)
        elif document is not None:
            what = "text" if isinstance(document, str) else f"a {type(document).__name__}"
            raise DecodeError(f"expected objects, found {what}")


def _check(gathering: Gathering, name: str) -> None:
    if not gathering.seen:
        raise SourceError(f"{name}: no Kubernetes object in it; {GIVE}")
    if not gathering.objects.get(Node) and not gathering.objects.get(Pod):
        broken = "".join(f" ({item.why})" for item in gathering.unread())
        raise SourceError(f"{name}: neither nodes nor pods in it{broken}; {GIVE}")
