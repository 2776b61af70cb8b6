"""A cluster in one compressed file, without anything secret.

A snapshot is written from structs, not from what the server sent: they hold what scheduling reads
and nothing else, so secrets, environment values, commands and managedFields cannot get in.
Annotations, anywhere, are dropped but for the few of Kubernetes' own that decisions read (`bare`).

The file is gzip over lines of JSON: a header, then for each struct lines of up to a thousand
objects (pods as rows over tables, see `rows.py`), then an end line with the total, so that a file
that was cut off is noticed.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bayplan import private
from bayplan.api import Pod
from bayplan.inspect.cluster import Unread
from bayplan.inspect.errors import SourceError
from bayplan.inspect.kinds import STRUCTS
from bayplan.inspect.sources.bare import bare
from bayplan.inspect.sources.rows import PodParts, PodRow, PodState, PodTables

if TYPE_CHECKING:
    from bayplan.inspect.cluster import Cluster
    from bayplan.inspect.sources.gather import Gathering

FORMAT = 2
START = b'{"bayplanSnapshot":'
AT_ONCE = 1000


class Header(msgspec.Struct, frozen=True):
    """The first line."""

    bayplanSnapshot: int
    version: str = ""
    taken: float = 0.0
    namespace: str = "default"
    scrubbed: bool = False
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    of_kubelets: bool = False


class _Line(msgspec.Struct, frozen=True):
    struct: str = ""
    items: msgspec.Raw = msgspec.Raw(b"[]")
    end: int = -1


_line = msgspec.json.Decoder(_Line)

READ: dict[str, type] = {**STRUCTS, "PodParts": PodParts, "PodState": PodState, "PodRow": PodRow}
"""What lines may hold."""


def is_snapshot(data: bytes) -> bool:
    return data.startswith(START)


def write_snapshot(cluster: Cluster, path: Path, *, scrubbed: bool = False) -> Header:
    """Save a cluster; an existing file is replaced only once the new one is whole."""
    header = header_of(cluster, scrubbed)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=5, mtime=0) as file:
        for line in _lines(cluster, header):
            file.write(line + b"\n")
    try:
        private.write(path, packed.getvalue())
    except OSError as problem:
        raise SourceError(f'writing "{path}": {problem.strerror}') from problem
    return header


def header_of(cluster: Cluster, scrubbed: bool = False) -> Header:
    """What the first line says about a cluster."""
    origin = cluster.origin
    return Header(
        FORMAT,
        origin.version,
        origin.taken,
        origin.namespace,
        scrubbed,
        {kind.__name__: len(items) for kind, items in cluster.objects.items() if items},
        origin.unread,
        origin.of_kubelets,
    )


def _lines(cluster: Cluster, header: Header) -> Iterator[bytes]:
    yield msgspec.json.encode(header)
    tables = PodTables()
    rows = [tables.row(bare(pod)) for pod in cluster.pods.values()]
    written: list[tuple[str, Sequence[object]]] = [
        (name, [bare(item) for item in cluster.objects.get(struct, {}).values()])
        for name, struct in STRUCTS.items()
        if struct is not Pod
    ]
    # rows come after the tables that they name
    written += [("PodParts", tables.parts), ("PodState", tables.states), ("PodRow", rows)]
    for name, items in written:
        for start in range(0, len(items), AT_ONCE):
            yield msgspec.json.encode({"struct": name, "items": items[start : start + AT_ONCE]})
    yield msgspec.json.encode({"end": sum(len(items) for _, items in written)})


def read_snapshot(data: bytes, file: Path, gathering: Gathering) -> Header:
    """Put a snapshot's objects into a gathering; raises SourceError that names the remedy."""
    lines = data.splitlines()
    header = _header(lines[0], file)
    decoders: dict[str, msgspec.json.Decoder[list[Any]]] = {}
    tables = PodTables()
    total, end = 0, -1
    for number, text in enumerate(lines[1:], 2):
        try:
            line = _line.decode(text)
            if line.end >= 0:
                end = line.end
                continue
            if line.struct not in decoders:
                struct = READ.get(line.struct, msgspec.Raw)  # unknown ones are only counted
                decoders[line.struct] = msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]
            items = decoders[line.struct].decode(line.items)
            _take(line.struct, items, tables, gathering)
        except (msgspec.DecodeError, IndexError) as problem:
            raise SourceError(
                f'reading snapshot "{file}", line {number}: {problem}; save it again'
            ) from problem
        total += len(items)
    if end != total:
        raise SourceError(
            f'reading snapshot "{file}": it is cut off after {total} objects; save or copy it again'
        )
    return header


def _take(name: str, items: list[Any], tables: PodTables, gathering: Gathering) -> None:
    if name == "PodRow":
        gathering.put_shared(tables.pods(items))
    elif name == "PodParts":
        tables.parts += items
    elif name == "PodState":
        tables.states += items
    elif name in STRUCTS:
        gathering.seen += len(items)
        for item in items:
            gathering.put(item)


def _header(line: bytes, file: Path) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as problem:
        raise SourceError(
            f'reading snapshot "{file}": its first line is damaged ({problem}); save it again'
        ) from problem
    if header.bayplanSnapshot != FORMAT:
        raise SourceError(
            f'reading snapshot "{file}": it has format {header.bayplanSnapshot}, this version '
            f"reads {FORMAT}; save it again, or install a newer Bayplan"
        )
    return header
