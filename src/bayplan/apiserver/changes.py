"""Whether objects below a prefix have changed since somebody last looked; costs next to nothing."""

from __future__ import annotations

from bayplan.store import Compacted, Store, Watcher


class Changes:
    """Looks at a watch only when the store has a new revision."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._watcher: Watcher | None = None
        self._looked_at = -1

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()

    def new(self) -> bool:
        """Return whether there is something new; at first there always is."""
        revision = self._store.revision
        if revision == self._looked_at:
            return False
        self._looked_at = revision
        watcher = self._watcher
        if watcher is not None:
            try:
                return bool(watcher.take())
            except Compacted:
                watcher.close()
        self._watcher = self._store.watch(self._prefix, after=revision)
        return True
