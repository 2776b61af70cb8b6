"""What the nodes and pods of a running cluster were before they changed, to undo changes.

A moment of the past is the present with all later changes taken back. Only the last changes are
kept, so memory is bounded; a moment before them cannot be asked any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from bayplan.api import Object
from bayplan.errors import BayplanError
from bayplan.inspect.cluster import Objects

MOST_CHANGES = 10_000


class _Undo(NamedTuple):
    time: float
    kind: type[Object]
    key: str
    old: Object | None


class Past:
    """The last changes of a cluster."""

    def __init__(self, clock: Callable[[], float], most: int = MOST_CHANGES) -> None:
        self._clock = clock
        self._undo: deque[_Undo] = deque()
        self._most = most
        self._since = clock()

    def note(self, item: Object, old: Object | None) -> None:
        """Take over that an object changed; `old` is None for one that is new."""
        self._undo.append(_Undo(self._clock(), type(item), item.key, old))
        if len(self._undo) > self._most:
            self._since = self._undo.popleft().time

    def begin(self) -> None:
        """Let the past start now."""
        self._undo.clear()
        self._since = self._clock()

    def objects(self, now: Objects, moment: float) -> Objects:
        """Return what existed at a moment, of what exists now."""
        if moment < self._since:
            ago = self._clock() - self._since
            raise BayplanError(
                f"that moment cannot be asked any more: changes of the last {ago:.0f} s are kept"
            )
        found = dict(now)
        copied: set[type[Object]] = set()
        for change in reversed(self._undo):
            if change.time <= moment:
                break
            if change.kind not in copied:
                copied.add(change.kind)
                found[change.kind] = dict(found.get(change.kind, {}))
            items = found[change.kind]
            if change.old is None:
                items.pop(change.key, None)
            else:
                items[change.key] = change.old
        return found
