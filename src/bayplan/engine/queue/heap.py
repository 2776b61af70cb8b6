"""A heap of queued pods from which any pod can be taken in constant time.

heapq works in C on tuples (sort key, ticket, pod). A pod that is taken out of the middle leaves its
entry behind, which its place, or its ticket once it is back, tells to be stale; such are skipped
when they come up, and swept out once they are the majority. Equal keys come out in the order in
which they went in. Crowds come and go by a sort: a sorted list is a heap, and so is the rest of it;
pods that were woken together are nearly sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from bayplan.engine.queue.pods import Place, QueuedPod

SortKey = Callable[[QueuedPod], Any]
CROWD = 8
"""A heap is sorted for one in so many of its entries; for fewer, going through it is cheaper."""


class PodHeap:
    """Pods of one place, smallest key first."""

    __slots__ = ("_counter", "_entries", "_key", "_place", "size")

    def __init__(self, place: Place, key: SortKey) -> None:
        self._place = place
        self._key = key
        self._entries: list[tuple[Any, int, QueuedPod]] = []
        self.size = 0
        """How many pods are here; to be read only."""
        self._counter = 0

    def __len__(self) -> int:
        return self.size

    def push(self, item: QueuedPod) -> None:
        """Add a pod that is nowhere else."""
        self._counter += 1
        item.ticket = self._counter
        item.place = self._place
        self.size += 1
        heappush(self._entries, (self._key(item), self._counter, item))

    def push_all(self, items: Sequence[QueuedPod]) -> None:
        """Add pods that are nowhere else, as if one after the other."""
        entries, key = self._entries, self._key
        if len(items) * CROWD < len(entries):
            for item in items:
                self.push(item)
            return
        place, ticket = self._place, self._counter
        for item in items:
            ticket += 1
            item.ticket = ticket
            item.place = place
            entries.append((key(item), ticket, item))
        self._counter = ticket
        self.size += len(items)
        entries.sort()

    def remove(self, item: QueuedPod) -> None:
        """Take out a pod that is here."""
        item.place = Place.NOWHERE
        self.size -= 1
        if len(self._entries) > 2 * self.size + 64:
            self._sweep()

    def refresh(self, item: QueuedPod) -> None:
        """Sort a pod in anew after it changed."""
        self.remove(item)
        self.push(item)

    def reorder(self, key: SortKey) -> None:
        """Sort all pods by another key."""
        self._key = key
        valid = (entry for entry in self._entries if self._valid(entry))
        self._entries = [(key(item), ticket, item) for _, ticket, item in valid]
        heapify(self._entries)

    def peek(self) -> QueuedPod | None:
        entries = self._entries
        while entries:
            _, ticket, item = entries[0]
            if item.ticket == ticket and item.place is self._place:
                return item
            heappop(entries)
        return None

    def pop(self) -> QueuedPod | None:
        entries = self._entries
        while entries:
            _, ticket, item = heappop(entries)
            if item.ticket == ticket and item.place is self._place:
                item.place = Place.NOWHERE
                self.size -= 1
                return item
        return None

    def pop_while(self, wanted: Callable[[QueuedPod], bool], most: int) -> list[QueuedPod]:
        """Pop up to so many pods, until one is not wanted."""
        entries, place, found = self._entries, self._place, list[QueuedPod]()
        crowd, seen = False, 0
        while seen < len(entries) and len(found) < most:
            _, ticket, item = entries[seen]
            if item.ticket == ticket and item.place is place:
                if not wanted(item):
                    break
                if not found and len(entries) <= CROWD * most:
                    crowd = True
                    entries.sort()  # the first stays the first
                item.place = Place.NOWHERE
                found.append(item)
            if crowd:
                seen += 1
            else:
                heappop(entries)
        del entries[:seen]
        self.size -= len(found)
        return found

    def upcoming(self, count: int) -> list[QueuedPod]:
        """The pods that would be popped next if nothing came in between."""
        entries, found = self._entries, list[QueuedPod]()
        edge = [(entries[0], 0)] if entries else []
        while edge and len(found) < count:
            entry, place = heappop(edge)
            if self._valid(entry):
                found.append(entry[2])
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(entries):
                    heappush(edge, (entries[child], child))
        return found

    def __iter__(self) -> Iterator[QueuedPod]:
        """The pods that are here, in no particular order."""
        return (entry[2] for entry in self._entries if self._valid(entry))

    def _valid(self, entry: tuple[Any, int, QueuedPod]) -> bool:
        return entry[2].ticket == entry[1] and entry[2].place is self._place

    def _sweep(self) -> None:
        self._entries = [entry for entry in self._entries if self._valid(entry)]
        heapify(self._entries)


class _ByLess:
    """Makes a sort key of a plugin's `less`."""

    __slots__ = ("item", "less", "pod")

    def __init__(self, item: QueuedPod, less: Callable[[Any, Any], bool]) -> None:
        self.item = item
        self.pod = item.pod
        self.less = less

    def __lt__(self, other: _ByLess) -> bool:
        return self.less(self.item, other.item)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ByLess):
            return NotImplemented
        if self.item is other.item:  # nobody can say where its former pod would lie
            return self.pod is other.pod
        return not self.less(self.item, other.item) and not self.less(other.item, self.item)

    __hash__ = None  # type: ignore[assignment]


def sort_key_of(plugin: object) -> SortKey:
    """The sort key of a QueueSort plugin: its own `sort_key` if it has one, else its `less`."""
    own = getattr(plugin, "sort_key", None)
    if own is not None:
        key: SortKey = own
        return key
    less: Callable[[Any, Any], bool] = plugin.less  # type: ignore[attr-defined]
    return lambda item: _ByLess(item, less)
