"""An ordered set of strings that stays cheap to change at a hundred thousand keys.

A list of sorted blocks of bounded size: an insert moves at most one block's pointers, where a flat
list would move all of them. Blocks split when they grow past the limit and vanish when empty.
It holds keys only; values live in a dict beside it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

BLOCK = 1024


def prefix_end(prefix: str) -> str:
    """Return the smallest string greater than all that start with `prefix`; "" if there is none."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates cannot be encoded, and no key holds one: step over them.
            following = 0xE000 if last == 0xD7FF else last + 1
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return ""


class SortedKeys:
    """Distinct strings in code point order, which is also the order of their UTF-8 bytes."""

    __slots__ = ("_blocks", "_firsts", "_length")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        half = BLOCK // 2
        self._blocks = [ordered[at : at + half] for at in range(0, len(ordered), half)]
        self._firsts = [block[0] for block in self._blocks]
        self._length = len(ordered)

    def __len__(self) -> int:
        return self._length

    def add(self, key: str) -> None:
        """Insert a key that is not there yet."""
        self._length += 1
        if not self._blocks:
            self._blocks.append([key])
            self._firsts.append(key)
            return
        index = max(bisect_right(self._firsts, key) - 1, 0)
        block = self._blocks[index]
        insort(block, key)
        self._firsts[index] = block[0]
        if len(block) > BLOCK:
            half = len(block) // 2
            self._blocks.insert(index + 1, block[half:])
            self._firsts.insert(index + 1, block[half])
            del block[half:]

    def remove(self, key: str) -> None:
        """Take out a key that is there."""
        index = bisect_right(self._firsts, key) - 1
        block = self._blocks[index]
        at = bisect_left(block, key)
        if index < 0 or at == len(block) or block[at] != key:
            raise KeyError(key)
        del block[at]
        self._length -= 1
        if block:
            self._firsts[index] = block[0]
        else:
            del self._blocks[index], self._firsts[index]

    def count(self, low: str, high: str) -> int:
        """Count the keys with low <= key < high; a `high` of "" means no end."""
        return self._rank(high) - self._rank(low) if high else self._length - self._rank(low)

    def span(self, low: str, high: str) -> Iterator[str]:
        """Yield the keys with low <= key < high in order; a `high` of "" means no end.

        The set must not change while this is consumed.
        """
        index = max(bisect_right(self._firsts, low) - 1, 0)
        for position in range(index, len(self._blocks)):
            block = self._blocks[position]
            start = bisect_left(block, low) if position == index else 0
            if high and block[-1] >= high:
                yield from block[start : bisect_left(block, high)]
                return
            yield from block[start:] if start else block

    def _rank(self, key: str) -> int:
        """Count the keys less than `key`."""
        index = bisect_right(self._firsts, key) - 1
        if index < 0:
            return 0
        return sum(map(len, self._blocks[:index])) + bisect_left(self._blocks[index], key)
