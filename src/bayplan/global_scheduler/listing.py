"""Lists in pages, one site with its flavors, and everything as a stream of changes.

A page begins after the last entry of the one before: sites are in the order of their ids,
allocations in that of their age, so what comes or goes between two pages moves nothing. The stream
is one JSON object a line: first all there is, piece by piece, then what changes, gathered for half
a second; nobody who reads slowly makes anybody wait. A new inventory begins it anew.
"""

import asyncio
import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from bayplan.errors import BayplanError
from bayplan.global_scheduler.answers import full_body, site_body
from bayplan.global_scheduler.fields import Fields
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.service import Allocations
from bayplan.global_scheduler.stranded import sizes_at
from bayplan.global_scheduler.table import SiteTable

T = TypeVar("T")
MAX_PAGE = 5000
PIECE = 500
"""Entries that are told without letting others work."""
EVERY, SILENCE = 0.5, 10.0
"""Seconds between two lines with changes, and at most between any."""
READERS = 64
NEWEST = 20_000
"""Allocations that the stream begins with, the newest; it tells of all that change."""


class TooManyReadersError(BayplanError):
    """Nobody else can follow the stream now."""


class Page(msgspec.Struct, frozen=True):
    """How many entries (0: all), after which, and of whom."""

    limit: int = 0
    after: str = ""
    site: str = ""
    domain: str | None = None


def read_page(fields: Fields) -> Page:
    """The query of a list."""
    limit = fields.integer("limit", least=0)
    if limit > MAX_PAGE:
        fields.problem("limit", f"must be at most {MAX_PAGE}, got {limit}")
    domain = fields.text("domain_id") if fields.has("domain_id") else None
    return Page(limit, fields.text("continue"), fields.text("site"), domain)


def _age(record: Record) -> tuple[float, str]:
    return record.created, record.id


def _after(text: str) -> tuple[float, str]:
    """The age that a token says; raises ValueError."""
    created, _, identity = text.partition("/")
    return float(created), identity


async def allocations(service: Allocations, page: Page, fields: Fields) -> dict[str, object]:
    """A page of allocations, the oldest first."""
    ledger = service.ledger
    records: Collection[Record] = ledger.records.values()
    if page.site:
        records = [ledger.records[identity] for identity in ledger.by_site.get(page.site, ())]
    try:
        begin = _after(page.after) if page.after else (0.0, "")
    except ValueError:
        fields.problem("continue", "is not what the page before ended with")
        return {}
    found = [
        record
        for record in records
        if _age(record) > begin and page.domain in (None, record.allocation.domain)
    ]
    limit = page.limit or len(found)
    some = heapq.nsmallest(limit, found, key=_age)
    body: dict[str, object] = {"allocations": [one async for one in _told(some, full_body)]}
    if len(found) > limit:
        body |= {"continue": f"{some[-1].created!r}/{some[-1].id}", "remaining": len(found) - limit}
    return body


async def sites(table: SiteTable, page: Page) -> dict[str, object]:
    """A page of sites."""
    first = bisect_right(table.sites, page.after, key=lambda site: site.id) if page.after else 0
    last = min(first + page.limit, table.count) if page.limit else table.count
    rows = range(first, last)
    told = [one async for one in _told(rows, lambda row: site_body(table, row))]
    body: dict[str, object] = {"sites": told}
    if last < table.count:
        body |= {"continue": table.sites[last - 1].id, "remaining": table.count - last}
    return body


async def _told(
    items: Collection[T], tell: Callable[[T], dict[str, Any]]
) -> AsyncIterator[dict[str, Any]]:
    for number, item in enumerate(items, 1):
        yield tell(item)
        if number % PIECE == 0:
            await asyncio.sleep(0)


def one_site(service: Allocations, row: int) -> dict[str, object]:
    """A site with what of each flavor it could have, has held here, and has room for."""
    table, ledger = service.table, service.ledger
    site = table.sites[row].id
    held: Counter[str] = Counter()
    for identity in ledger.by_site.get(site, ()):
        for group in ledger.records[identity].groups:
            if group.selected.node_id == site:
                for resource in group.resources:
                    held[resource.flavor_id] += resource.count
    fits: dict[str, list[int]] = {}
    for pool in table.pools.values():
        for flavor, (vcpus, memory) in sizes_at(table, row, pool.types).items():
            each = fits.setdefault(flavor, [0, 0])
            each[0] += int(min(pool.vcpus[row] // vcpus, pool.memory[row] // memory))
            each[1] += pool.machines_at(row, vcpus, memory)
    flavors = [
        {"flavor_id": flavor, "stock": stock, "held": held[flavor], "free": free}
        for flavor, (stock, free) in sorted(fits.items())
    ]
    return site_body(table, row) | {
        "flavors": flavors,
        "allocations": len(ledger.by_site.get(site, ())),
    }


class _Reader:
    """What one reader has not been told yet."""

    def __init__(self, table: SiteTable) -> None:
        self.begin(table)

    def begin(self, table: SiteTable) -> None:
        self.table = table
        self.epoch = table.epoch
        self.touched = len(table.touched)
        self.changed: dict[str, Record | None] = {}

    def rows(self) -> set[int]:
        """Rows that were touched since the last time."""
        found: set[int] = set()
        for at in self.table.touched[self.touched :]:
            found.update([at] if isinstance(at, int) else at.tolist())
        self.touched = len(self.table.touched)
        return found


class Feed:
    """The stream, for any number of readers up to a limit."""

    def __init__(
        self,
        service: Allocations,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        readers: int = READERS,
    ) -> None:
        self._service = service
        self._pause = pause
        self._limit = readers
        self._readers: set[_Reader] = set()
        service.ledger.on_change(self._note)

    def _note(self, record: Record, there: bool) -> None:
        for reader in self._readers:
            reader.changed[record.id] = record if there else None

    def follow(self) -> AsyncIterator[bytes]:
        """Lines until the reader goes; raises TooManyReadersError."""
        if len(self._readers) >= self._limit:
            raise TooManyReadersError(f"{self._limit} readers follow already; ask again later")
        return self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        reader = _Reader(self._service.table)
        self._readers.add(reader)
        try:
            async for line in self._everything(reader):
                yield line
            silent = 0.0
            while True:
                await self._pause(EVERY)
                silent += EVERY
                if (reader.table, reader.epoch) != (self._service.table, self._service.table.epoch):
                    async for line in self._everything(reader):
                        yield line
                elif (change := self._change(reader)) or silent >= SILENCE:
                    silent = 0.0
                    yield _line(change)
        finally:
            self._readers.discard(reader)

    async def _everything(self, reader: _Reader) -> AsyncIterator[bytes]:
        """All there is, in pieces; what changes meanwhile is told after it."""
        table, records = self._service.table, self._service.ledger.records.values()
        reader.begin(table)
        newest = heapq.nlargest(NEWEST, list(records), key=_age)[::-1]
        yield _line({"begin": {"sites": table.count, "allocations": len(records)}})
        for rows in _pieces(range(table.count)):
            yield _line({"sites": [site_body(table, row) for row in rows]})
        for some in _pieces(newest):
            yield _line({"allocations": [full_body(record) for record in some]})
        yield _line({"live": True})

    def _change(self, reader: _Reader) -> dict[str, object]:
        table = reader.table
        changed, reader.changed = reader.changed, {}
        there = [record for record in changed.values() if record is not None]
        rows = reader.rows()
        body: dict[str, object] = {}
        if rows:
            body["sites"] = [site_body(table, row) for row in sorted(rows)]
        if changed:
            body["allocations"] = [full_body(record) for record in there]
            body["gone"] = [identity for identity, record in changed.items() if record is None]
            body["eips"] = dict(zip(table.eip_keys, table.eip_free.tolist(), strict=True))
        return body


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + PIECE] for start in range(0, len(items), PIECE))


def _line(body: object) -> bytes:
    return msgspec.json.encode(body) + b"\n"
