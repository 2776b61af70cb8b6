"""Places replicas anew whose sites are lost, and leaves the others where they are.

Records go by priority, then age. Replicas that stay count for spread and for machines on a host.
Of one record as many lost replicas are placed as fit, not all or none: something that runs is
better than nothing.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from bayplan.global_scheduler.layout import Placement
from bayplan.global_scheduler.ledger import Group, Record
from bayplan.global_scheduler.packing import Used
from bayplan.global_scheduler.placer import Kept, NoSite, Placer
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import SiteTable


class Replanned(msgspec.Struct, frozen=True):
    """What becomes of one record: the groups that were lost, new places, and why not for all."""

    record: Record
    lost: tuple[Group, ...]
    placements: tuple[Placement, ...]
    refused: NoSite | None = None


def by_rank(records: Iterable[Record]) -> list[Record]:
    """Higher priority first, then older, then by id."""
    return sorted(records, key=lambda r: (-r.allocation.priority, r.created, r.id))


def kept_of(table: SiteTable, groups: Iterable[Group]) -> Kept:
    """What placed groups mean for the placing of others of the same allocation."""
    rows: Counter[int] = Counter()
    used: Used = {}
    for group in groups:
        row = table.row_of(group.selected.node_id)
        if row is not None:
            rows[row] += 1
        source_of = {
            name: source for source, takes in group.charges.hosts.items() for name, *_ in takes
        }
        for position, resource in enumerate(group.resources):
            for name, count in resource.hosts.items():
                key = (position, source_of.get(name, ""), name)
                used[key] = used.get(key, 0) + count
    return Kept(rows, used)


def most_replicas(replicas: int, fits: Callable[[int], bool]) -> int:
    """The largest number that fits, by halving; a number that fits lets all smaller ones fit."""
    low, high = 0, replicas
    middle = high  # all of them, mostly
    while low < high:
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
        middle = (low + high + 1) // 2
    return low


def replan(
    placer: Placer, table: SiteTable, records: Iterable[Record], lost: Collection[str]
) -> Iterator[Replanned]:
    """Place all groups on lost sites anew, in order; new places are taken from the table.

    The table must not have the lost sites any more (or have them closed), nor the charges of lost
    groups.
    """
    for record in by_rank(records):
        gone = tuple(group for group in record.groups if group.selected.node_id in lost)
        if gone:
            stay = [group for group in record.groups if group.selected.node_id not in lost]
            placed, refused = place_most(
                placer, table, record.allocation, len(gone), kept_of(table, stay)
            )
            apply_all(table, record.allocation, placed)
            yield Replanned(record, gone, tuple(placed), refused)


def place_most(
    placer: Placer, table: SiteTable, allocation: Allocation, replicas: int, kept: Kept
) -> tuple[list[Placement], NoSite | None]:
    """Places for as many more replicas as fit, and why not for all."""
    found: list[Placement] = []
    refused: NoSite | None = None

    def fits(number: int) -> bool:
        nonlocal found, refused
        one = msgspec.structs.replace(allocation, replicas=number)
        answer = placer.decide(table, one, kept)
        if isinstance(answer, NoSite):
            refused = refused or answer
            return False
        found = answer
        return True

    most_replicas(replicas, fits)
    return found, refused


def apply_all(table: SiteTable, allocation: Allocation, placements: Iterable[Placement]) -> None:
    """Take placements from the table, with their labels."""
    for placement in placements:
        table.apply(placement.charges)
        table.note_stack(placement.row, allocation.stack.labels)
