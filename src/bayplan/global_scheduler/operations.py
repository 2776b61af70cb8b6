"""What can be done with placed allocations: grow, shrink, leave sites.

Each is a pure step: record and table in, new record out; the service writes it. Replicas that stay
count for spread and for machines on a host. A record remembers its last changes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from heapq import heapify, heapreplace

import msgspec

from bayplan.global_scheduler.layout import Placement
from bayplan.global_scheduler.ledger import Group, Happened, PlacedResource, Record, Selected
from bayplan.global_scheduler.moving import kept_of, place_most
from bayplan.global_scheduler.placer import NoSite, Placer
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import SiteTable

HISTORY = 20


def with_event(record: Record, now: float, what: str) -> Record:
    """A record that remembers what happened to it."""
    history = (*record.history, Happened(now, what))[-HISTORY:]
    return msgspec.structs.replace(record, history=history)


def group_of(table: SiteTable, allocation: Allocation, placement: Placement) -> Group:
    """A placement in the words of a record."""
    site = table.sites[placement.row]
    return Group(
        name=allocation.stack.name,
        resources=tuple(
            PlacedResource(
                resource.name,
                placement.flavors[position],
                resource.count,
                placement.hosts.get(position, {}),
            )
            for position, resource in enumerate(allocation.stack.resources)
        ),
        selected=Selected(site.id, site.region, site.zone, site.cluster),
        charges=placement.charges,
    )


def grown(placer: Placer, table: SiteTable, record: Record, replicas: int) -> Record | NoSite:
    """More replicas beside those that are there, or why not."""
    more = msgspec.structs.replace(
        record.allocation, replicas=replicas - len(record.groups), preempt=False
    )
    found = placer.decide(table, more, kept_of(table, record.groups))
    if isinstance(found, NoSite):
        return found
    groups = (*record.groups, *(group_of(table, record.allocation, one) for one in found))
    return _resized(record, groups)


def shrunk(record: Record, replicas: int) -> Record:
    """Fewer replicas: the youngest of the site that has most goes first."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, group in enumerate(record.groups):
        numbers[group.selected.node_id].append(number)
    fullest = [(-len(one), -one[-1], one) for one in numbers.values()]
    heapify(fullest)
    gone = set()
    for _ in range(len(record.groups) - replicas):
        one = fullest[0][-1]
        gone.add(one.pop())
        heapreplace(fullest, (-len(one), -one[-1] if one else 1, one))
    groups = (group for number, group in enumerate(record.groups) if number not in gone)
    return _resized(record, groups)


def _resized(record: Record, groups: Iterable[Group]) -> Record:
    kept = tuple(groups)
    allocation = msgspec.structs.replace(record.allocation, replicas=len(kept))
    return msgspec.structs.replace(record, allocation=allocation, groups=kept)


def moved(
    placer: Placer,
    table: SiteTable,
    record: Record,
    leave: Collection[str],
    *,
    to: str = "",
    most: int | None = None,
) -> tuple[Record, NoSite | None]:
    """The record with its replicas on these sites placed elsewhere, as many as fit.

    Replicas keep their numbers: what was made of the others stays as it is.

    With `most` that many of them, the youngest, and with `to` on that site only.
    """
    numbers = [n for n, group in enumerate(record.groups) if group.selected.node_id in leave]
    chosen = set(numbers if most is None else numbers[-most:])
    gone = [record.groups[n] for n in sorted(chosen)]
    stay = [group for n, group in enumerate(record.groups) if n not in chosen]
    rows = frozenset(row for site in leave if (row := table.row_of(site)) is not None)
    kept = msgspec.structs.replace(kept_of(table, stay), avoid=rows)
    for group in gone:
        table.apply(group.charges, -1)
    try:
        wanted = record.allocation
        if to:
            selector = msgspec.structs.replace(wanted.selector, site_id=to)
            wanted = msgspec.structs.replace(wanted, selector=selector, alternatives=())
        found, refused = place_most(placer, table, wanted, len(gone), kept)
    finally:
        for group in gone:
            table.apply(group.charges)
    groups = list(record.groups)
    for number, placement in zip(sorted(chosen), found, strict=False):
        groups[number] = group_of(table, record.allocation, placement)
    return msgspec.structs.replace(record, groups=tuple(groups)), refused
