"""What happened to whom, in bounded memory.

One ring for all pods: the newest notes win. Writing a note costs one append; reading one pod's
story looks through the ring, which is fine for a person who asks.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Note(NamedTuple):
    """One thing that happened to a pod."""

    time: float
    uid: str
    key: str
    what: str
    detail: str


class Stories:
    """The last notes of all pods."""

    __slots__ = ("_notes",)

    def __init__(self, limit: int = 65536) -> None:
        self._notes: deque[Note] = deque(maxlen=limit)

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, time: float, uid: str, key: str, what: str, detail: str = "") -> None:
        self._notes.append(Note(time, uid, key, what, detail))

    def of(self, pod: str) -> list[Note]:
        """The notes of a pod, by uid or `namespace/name`, oldest first."""
        return [note for note in self._notes if pod in (note.uid, note.key)]
