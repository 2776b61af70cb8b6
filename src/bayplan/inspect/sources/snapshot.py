"""A cluster in one compressed file, without anything secret.

A snapshot is written from structs, not from what the server sent: they hold what scheduling reads
and nothing else, so secrets, environment values, commands and managedFields cannot get in.
Annotations are dropped but for the few of Kubernetes' own that decisions read.

The file is gzip over lines of JSON: a header, then for each struct lines of up to a thousand
objects, then an end line with the total, so that a file that was cut off is noticed.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from bayplan import private
from bayplan.api import Object, ResourceClaim
from bayplan.inspect.cluster import Unread
from bayplan.inspect.errors import SourceError
from bayplan.inspect.kinds import STRUCTS

if TYPE_CHECKING:
    from bayplan.inspect.cluster import Cluster
    from bayplan.inspect.sources.gather import Gathering

FORMAT = 1
START = b'{"bayplanSnapshot":'
AT_ONCE = 1000
KEPT_ANNOTATIONS = frozenset(
    {
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/provisioned-by",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
        "storageclass.kubernetes.io/is-default-class",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "kubernetes.io/config.mirror",
    }
)
"""Annotations that decisions read; none holds anything but names of Kubernetes' own objects."""


class Header(msgspec.Struct, frozen=True):
    """The first line."""

    bayplanSnapshot: int
    version: str = ""
    taken: float = 0.0
    namespace: str = "default"
    scrubbed: bool = False
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    unread: tuple[Unread, ...] = ()


class _Line(msgspec.Struct, frozen=True):
    struct: str = ""
    items: msgspec.Raw = msgspec.Raw(b"[]")
    end: int = -1


_line = msgspec.json.Decoder(_Line)


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
    )


def _lines(cluster: Cluster, header: Header) -> Iterator[bytes]:
    yield msgspec.json.encode(header)
    total = 0
    for name, struct in STRUCTS.items():
        items = list(cluster.objects.get(struct, {}).values())
        for start in range(0, len(items), AT_ONCE):
            chunk = [_bare(item) for item in items[start : start + AT_ONCE]]
            total += len(chunk)
            yield msgspec.json.encode({"struct": name, "items": chunk})
    yield msgspec.json.encode({"end": total})


def _bare(item: Object) -> Object:
    """The object without annotations that nobody reads."""
    if isinstance(item, ResourceClaim) and item.spec.devices.config:
        # what a driver is told is its own business, and may be anything
        devices = replace(item.spec.devices, config=())
        item = replace(item, spec=replace(item.spec, devices=devices))
    annotations = item.metadata.annotations
    if not annotations:
        return item
    kept = {key: value for key, value in annotations.items() if key in KEPT_ANNOTATIONS}
    return replace(item, metadata=replace(item.metadata, annotations=kept))


def read_snapshot(data: bytes, file: Path, gathering: Gathering) -> Header:
    """Put a snapshot's objects into a gathering; raises SourceError that names the remedy."""
    lines = data.splitlines()
    header = _header(lines[0], file)
    decoders: dict[str, msgspec.json.Decoder[list[Object]]] = {}
    total, end = 0, -1
    for number, text in enumerate(lines[1:], 2):
        try:
            line = _line.decode(text)
            if line.end >= 0:
                end = line.end
                continue
            struct = STRUCTS.get(line.struct)
            if struct is None:
                continue
            if line.struct not in decoders:
                decoders[line.struct] = msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]
            items = decoders[line.struct].decode(line.items)
        except msgspec.DecodeError as problem:
            raise SourceError(
                f'reading snapshot "{file}", line {number}: {problem}; save it again'
            ) from problem
        total += len(items)
        gathering.seen += len(items)
        for item in items:
            gathering.put(item)
    if end != total:
        raise SourceError(
            f'reading snapshot "{file}": it is cut off after {total} objects; save or copy it again'
        )
    return header


def _header(line: bytes, file: Path) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as problem:
        raise SourceError(
            f'reading snapshot "{file}": its first line is damaged ({problem}); save it again'
        ) from problem
    if header.bayplanSnapshot > FORMAT:
        raise SourceError(
            f'reading snapshot "{file}": it has format {header.bayplanSnapshot}, this version '
            f"reads up to {FORMAT}; install a newer Bayplan"
        )
    return header
