"""Life after placement: sites that are drained or lost are left by what was placed there.

A drained site is closed in the store, so that all schedulers know and a restart does not forget;
then its allocations move one by one, by rank, each in a transaction of its own and with a line in
its history. What finds no other place stays and is told. Sites that are offline, or no longer in
the inventory, for longer than `replace_lost_after_seconds` are left in the same way by themselves.

Objects of the API server move too: their status follows, and so do the copies of an Allocation in
the members (see `dispatch`). Pods cannot: those with an owner are evicted (see `evicting`).
"""

from collections.abc import Awaitable, Callable, Iterator

import msgspec
import structlog

from bayplan.errors import BayplanError
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.moving import by_rank
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.whatif import UnknownSiteError
from bayplan.words import plural

log = structlog.get_logger(__name__)

LOOK_EVERY = 1.0


class Moved(msgspec.Struct, frozen=True):
    """One allocation that left a site."""

    allocation: str
    name: str
    to: tuple[str, ...]
    message: str = ""
    """Why not all of its replicas could leave."""
    evicted: bool = False
    """A pod that goes; the one that its owner makes is placed elsewhere."""


class Drained(msgspec.Struct, frozen=True):
    """What became of the allocations of one site."""

    site: str
    moved: tuple[Moved, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is left there."""
        return not any(entry.message for entry in self.moved)


async def drain(service: Allocations, site: str) -> Drained:
    """Close a site and move what is there; again for what stayed, when there is room."""
    if service.table.row_of(site) is None and not service.ledger.by_site.get(site):
        raise UnknownSiteError(f'there is no site "{site}"')
    await service.close_site(site)
    return await leave(service, site, f"{site} drained")


async def leave(service: Allocations, site: str, why: str) -> Drained:
    """Move everything that is on a site elsewhere, by rank."""
    ledger = service.ledger
    records = by_rank(ledger.records[identity] for identity in ledger.by_site.get(site, ()))
    return Drained(site, tuple([await _move(service, record, site, why) for record in records]))


async def _move(service: Allocations, record: Record, site: str, why: str) -> Moved:
    name = record.allocation.stack.name
    if not record.movable:
        return await _evict(service, record, site)
    before = [group.selected.node_id for group in record.groups]
    try:
        new = await service.move(record.id, {site}, why)
    except BayplanError as problem:
        return Moved(record.id, name, (), str(problem))
    after = [group.selected.node_id for group in new.groups]
    for kept in before:
        if kept in after and kept != site:
            after.remove(kept)
    left = after.count(site)
    message = f"{plural(left, 'replica')} found no other place" if left else ""
    return Moved(record.id, name, tuple(one for one in after if one != site), message)


async def _evict(service: Allocations, record: Record, site: str) -> Moved:
    """Have a pod go, if there is a place for another now."""
    name = record.allocation.stack.name
    if (refused := service.why_not_elsewhere(record, site)) is not None:
        return Moved(record.id, name, (), refused.message)
    try:
        await service.evict(record)
    except BayplanError as problem:
        return Moved(record.id, name, (), str(problem))
    return Moved(record.id, name, (), evicted=True)


def lines(drained: Drained) -> Iterator[str]:
    """What became of a site, as text."""
    yield f"{drained.site} is closed; there: {plural(len(drained.moved), 'allocation')}"
    for entry in drained.moved:
        stays = "evicted; its owner makes it again" if entry.evicted else "stays"
        where = ", ".join(entry.to) or stays
        yield f"  {entry.allocation} {entry.name}: {where}"
        if entry.message:
            yield f"    {entry.message}"


class Lost:
    """Watches for sites that are lost, and has them left when they stay so."""

    def __init__(
        self,
        service: Allocations,
        after: Callable[[], float],
        *,
        clock: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self._service = service
        self._after = after
        self._clock = clock
        self._pause = pause
        self._since: dict[str, float] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._pause(LOOK_EVERY)
            if self._after() > 0:
                await self.look()

    async def look(self) -> None:
        """Leave the sites whose time is over; what found no place is tried after as long again."""
        now = self._clock()
        lost = self._lost()
        self._since = {site: self._since.get(site, now) for site in sorted(lost)}
        for site, since in list(self._since.items()):
            if now - since >= self._after():
                done = await leave(self._service, site, f"{site} lost")
                log.info("a lost site was left", site=site, moved=len(done.moved), empty=done.empty)
                self._since[site] = now

    def _lost(self) -> set[str]:
        used = self._service.ledger.by_site
        table = self._service.table
        return {
            site
            for site in used
            if used[site]
            and ((row := table.row_of(site)) is None or table.sites[row].status == "Offline")
        }
