"""Finds allocations of lower priority that must go for a request to fit, as few as it can.

Lower ones are put aside, the least important first (low priority, then young), until the request
fits; how many is found by halving. Then those that the placement does not touch come back together,
and the others one by one, the most important first, as long as the request still fits.
"""

from collections.abc import Callable, Iterable

from bayplan.global_scheduler.layout import Placement
from bayplan.global_scheduler.ledger import Record, charge_record
from bayplan.global_scheduler.moving import by_rank
from bayplan.global_scheduler.placer import NoSite, Placer
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import SiteTable

TRIES = 64
"""How many allocations are tried to be spared one by one."""


class _Aside:
    """Records that are not charged to the table for the moment."""

    def __init__(self, table: SiteTable) -> None:
        self._table = table
        self.records: dict[str, Record] = {}

    def put(self, record: Record) -> None:
        charge_record(self._table, record, -1)
        self.records[record.id] = record

    def back(self, record: Record) -> None:
        charge_record(self._table, record, 1)
        del self.records[record.id]


def preempt(
    placer: Placer, table: SiteTable, allocation: Allocation, records: Iterable[Record]
) -> tuple[list[Placement], list[Record]] | None:
    """Places for a request and the records that must go for it; the table stays as it is."""
    lower = [r for r in by_rank(records) if r.allocation.priority < allocation.priority]
    lower.reverse()
    aside = _Aside(table)

    def decide() -> list[Placement] | NoSite:
        return placer.decide(table, allocation)

    try:
        found = _fewest(lower, aside, decide)
        if isinstance(found, NoSite):
            return None
        found = _spare(aside, decide, found)
        return found, by_rank(aside.records.values())
    finally:
        for record in list(aside.records.values()):
            aside.back(record)


def _fewest(
    lower: list[Record], aside: _Aside, decide: Callable[[], list[Placement] | NoSite]
) -> list[Placement] | NoSite:
    """Put aside the shortest beginning of a list with which the request fits."""
    low, high = 0, len(lower)
    _only(lower, high, aside)
    found = decide()
    if isinstance(found, NoSite):
        return found
    while low < high:
        middle = (low + high) // 2
        _only(lower, middle, aside)
        low, high = (middle + 1, high) if isinstance(decide(), NoSite) else (low, middle)
    _only(lower, high, aside)
    return decide()


def _only(lower: list[Record], count: int, aside: _Aside) -> None:
    for number, record in enumerate(lower):
        if number < count and record.id not in aside.records:
            aside.put(record)
        elif number >= count and record.id in aside.records:
            aside.back(record)


def _spare(
    aside: _Aside, decide: Callable[[], list[Placement] | NoSite], found: list[Placement]
) -> list[Placement]:
    """Bring back what need not go; returns where the request goes then."""
    touched = {source for placement in found for source in placement.charges.takes}
    ranked = by_rank(aside.records.values())
    for record in ranked:  # the placement stands without what it does not touch
        if not any(touched & group.charges.takes.keys() for group in record.groups):
            aside.back(record)
    for record in by_rank(aside.records.values())[:TRIES]:
        aside.back(record)
        without = decide()
        if isinstance(without, NoSite):
            aside.put(record)
        else:
            found = without
    return found
