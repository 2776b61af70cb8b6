"""Real hosts inside sites: what is free on each, and how many machines of a size that makes.

One `HostRoom` has the hosts of one pool (see `table`) as two flat rows of numbers, source after
source. Hosts that the inventory does not list one by one are one *sum* at the end of their source,
which machines may share as if it were a single big host. A class of equal hosts costs one entry and
two numbers a host.

Charges name the hosts they take from. What they take without a name (from a sum, or from before the
inventory listed hosts) is *loose*: it is laid on the sum, then on the emptiest hosts, anew whenever
it changes. Hosts that have left the inventory take their charges with them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.global_scheduler.inventory import Host

HostTake = tuple[str, int, int]
"""Host, vcpus and memory."""
SIZES_KEPT = 128
CHANGES_KEPT = 10_000


class HostRoom:
    """The hosts of one pool, by source; `of_row` has the number of each row's source.

    Rows without a source have the last number, which has no hosts.
    """

    def __init__(self, groups: Mapping[str, Sequence[Host]], of_row: IntArray) -> None:
        self.of_row = of_row
        self.numbers = {source: number for number, source in enumerate(groups)}
        self._classes: list[dict[str, tuple[int, int]]] = []
        self._names: list[tuple[str, ...]] = []
        self._firsts: list[list[int]] = []
        free: list[tuple[int, int]] = []
        real: list[bool] = []
        starts = [0]
        for hosts in groups.values():
            classes: dict[str, tuple[int, int]] = {}
            for host in hosts:
                if host.count and host.name not in classes:
                    classes[host.name] = len(free) - starts[-1], host.count
                    left = (host.vcpus - host.used_vcpus, host.memory - host.used_memory)
                    free += [left] * host.count
                    real += [True] * host.count
            if rest := [host for host in hosts if not host.count]:
                vcpus = sum(host.vcpus - host.used_vcpus for host in rest)
                free.append((vcpus, sum(host.memory - host.used_memory for host in rest)))
                real.append(False)
            self._classes.append(classes)
            self._names.append(tuple(classes))
            self._firsts.append([first for first, _ in classes.values()])
            starts.append(len(free))
        self.starts: IntArray = np.array([*starts, len(free)], np.int64)
        self.real: BoolArray = np.array(real, np.bool_)
        ends = np.concatenate(([0], np.cumsum(self.real)))
        self.listed: IntArray = ends[self.starts[1:]] - ends[self.starts[:-1]]
        """How many real hosts each source has."""
        self._named: IntArray = np.array(free, np.int64).reshape(-1, 2).T.copy()
        self._loose: IntArray = np.zeros((2, len(groups)), np.int64)
        self.free: IntArray = self._named.copy()
        self._slots: dict[tuple[int, int, int], tuple[IntArray, int]] = {}
        """What is known by size, and how many changes are in it."""
        self._changes: list[int] = []

    def span(self, number: int) -> slice:
        """Where the hosts of a source stand."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def left(self, source: str) -> tuple[int, int]:
        """What all hosts of a source have free; an overfull one does not lessen the others."""
        part = self.free[:, self.span(self.numbers[source])]
        if part.shape[1] > 1:
            part = np.maximum(part, 0)
        vcpus, memory = part.sum(axis=1)
        return int(vcpus), int(memory)

    def name(self, number: int, position: int) -> str:
        """The name of a source's host; none for the sum."""
        classes = self._classes[number]
        if not self.real[self.starts[number] + position]:
            return ""
        place = bisect_right(self._firsts[number], position) - 1
        name = self._names[number][place]
        first, count = classes[name]
        return name if count == 1 else f"{name}/{position - first + 1}"

    def _position(self, number: int, name: str) -> int | None:
        classes = self._classes[number]
        if name in classes:
            return classes[name][0]
        kind, _, text = name.rpartition("/")
        if kind not in classes or not text.isdecimal():
            return None
        first, count = classes[kind]
        return first + int(text) - 1 if 1 <= int(text) <= count else None

    def apply(self, source: str, amounts: Iterable[int], hosts: Iterable[HostTake], times: int
              ) -> None:  # fmt: skip
        """Take amounts (`times` -1 gives back), as far as `hosts` says from these."""
        number = self.numbers[source]
        loose = np.array(tuple(amounts), np.int64)
        start = int(self.starts[number])
        for name, vcpus, memory in hosts:
            loose -= (vcpus, memory)
            if (position := self._position(number, name)) is not None:
                self._named[:, start + position] -= np.array((vcpus, memory)) * times
        self._loose[:, number] += loose * times
        self._settle(number)
        self._changes.append(number)
        if len(self._changes) > CHANGES_KEPT:
            self._slots.clear()
            self._changes.clear()

    def covers(self, source: str, hosts: Iterable[HostTake]) -> bool:
        """Whether these hosts of a source, and its sum, have not given more than they have."""
        number = self.numbers[source]
        span = self.span(number)
        looked_at = ~self.real[span]
        for name, _, _ in hosts:
            if (position := self._position(number, name)) is not None:
                looked_at[position] = True
        return bool((self.free[:, span][:, looked_at] >= 0).all())

    def _settle(self, number: int) -> None:
        """Free is what named charges leave, less the loose ones."""
        span = self.span(number)
        free = self._named[:, span].copy()
        for amount, left in zip(free, self._loose[:, number].tolist(), strict=True):
            if not left:
                continue
            # the sum first, then the emptiest hosts
            order = np.lexsort((-amount, self.real[span]))
            room = np.maximum(amount[order], 0)
            taken = np.clip(left - (np.cumsum(room) - room), 0, room)
            amount[order] -= taken
            amount[order[0]] -= left - int(taken.sum())
        self.free[:, span] = free

    def slots(self, vcpus: int, memory: int, most: int = 0) -> IntArray:
        """How many machines of a size each source takes; with `most`, at most that many a host."""
        key = (vcpus, memory, most)
        found, seen = self._slots.get(key, (None, 0))
        if found is None:
            if len(self._slots) >= SIZES_KEPT:
                self._slots.clear()
            ends = np.concatenate(([0], np.cumsum(self.per_host(slice(None), *key))))
            found = ends[self.starts[1:]] - ends[self.starts[:-1]]
        else:
            for number in set(self._changes[seen:]):
                found[number] = self.per_host(self.span(number), *key).sum()
        self._slots[key] = found, len(self._changes)
        return found

    def per_host(self, span: slice, vcpus: int, memory: int, most: int = 0) -> IntArray:
        """The same for each host of a span."""
        return machines_in(self.free[:, span], self.real[span], vcpus, memory, most)


def machines_in(
    free: IntArray, real: BoolArray, vcpus: int | IntArray, memory: int | IntArray, most: int
) -> IntArray:
    """How many machines of a size each host takes; none on a sum when hosts are limited."""
    # whole numbers below 2**53 divide exactly in float64
    rooms = np.minimum(free[0] / np.maximum(vcpus, 1), free[1] / np.maximum(memory, 1))
    count = np.maximum(rooms, 0).astype(np.int64)
    return np.where(real, np.minimum(count, most), 0) if most else count
