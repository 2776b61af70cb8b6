"""Node names by row as they were at one moment, without a copy a moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload


class RowNames(Sequence[str]):
    """The first `count` of a list to which names are only ever appended."""

    __slots__ = ("_count", "_names")

    def __init__(self, names: list[str], count: int) -> None:
        self._names = names
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return islice(self._names, self._count)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return self._names[: self._count][place]
        if not -self._count <= place < self._count:
            raise IndexError(place)
        return self._names[place if place >= 0 else self._count + place]

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        end = self._count if stop is None else min(stop, self._count)
        return self._names.index(value, start, end)  # type: ignore[arg-type]
