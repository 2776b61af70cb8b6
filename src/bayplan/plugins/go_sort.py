"""The order in which Go's `sort.Slice` and `sort.Sort` leave equal elements.

Up to 12 elements are sorted by insertion, which keeps equal ones as they were. More go through a
quicksort that draws nothing (pattern-defeating quicksort), so where equal ones end up is strange
but the same each time. kube-scheduler sorts possible victims and claims so, and the order of equal
ones can be seen in what it decides. This follows the steps of that sort as of Go 1.19 to 1.26; it
is only walked where there are enough elements and some are equal.

An element may also be *restless*: it calls itself smaller than its equals, whichever of the two is
asked. Times that are read from the clock anew at each comparison do that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

T = TypeVar("T")
BY_INSERTION = 12
"""Up to so many elements are sorted by insertion."""
NINE = 50
"""From so many on the pivot comes from nine elements, and a few strays are put right."""
STRAYS = 5
"""So many strays are shifted before the elements count as unsorted."""
ALL_SWAPPED = 12
"""So many swaps in the search for a pivot mean that the elements are in falling order."""
WORD = (1 << 64) - 1

Ranks = list[tuple[int, int, int]]
"""An element: what it is when it asks whether it is smaller, when others ask, and which it is."""


def go_sorted(items: Sequence[T], keys: Sequence[Any], restless: Sequence[bool] = ()) -> list[T]:
    """The items in the order of their keys, equal ones as Go leaves them."""
    count = len(items)
    order = sorted(range(count), key=keys.__getitem__)
    if not any(restless):
        plain = count <= BY_INSERTION or order == list(range(count))  # what is in order stays so
        if plain or all(keys[a] != keys[b] for a, b in pairwise(order)):
            return [items[n] for n in order]
    ranks = [0] * count
    for before, after in pairwise(order):
        ranks[after] = ranks[before] + 2 * (keys[before] != keys[after])
    shy = [rank - bool(restless and restless[n]) for n, rank in enumerate(ranks)]
    data = list(zip(shy, ranks, range(count), strict=True))
    _sort(data, 0, count, count.bit_length())
    return [items[n] for _, _, n in data]


def _sort(data: Ranks, start: int, end: int, patience: int) -> None:
    """Sort a part; `patience` is how many lopsided splits are borne."""
    balanced = in_place = True
    while True:
        length = end - start
        if length <= BY_INSERTION:
            _insert(data, start, end)
            return
        if patience == 0:
            _heap_sort(data, start, end)
            return
        if not balanced:
            _stir(data, start, end)
            patience -= 1
        pivot, swaps = _pivot(data, start, end)
        if swaps == ALL_SWAPPED:
            data[start:end] = data[start:end][::-1]
            pivot, swaps = start + end - 1 - pivot, 0
        if balanced and in_place and swaps == 0 and _nearly_sorted(data, start, end):
            return
        if start > 0 and data[start - 1][0] >= data[pivot][1]:
            start = _skip_equal(data, start, end, pivot)
            continue
        middle, in_place = _split(data, start, end, pivot)
        left, right = middle - start, end - middle
        balanced = min(left, right) >= length // 8
        if left < right:
            _sort(data, start, middle, patience)
            start = middle + 1
        else:
            _sort(data, middle + 1, end, patience)
            end = middle


def _insert(data: Ranks, start: int, end: int) -> None:
    for n in range(start + 1, end):
        item, place = data[n], n
        while place > start and item[0] < data[place - 1][1]:
            data[place] = data[place - 1]
            place -= 1
        data[place] = item


def _heap_sort(data: Ranks, start: int, end: int) -> None:
    length = end - start
    for root in range((length - 1) // 2, -1, -1):
        _sink(data, start, root, length)
    for last in range(length - 1, -1, -1):
        data[start], data[start + last] = data[start + last], data[start]
        _sink(data, start, 0, last)


def _sink(data: Ranks, start: int, root: int, length: int) -> None:
    while (child := 2 * root + 1) < length:
        if child + 1 < length and data[start + child][0] < data[start + child + 1][1]:
            child += 1
        mine, its = start + root, start + child
        if data[mine][0] >= data[its][1]:
            return
        data[mine], data[its] = data[its], data[mine]
        root = child


def _stir(data: Ranks, start: int, end: int) -> None:
    """Swap three elements in the middle with others that only the length decides."""
    length = end - start
    word = length
    mask = (1 << length.bit_length()) - 1
    for place in range(start + length // 4 * 2 - 1, start + length // 4 * 2 + 2):
        word ^= word << 13 & WORD
        word ^= word >> 7
        word ^= word << 17 & WORD
        other = word & mask
        other -= length if other >= length else 0
        data[place], data[start + other] = data[start + other], data[place]


def _pivot(data: Ranks, start: int, end: int) -> tuple[int, int]:
    """A place whose element is likely in the middle, and how often two were in the wrong order."""
    quarter = (end - start) // 4
    places = [start + quarter, start + 2 * quarter, start + 3 * quarter]
    swaps = 0
    if end - start >= NINE:
        found = [_median(data, place - 1, place, place + 1) for place in places]
        places = [place for place, _ in found]
        swaps = sum(swapped for _, swapped in found)
    middle, swapped = _median(data, *places)
    return middle, swaps + swapped


def _median(data: Ranks, a: int, b: int, c: int) -> tuple[int, int]:
    swaps = 0
    if data[b][0] < data[a][1]:
        a, b, swaps = b, a, swaps + 1
    if data[c][0] < data[b][1]:
        b, c, swaps = c, b, swaps + 1
    if data[b][0] < data[a][1]:
        a, b, swaps = b, a, swaps + 1
    return b, swaps


def _nearly_sorted(data: Ranks, start: int, end: int) -> bool:
    """Whether the elements are in order, once a few strays are where they belong."""
    place = start + 1
    for _ in range(STRAYS):
        while place < end and data[place][0] >= data[place - 1][1]:
            place += 1
        if place == end:
            return True
        if end - start < NINE:
            return False
        _swap_down(data, place)
        if place - start >= 2:
            # down to the first element of all, not of this part
            n = place - 1
            while n >= 1 and data[n][0] < data[n - 1][1]:
                _swap_down(data, n)
                n -= 1
        n = place + 1
        while n < end and data[n][0] < data[n - 1][1]:
            _swap_down(data, n)
            n += 1
    return False


def _swap_down(data: Ranks, place: int) -> None:
    data[place], data[place - 1] = data[place - 1], data[place]


def _skip_equal(data: Ranks, start: int, end: int, pivot: int) -> int:
    """Put those equal to the pivot, of which none is smaller, first; where the others begin."""
    data[start], data[pivot] = data[pivot], data[start]
    asks = data[start][0]
    low, high = start + 1, end - 1
    while True:
        while low <= high and asks >= data[low][1]:
            low += 1
        while low <= high and asks < data[high][1]:
            high -= 1
        if low > high:
            return low
        data[low], data[high] = data[high], data[low]
        low, high = low + 1, high - 1


def _split(data: Ranks, start: int, end: int, pivot: int) -> tuple[int, bool]:
    """Put smaller ones before the pivot; where it is then, and whether none was misplaced."""
    data[start], data[pivot] = data[pivot], data[start]
    asked = data[start][1]
    low, high = start + 1, end - 1
    in_place = True
    while True:
        while low <= high and data[low][0] < asked:
            low += 1
        while low <= high and data[high][0] >= asked:
            high -= 1
        if low > high:
            break
        data[low], data[high] = data[high], data[low]
        low, high, in_place = low + 1, high - 1, False
    data[high], data[start] = data[start], data[high]
    return high, in_place
