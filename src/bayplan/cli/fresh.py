"""A start that fails leaves no directory behind that it made."""

from __future__ import annotations

import shutil
from pathlib import Path


class FreshDirectory:
    """Takes a directory away again, with the parents it needed, unless `keep` was called.

    One that was there before the block is left alone.
    """

    def __init__(self, path: Path | None) -> None:
        missing = [item for item in (path, *path.parents) if not item.exists()] if path else []
        self._made = missing[-1] if missing else None

    @property
    def new(self) -> bool:
        """Whether the directory was missing when the block began."""
        return self._made is not None

    def keep(self) -> None:
        """The start worked: what is there now stays."""
        self._made = None

    def __enter__(self) -> FreshDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
