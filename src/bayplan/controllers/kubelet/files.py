"""The files that a simulated container sees: its own, and those of the volumes it mounts.

Nothing is on any disk. A volume is a dictionary of names and contents that the containers of a pod
share; a hostPath volume is shared by the pods of a node.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

MAX_BYTES = 1 << 20  # that one volume, or one container's own files, may hold
MAX_FILES = 1000
NO_SPACE = "No space left on device"

Volume = dict[str, bytes]
"""Contents by the name below the volume's root; a name that ends with / is a folder."""


class FilesError(OSError):
    """A file that is not there, or cannot be written."""


def _put(volume: Volume, name: str, content: bytes, path: str) -> None:
    if name not in volume and len(volume) >= MAX_FILES:
        raise FilesError(f"{path}: {NO_SPACE}")
    volume[name] = content


class Files:
    """A container's view: volumes at their places, everything else its own."""

    def __init__(self, mounts: list[tuple[str, Volume, str, bool]], own: Volume) -> None:
        """`mounts`: place, volume, the part of the volume that is mounted, whether read-only."""
        self._mounts = sorted(
            ((place.rstrip("/"), volume, sub, fixed) for place, volume, sub, fixed in mounts),
            key=lambda mount: -len(mount[0]),
        )
        self.own = own
        self.wall = 0.0  # what is added to a moment to make it a time of day

    def with_input(self, given: bytes) -> Files:
        """Return the same view for a command that is given something to read."""
        made = Files([*self._mounts, ("/dev/stdin", {"given": given}, "given", True)], self.own)
        made.wall = self.wall
        return made

    def _find(self, path: str) -> tuple[Volume, str, bool]:
        path = posixpath.normpath(path)
        for place, volume, sub, fixed in self._mounts:
            if path == place or path.startswith(f"{place}/"):
                rest = path[len(place) :].lstrip("/")
                return volume, posixpath.join(sub, rest) if rest else sub, fixed
        return self.own, path.lstrip("/"), False

    def read(self, path: str) -> bytes:
        volume, name, _ = self._find(path)
        if name in volume and name:
            return volume[name]
        what = "Is a directory" if self.exists(path) else "No such file or directory"
        raise FilesError(f"{path}: {what}")

    def write(self, path: str, content: bytes, *, append: bool = False) -> None:
        volume, name, fixed = self._find(path)
        if fixed:
            raise FilesError(f"{path}: Read-only file system")
        content = volume.get(name, b"") + content if append else content
        if sum(map(len, volume.values())) - len(volume.get(name, b"")) + len(content) > MAX_BYTES:
            raise FilesError(f"{path}: {NO_SPACE}")
        _put(volume, name, content, path)

    def make_folder(self, path: str) -> None:
        volume, name, fixed = self._find(path)
        if fixed:
            raise FilesError(f"{path}: Read-only file system")
        name = f"{name.rstrip('/')}/"
        _put(volume, name, volume.get(name, b""), path)

    def remove(self, path: str, *, below: bool = False) -> None:
        volume, name, fixed = self._find(path)
        if fixed:
            raise FilesError(f"{path}: Read-only file system")
        gone = [n for n in volume if n == name or (below and n.startswith(f"{name}/"))]
        if not gone:
            raise FilesError(f"{path}: No such file or directory")
        for entry in gone:
            del volume[entry]

    def exists(self, path: str) -> bool:
        volume, name, _ = self._find(path)
        return name in volume or self.is_folder(path)

    def is_file(self, path: str) -> bool:
        volume, name, _ = self._find(path)
        return bool(name) and name in volume and not name.endswith("/")

    def is_folder(self, path: str) -> bool:
        if not posixpath.normpath(path).strip("/") or any(
            place == posixpath.normpath(path) for place, _, sub, _ in self._mounts if not sub
        ):
            return True
        volume, name, _ = self._find(path)
        return any(entry.startswith(f"{name.rstrip('/')}/") for entry in volume)

    def names(self, path: str) -> Iterator[str]:
        """Yield what a folder holds."""
        volume, name, _ = self._find(path)
        head = f"{name.rstrip('/')}/" if name else ""
        found = {n[len(head) :].split("/")[0] for n in volume if n.startswith(head)}
        return iter(sorted(found - {""}))
