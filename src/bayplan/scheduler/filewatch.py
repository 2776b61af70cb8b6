"""Notices that files changed, by looking at them every few seconds.

Polling sees what inotify misses: ConfigMap volumes are replaced through a symbolic link, editors
write a new file over the old one. A change counts once the files look the same twice in a row, so
that a half-written file is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

PERIOD = 1.0

Look = tuple[tuple[int, int, int] | None, ...]


class FileWatch:
    """Calls back when one of the files changed."""

    def __init__(self, files: Sequence[Path], changed: Callable[[], None]) -> None:
        self._files = tuple(files)
        self._changed = changed
        self._known = self._look()

    async def run(self) -> None:
        """Watch until cancelled."""
        before = self._known
        while True:
            await asyncio.sleep(PERIOD)
            now = self._look()
            if now == before and now != self._known:
                self._known = now
                self._changed()
            before = now

    def _look(self) -> Look:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
