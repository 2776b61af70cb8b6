"""What if sites were lost, others came, and requests were made: decided on a table of its own.

Sites named `site1`, `region=R` or `zone=R/Z` are lost with the hosts that serve no other site. What
was placed there is placed anew by rank, then the new requests are tried one after the other.
Nothing is reserved, and the service goes on meanwhile.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from bayplan.errors import BayplanError
from bayplan.global_scheduler.inventory import Host, Inventory, Site, merged
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.moving import Replanned, apply_all, replan
from bayplan.global_scheduler.placer import NoSite, Placer
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import SiteTable
from bayplan.words import plural


class UnknownSiteError(BayplanError):
    """A site, region or zone that is not in the inventory."""


class Question(msgspec.Struct, frozen=True):
    """What changes, in the order in which it does."""

    lose: tuple[str, ...] = ()
    add: Inventory = Inventory()
    place: tuple[Allocation, ...] = ()


class Move(msgspec.Struct, frozen=True):
    """Replicas of one allocation that lose their sites, and where they would go."""

    allocation: str
    name: str
    priority: int
    lost: tuple[str, ...]
    to: tuple[str, ...]
    message: str = ""


class Placed(msgspec.Struct, frozen=True):
    """One of the new requests."""

    name: str
    replicas: int
    sites: tuple[str, ...]
    message: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What would happen."""

    sites: int
    lost: tuple[str, ...]
    added: tuple[str, ...]
    moves: tuple[Move, ...]
    placed: tuple[Placed, ...]

    @property
    def ok(self) -> bool:
        """Whether everything has a place."""
        messages = [move.message for move in self.moves] + [one.message for one in self.placed]
        return not any(messages)


def what_if(
    placer: Placer, inventory: Inventory, records: Sequence[Record], question: Question
) -> Answer:
    """Carry the changes out on a copy."""
    known = SiteTable(inventory).sites
    lost = sites_named(known, question.lose)
    table = SiteTable(merged(without(inventory, known, lost), question.add))
    charge(table, records, lost)
    moves = [_move(found) for found in replan(placer, table, records, lost)]
    placed = [_place(placer, table, allocation) for allocation in question.place]
    return Answer(
        sites=table.count,
        lost=tuple(sorted(lost)),
        added=tuple(site.id for site in question.add.sites),
        moves=tuple(moves),
        placed=tuple(placed),
    )


def sites_named(sites: Sequence[Site], names: Iterable[str]) -> frozenset[str]:
    """The ids of sites by name, region or zone."""
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for site in sites:
        for name in (site.id, f"region={site.region}", f"zone={site.region}/{site.zone}"):
            by_name[name].add(site.id)
    found: set[str] = set()
    for name in dict.fromkeys(names):
        if name not in by_name:
            raise UnknownSiteError(
                f'there is no site "{name}"; name a site, region=REGION or zone=REGION/ZONE'
            )
        found |= by_name[name]
    return frozenset(found)


def without(inventory: Inventory, known: Sequence[Site], lost: frozenset[str]) -> Inventory:
    """The inventory without some sites, and without hosts that serve no other."""
    left = {(site.region, site.zone) for site in known if site.id not in lost}
    ids = {site.id for site in known}

    def stays(host: Host) -> bool:
        if host.site in ids:
            return host.site not in lost
        return (host.region, host.zone) in left

    return msgspec.structs.replace(
        inventory,
        sites=tuple(site for site in inventory.sites if site.id not in lost),
        hosts=tuple(host for host in inventory.hosts if stays(host)),
    )


def charge(table: SiteTable, records: Iterable[Record], lost: frozenset[str]) -> None:
    """Take from a fresh table what records hold on sites that stay."""
    for record in records:
        for group in record.groups:
            if group.selected.node_id not in lost:
                table.apply(group.charges)
                row = table.row_of(group.selected.node_id)
                if row is not None:
                    table.note_stack(row, record.allocation.stack.labels)


def _move(found: Replanned) -> Move:
    return Move(
        allocation=found.record.id,
        name=found.record.allocation.stack.name,
        priority=found.record.allocation.priority,
        lost=tuple(group.selected.node_id for group in found.lost),
        to=tuple(placement.site_id for placement in found.placements),
        message="" if found.refused is None else found.refused.message,
    )


def _place(placer: Placer, table: SiteTable, allocation: Allocation) -> Placed:
    found = placer.decide(table, allocation)
    name = allocation.stack.name
    if isinstance(found, NoSite):
        return Placed(name, allocation.replicas, (), found.message)
    apply_all(table, allocation, found)
    return Placed(name, allocation.replicas, tuple(p.site_id for p in found))


def lines(answer: Answer) -> Iterator[str]:
    """The answer as text."""
    lost = f"{len(answer.lost)} lost ({', '.join(answer.lost[:8])})" if answer.lost else "none lost"
    yield f"{plural(answer.sites, 'site')}: {lost}, {len(answer.added)} added"
    moved = sum(len(move.to) for move in answer.moves)
    wanted = sum(len(move.lost) for move in answer.moves)
    if answer.lost:
        yield f"{moved} of {wanted} replicas on lost sites have a new place"
    for move in answer.moves:
        where = _counted(move.to) or "nowhere"
        yield f"  {move.allocation} {move.name}: {_counted(move.lost)} -> {where}"
        if move.message:
            yield f"    {len(move.lost) - len(move.to)} stay without: {move.message}"
    for placed in answer.placed:
        where = _counted(placed.sites) or f"no place: {placed.message}"
        yield f"{placed.name}, {plural(placed.replicas, 'replica')}: {where}"


def _counted(sites: Sequence[str]) -> str:
    counts = {site: sites.count(site) for site in dict.fromkeys(sites)}
    return ", ".join(site if n == 1 else f"{n} {site}" for site, n in counts.items())
