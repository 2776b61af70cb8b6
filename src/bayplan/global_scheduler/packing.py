"""Lays whole machines on the pools and hosts of sites: for many sites at once, or one in detail.

Both go the same way, so that what the first counts the second can lay: types with few pools choose
first, then large machines; a machine takes the most specific pool that has room, there the host
that takes the fewest more of its size, so that empty hosts stay empty for large ones. All replicas
of a site are laid together. Where that way fails for one site, a search of all ways (cut off after
a fixed number of steps) has the last word: small sites are packed whenever it is possible at all.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from bayplan.global_scheduler.bins import Bin, Item, search
from bayplan.global_scheduler.hosts import HostRoom, machines_in
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.table import BoolArray, IntArray, SiteTable
from bayplan.global_scheduler.view import SiteView

Amount = int | IntArray
UNLIMITED = np.int64(2**53)
SEARCH_STEPS = 5_000
SEARCH_MACHINES = 40
SEARCH_HOSTS = 100
A_SUM = np.zeros(1, np.bool_)


class Machines(msgspec.Struct, frozen=True):
    """Equal machines of one type; sizes are 0 in regions where the type is another.

    `resource` is the position in the stack; at most `most` (0: any number) may share a host.
    """

    kind: str
    vcpus: Amount
    memory: Amount
    count: int
    resource: int = 0
    most: int = 0

    def size(self, row: int) -> tuple[int, int]:
        return at_row(self.vcpus, row), at_row(self.memory, row)


class Piece(msgspec.Struct, frozen=True):
    """Some machines of a resource on one host; without a name, on the source's sum."""

    resource: int
    source: str
    host: str
    count: int
    vcpus: int
    memory: int


Used = dict[tuple[int, str, str], int]
"""Resource, source and host to machines of the same allocation that are there already."""


def at_rows(amount: Amount, view: SiteView) -> Amount:
    """An amount at the rows of a view."""
    return view.take(amount) if isinstance(amount, np.ndarray) else amount


def at_row(amount: Amount, row: int) -> int:
    """An amount at one row of the table."""
    return int(amount[row]) if isinstance(amount, np.ndarray) else amount


def quotient(free: IntArray, need: Amount) -> IntArray:
    """How often `need` fits `free`, cut towards zero; needs of 0 do not limit."""
    if isinstance(need, np.ndarray):
        safe = np.maximum(need, 1)
        return np.where(need > 0, (free / safe).astype(np.int64), UNLIMITED)
    if need <= 0:
        return np.full(len(free), UNLIMITED, np.int64)
    return (free / need).astype(np.int64)


def slots(table: SiteTable, machines: Machines, view: SiteView) -> IntArray:
    """How many such machines the pools of each row take, if nothing else were there."""
    result = np.zeros(view.count, np.int64)
    vcpus, memory = at_rows(machines.vcpus, view), at_rows(machines.memory, view)
    for key in table.pools_of(machines.kind):
        pool = table.pools[key]
        if pool.hosts is not None:
            result += _slots_of(pool.hosts, view, vcpus, memory, machines.most)
        elif not machines.most:
            free = (
                np.maximum(view.take(pool.free_vcpus), 0),
                np.maximum(view.take(pool.free_memory), 0),
            )
            result += np.minimum(quotient(free[0], vcpus), quotient(free[1], memory))
    return result


def _slots_of(
    hosts: HostRoom, view: SiteView, vcpus: Amount, memory: Amount, most: int
) -> IntArray:
    number = view.take(hosts.of_row)
    if not isinstance(vcpus, np.ndarray) or not isinstance(memory, np.ndarray):
        return hosts.slots(int(vcpus), int(memory), most)[number]
    result = np.full(view.count, UNLIMITED, np.int64)
    for pair in set(zip(vcpus.tolist(), memory.tolist(), strict=True)) - {(0, 0)}:
        rows = (vcpus == pair[0]) & (memory == pair[1])
        result[rows] = hosts.slots(*pair, most)[number[rows]]
    return result


class _Field:
    """What is free in one pool over the rows of a view, host by host, while machines are laid."""

    def __init__(self, table: SiteTable, key: str, view: SiteView) -> None:
        pool = table.pools[key]
        if pool.hosts is None:
            free = (view.take(pool.free_vcpus), view.take(pool.free_memory))
            self.free: IntArray = np.maximum(np.stack(free), 0)
            self.real: BoolArray = np.zeros(view.count, np.bool_)
            self.row: IntArray = np.arange(view.count)
            self.first = self.row
            self.alone = True
            return
        number = view.take(pool.hosts.of_row)
        starts = pool.hosts.starts[number]
        length = pool.hosts.starts[number + 1] - starts
        self.alone = bool((length <= 1).all())  # no row has a choice of hosts
        self.row = np.repeat(np.arange(view.count), length)
        self.first = np.cumsum(length) - length
        index = (starts - self.first)[self.row] + np.arange(len(self.row))
        self.free = np.maximum(pool.hosts.free[:, index], 0)
        self.real = pool.hosts.real[index]

    def take(self, vcpus: Amount, memory: Amount, most: int, left: IntArray) -> IntArray:
        """Lay up to `left` machines a row; returns how many were."""
        if isinstance(vcpus, np.ndarray) and isinstance(memory, np.ndarray):
            vcpus, memory = vcpus[self.row], memory[self.row]
        room = machines_in(self.free, self.real, vcpus, memory, most)
        order = np.arange(len(room)) if self.alone else np.lexsort((room, self.row))
        inside = room[order]
        before = np.cumsum(inside) - inside
        begin = np.concatenate((before, [0]))[self.first]
        row = self.row[order]
        part = np.zeros_like(room)
        part[order] = np.clip(left[row] - (before - begin[row]), 0, inside)
        self.free[0] -= part * vcpus
        self.free[1] -= part * memory
        return np.bincount(self.row, part, minlength=len(left)).astype(np.int64)


def packs(
    table: SiteTable, wanted: Sequence[Machines], view: SiteView, replicas: IntArray
) -> BoolArray:
    """Where that many replicas can be laid, machine by machine."""
    fields: dict[str, _Field] = {}
    mask = np.ones(view.count, np.bool_)
    for machines in wanted:
        vcpus, memory = at_rows(machines.vcpus, view), at_rows(machines.memory, view)
        left = np.where(np.maximum(vcpus, memory) > 0, machines.count * replicas, 0)
        for key in table.pools_of(machines.kind):
            if key not in fields:
                fields[key] = _Field(table, key, view)
            left = left - fields[key].take(vcpus, memory, machines.most, left)
        mask &= left == 0
    return mask


class _Ground:
    """The hosts of one site's source while replicas are laid."""

    def __init__(self, table: SiteTable, key: str, source: str) -> None:
        self.source = source
        self.hosts = table.pools[key].hosts
        if self.hosts is None:
            self.sum = list(table.free(source))
            self.real: BoolArray = A_SUM
        else:
            span = self.hosts.span(self.hosts.numbers[source])
            self.free: IntArray
            self.free, self.real = self.hosts.free[:, span].copy(), self.hosts.real[span]

    def name(self, position: int) -> str:
        if self.hosts is None:
            return ""
        return self.hosts.name(self.hosts.numbers[self.source], position)

    def room(self, machines: Machines, size: tuple[int, int], used: Used) -> IntArray:
        """How many more such machines each host takes."""
        room = machines_in(self.free, self.real, *size, machines.most)
        if machines.most and used:
            for position in np.flatnonzero(room).tolist():
                there = used.get((machines.resource, self.source, self.name(position)), 0)
                room[position] = max(min(room[position], machines.most - there), 0)
        return room

    def lay(self, machines: Machines, size: tuple[int, int], used: Used, left: int
            ) -> Iterator[Piece]:  # fmt: skip
        if self.hosts is None:
            yield from self._lay_on_sum(machines, size, left)
            return
        room = self.room(machines, size, used)
        ranked = np.argsort(room, kind="stable")
        some = np.clip(left - (np.cumsum(room[ranked]) - room[ranked]), 0, room[ranked])
        chosen = some > 0
        for position, count in zip(ranked[chosen].tolist(), some[chosen].tolist(), strict=True):
            self.free[0, position] -= size[0] * count
            self.free[1, position] -= size[1] * count
            yield Piece(machines.resource, self.source, self.name(position), count, *size)

    def _lay_on_sum(self, machines: Machines, size: tuple[int, int], left: int) -> Iterator[Piece]:
        """The same without arrays, as most sites list no hosts."""
        rooms = [free // each for free, each in zip(self.sum, size, strict=True) if each]
        count = 0 if machines.most else min(left, *rooms)
        if count > 0:
            self.sum = [free - each * count for free, each in zip(self.sum, size, strict=True)]
            yield Piece(machines.resource, self.source, "", count, *size)


def lay(
    table: SiteTable, wanted: Sequence[Machines], row: int, replicas: int, used: Used
) -> list[list[Piece]] | None:
    """Where each machine of each replica goes on one site; None when they do not fit."""
    ground = _grounds(table, wanted, row)
    laid: list[list[Piece]] = []
    for machines in wanted:
        size = machines.size(row)
        left = machines.count * replicas if any(size) else 0
        pieces: list[Piece] = []
        for key in table.pools_of(machines.kind):
            if left and key in ground:
                pieces += ground[key].lay(machines, size, used, left)
                left = machines.count * replicas - sum(piece.count for piece in pieces)
        if left:
            return _search(table, wanted, row, replicas, used)
        laid.append(pieces)
    return _deal(wanted, laid, replicas)


def charges_of(pieces: Sequence[Piece], more: Mapping[str, tuple[int, ...]]) -> Charges:
    """What laid machines take from their sources, beside other things."""
    takes: dict[str, tuple[int, ...]] = {}
    hosts: dict[str, dict[str, tuple[int, int]]] = {}
    for piece in pieces:
        vcpus, memory = piece.vcpus * piece.count, piece.memory * piece.count
        before = takes.get(piece.source, (0, 0))
        takes[piece.source] = (before[0] + vcpus, before[1] + memory)
        if piece.host:
            there = hosts.setdefault(piece.source, {})
            had = there.get(piece.host, (0, 0))
            there[piece.host] = (had[0] + vcpus, had[1] + memory)
    listed = {
        source: tuple((host, *amounts) for host, amounts in there.items())
        for source, there in hosts.items()
    }
    return Charges(takes | dict(more), listed)


def _grounds(table: SiteTable, wanted: Sequence[Machines], row: int) -> dict[str, _Ground]:
    keys = table.pools_of(*(machines.kind for machines in wanted))
    sources = {key: table.pools[key].sources.get(row) for key in keys}
    return {key: _Ground(table, key, source) for key, source in sources.items() if source}


def _deal(
    wanted: Sequence[Machines], laid: Sequence[Sequence[Piece]], replicas: int
) -> list[list[Piece]]:
    """Share laid machines out among replicas, each its count."""
    hands: list[list[Piece]] = [[] for _ in range(replicas)]
    for machines, pieces in zip(wanted, laid, strict=True):
        hand, room = 0, machines.count
        for piece in pieces:
            left = piece.count
            while left:
                part = min(left, room)
                whole = part == piece.count
                dealt = piece if whole else msgspec.structs.replace(piece, count=part)
                hands[hand].append(dealt)
                left, room = left - part, room - part
                if not room:
                    hand, room = hand + 1, machines.count
    return hands


def _search(
    table: SiteTable, wanted: Sequence[Machines], row: int, replicas: int, used: Used
) -> list[list[Piece]] | None:
    """Try all ways to lay machines one by one, large ones first, within a number of steps."""
    order = sorted((m for m in wanted if any(m.size(row))), key=lambda m: -max(m.size(row)))
    items = [
        Item(m.resource, frozenset(table.pools_of(m.kind)), *m.size(row), m.most)
        for m in order
        for _ in range(m.count * replicas)
    ]
    ground = _grounds(table, wanted, row)
    places = [(key, position) for key, g in ground.items() for position in range(len(g.real))]
    if len(items) > SEARCH_MACHINES or len(places) > SEARCH_HOSTS:
        return None
    bins = [_bin(key, ground[key], position, used) for key, position in places]
    chosen = search(items, bins, SEARCH_STEPS)
    if chosen is None:
        return None
    laid: dict[int, list[Piece]] = {machines.resource: [] for machines in wanted}
    for item, number in zip(items, chosen, strict=True):
        key, position = places[number]
        host = ground[key].name(position)
        piece = Piece(item.resource, ground[key].source, host, 1, item.vcpus, item.memory)
        laid[item.resource].append(piece)
    return _deal(wanted, [laid[m.resource] if any(m.size(row)) else [] for m in wanted], replicas)


def _bin(key: str, ground: _Ground, position: int, used: Used) -> Bin:
    vcpus, memory = ground.sum if ground.hosts is None else ground.free[:, position].tolist()
    there: dict[int, int] = {}
    if used:
        host = ground.name(position)
        there = {
            r: n for (r, source, at), n in used.items() if (source, at) == (ground.source, host)
        }
    return Bin(key, bool(ground.real[position]), vcpus, memory, there)
